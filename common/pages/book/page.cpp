#include "common/pages/book/page.h"

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/result/code_hash.h"

namespace tenfold {

namespace fs = std::filesystem;

std::string lesson_link(const Page& page, const std::string& lesson) {
  const fs::path file = page.root / "lessons" / lesson / "README.md";
  return "[" + number_of_name(lesson) + "](" + file.lexically_relative(page.path.parent_path()).generic_string() + ")";
}

bool is_of_earlier_model(const Page& page, const Result& result) {
  return is_dry(result.machine) && page.earlier_models.contains(result.commit) && has_times(result);
}

std::string earlier(bool code, bool model) {
  if (!code && !model) return "";
  return std::string(" (earlier ") + (code ? "code" : "") + (code && model ? " and " : "") + (model ? "model" : "") +
         ")";
}

std::string earlier(const Page& page, const Result& result) {
  return earlier(result.code_hash != code_hash(page.root / "lessons" / result.lesson),
                 is_of_earlier_model(page, result));
}

}  // namespace tenfold
