#pragma once
// What the characters of Shakespeare's plays say, one speech after the other: texts of very different lengths, with
// labels.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/shakespeare.h"

namespace tenfold {

/// The kind of play, as a number from 0: a label. The romances (Pericles, The Tempest, The Winter's Tale) count as
/// comedies; Cymbeline and Troilus and Cressida as tragedies, as in the first edition of the plays.
enum class Genre { comedy, tragedy, history };

inline constexpr std::array<std::string_view, 3> kGenreNames = {"comedy", "tragedy", "history"};

struct Speech {
  std::string play;     ///< e.g. "hamlet"
  std::string speaker;  ///< as printed, without the full stop: "HORATIO", "Ham", "FIRST MURDERER"
  std::string text;     ///< lines joined by '\n', without stage directions; never empty
  Genre genre = Genre::comedy;
};

/// The speeches of one play in their order, or none of a book of poems. A speech begins at a line of its own that names
/// the speaker, at the head of a paragraph, and goes on over stage directions until the next speaker or scene.
std::vector<Speech> speeches_of(const Book& book);

/// All speeches of the plays to train on (true) or of the held-out plays (false, see kHeldOutPlays). Throws DataError
/// when a text is missing or altered.
std::vector<Speech> speeches(bool train);

}  // namespace tenfold
