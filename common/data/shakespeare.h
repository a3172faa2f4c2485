#pragma once
// The works of Shakespeare: the text that every language-model lesson trains on.

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// A play, or a book of poems. ASCII, lines ended by '\n'.
struct Book {
  std::string name;  ///< e.g. "hamlet"
  std::string text;
};

/// The plays never trained on, one of each kind (history, tragedy, comedy, romance); about a tenth of the text. Whole
/// plays are held out, so that no sentence of a scene seen in training appears in the test.
inline constexpr std::array<std::string_view, 4> kHeldOutPlays = {"henry_v", "macbeth", "twelfth_night",
                                                                  "winters_tale"};

/// All books in the order of their names. Throws DataError when a file is missing, altered or not ASCII.
std::vector<Book> shakespeare();

/// The books to train on (true), or the held-out plays (false); together all books. Throws DataError as above.
std::vector<Book> shakespeare(bool train);

}  // namespace tenfold
