#include "common/data/shakespeare.h"
#include "common/data/data_files.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace tenfold {
namespace {

constexpr std::string_view kSuffix = "_gut.txt";

bool held_out(std::string_view name) { return std::ranges::find(kHeldOutPlays, name) != kHeldOutPlays.end(); }

}  // namespace

std::vector<Book> shakespeare() {
  const std::filesystem::path folder = data_folder() / "shakespeare", sums = folder / "SHA256SUMS";
  if (!std::filesystem::exists(sums)) fail_data_file(sums, "is missing");
  // The list, not the folder, says which books there are: a book that is gone must not go unnoticed.
  std::vector<Book> books;
  std::istringstream lines(read_file(sums));
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= 66 + kSuffix.size() || !line.ends_with(kSuffix)) fail_data_file(sums, "is damaged");
    const std::string file = line.substr(66);
    books.push_back({file.substr(0, file.size() - kSuffix.size()), read_data_file(folder / file)});
    const bool ascii =
        std::ranges::all_of(books.back().text, [](char c) { return static_cast<unsigned char>(c) < 128; });
    if (!ascii) fail_data_file(folder / file, "is not ASCII");
  }
  for (const std::string_view play : kHeldOutPlays) {
    if (std::ranges::find(books, play, &Book::name) == books.end())
      fail_data_file(sums, "does not list " + std::string(play));
  }
  std::ranges::sort(books, {}, &Book::name);
  return books;
}

std::vector<Book> shakespeare(bool train) {
  std::vector<Book> books = shakespeare();
  std::erase_if(books, [&](const Book& book) { return held_out(book.name) == train; });
  return books;
}

}  // namespace tenfold
