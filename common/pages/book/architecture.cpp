#include "common/pages/book/architecture.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "common/pages/rows/markdown_table.h"

namespace tenfold {
namespace {

constexpr const char* kHead = "| folder | holds | includes | LibTorch |";

/// "`a`, `b`" -> a, b.
std::vector<std::string> names_in(const std::string& cell) {
  std::vector<std::string> names;
  for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
    const size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) throw std::invalid_argument("a backquote without its partner: " + cell);
    names.push_back(cell.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

}  // namespace

std::vector<TreeFolder> tree_folders(const std::string& page) {
  const size_t head = page.find(kHead);
  if (head == std::string::npos) throw std::invalid_argument(std::string("there is no table ") + kHead);
  std::istringstream text(page.substr(head));
  std::string line;
  std::getline(text, line);
  std::getline(text, line);  // |---|
  std::vector<TreeFolder> folders;
  std::set<std::string> paths;
  while (std::getline(text, line) && line.starts_with('|')) {
    const std::vector<std::string> cells = markdown_cells(line);
    if (cells.size() != 4 || names_in(cells[0]).size() != 1)
      throw std::invalid_argument("a row is not `folder`, holds, includes, LibTorch: " + line);
    folders.push_back({names_in(cells[0])[0], cells[1], names_in(cells[2]), cells[3]});
    if (!paths.insert(folders.back().path).second) throw std::invalid_argument(folders.back().path + " has two rows");
  }
  for (const TreeFolder& folder : folders) {
    for (const std::string& included : folder.includes) {
      if (!paths.contains(included))
        throw std::invalid_argument(folder.path + " includes " + included + ", which has no row");
    }
  }
  for (const auto& [path, reached] : reachable_folders(folders)) {
    if (reached.contains(path)) throw std::invalid_argument(path + " includes itself through others");
  }
  return folders;
}

std::map<std::string, std::set<std::string>> reachable_folders(const std::vector<TreeFolder>& folders) {
  std::map<std::string, const TreeFolder*> rows;
  for (const TreeFolder& folder : folders) rows[folder.path] = &folder;
  std::map<std::string, std::set<std::string>> reachable;
  for (const TreeFolder& folder : folders) {
    std::set<std::string>& reached = reachable[folder.path];
    const std::function<void(const TreeFolder&)> follow = [&](const TreeFolder& from) {
      for (const std::string& next : from.includes) {
        if (reached.insert(next).second) follow(*rows.at(next));
      }
    };
    follow(folder);
  }
  return reachable;
}

std::string arrows_markdown(const std::vector<TreeFolder>& folders) {
  const auto id = [](std::string path) {
    std::replace(path.begin(), path.end(), '/', '_');
    return path;
  };
  std::string out = "```mermaid\nflowchart TD\n";
  for (const TreeFolder& folder : folders) {
    const bool torch = folder.torch != "no";
    out += "  " + id(folder.path) + (torch ? "([" : "[") + folder.path + (torch ? "])" : "]") + "\n";
  }
  for (const TreeFolder& folder : folders) {
    for (const std::string& included : folder.includes) out += "  " + id(folder.path) + " --> " + id(included) + "\n";
  }
  return out + "```\n";
}

}  // namespace tenfold
