#include "common/pages/book/links.h"

#include <regex>

namespace tenfold {

namespace fs = std::filesystem;

std::string relinked(const std::string& markdown, const fs::path& from, const fs::path& to) {
  static const std::regex link_or_code(R"(`[^`]*`|(\[[^\]]*\]\()([^)]*)\))");
  std::string out;
  std::sregex_iterator at(markdown.begin(), markdown.end(), link_or_code), end;
  size_t done = 0;
  for (; at != end; ++at) {
    out += markdown.substr(done, static_cast<size_t>(at->position()) - done);
    done = static_cast<size_t>(at->position() + at->length());
    const std::string target = (*at)[2];
    if (!(*at)[1].matched || target.find("://") != std::string::npos) {
      out += at->str();
      continue;
    }
    // A link into the same page has no path before its '#'.
    const fs::path path = target.starts_with('#') ? fs::path(from.string() + target) : from.parent_path() / target;
    out += (*at)[1].str() + path.lexically_normal().lexically_relative(to.parent_path()).generic_string() + ")";
  }
  return out + markdown.substr(done);
}

}  // namespace tenfold
