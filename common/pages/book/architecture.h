#pragma once
// docs/architecture.md: the table that says which folder may include which, and the picture made of it.

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenfold {

/// One row of the table.
struct TreeFolder {
  std::string path;                   ///< "common/result", "kernels"
  std::string holds;                  ///< in one line
  std::vector<std::string> includes;  ///< paths of other rows: the arrows that the picture shows
  std::string torch;                  ///< "no" where no file may include a header of LibTorch, else who does
};

/// The rows of the table "| folder | holds | includes | LibTorch |" in a page. Throws std::invalid_argument when there
/// is none, when a row has another number of cells, when a folder has two rows, or when an arrow leads to a folder
/// without a row or in a circle.
std::vector<TreeFolder> tree_folders(const std::string& page);

/// What each folder may include: all that its arrows lead to, directly or through others.
std::map<std::string, std::set<std::string>> reachable_folders(const std::vector<TreeFolder>& folders);

/// The picture as a block of Mermaid, which GitHub and MkDocs draw.
std::string arrows_markdown(const std::vector<TreeFolder>& folders);

}  // namespace tenfold
