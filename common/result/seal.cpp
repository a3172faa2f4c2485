#include "common/result/seal.h"

#include "common/base/files.h"
#include "common/base/sha256.h"

namespace tenfold {

namespace fs = std::filesystem;

std::string seal_of(const std::map<std::string, std::string>& texts) {
  std::string lines;
  for (const auto& [name, text] : texts) lines += sha256(text) + "  " + name + "\n";
  return lines;
}

std::map<std::string, std::string> sealed_texts(const fs::path& folder) {
  std::map<std::string, std::string> texts;
  for (const fs::path& file : json_files_in(folder)) texts[file.filename().string()] = read_text(file);
  return texts;
}

std::string check_seal(const fs::path& folder) {
  const fs::path file = folder / kSealFile;
  if (!fs::exists(file)) throw FileError(file.string() + ": there is none; a dry GPU's set gets it from publish");
  const std::string sealed = read_text(file);
  if (sealed != seal_of(sealed_texts(folder)))
    throw FileError(file.string() + ": a result in its folder is not as it was sealed; see: sha256sum -c " +
                    std::string(kSealFile));
  return sha256(sealed);
}

}  // namespace tenfold
