#pragma once
// What a page's paragraphs explain: rows that came out otherwise than stated or predicted, and in which direction.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A comment above a paragraph: <!-- explains CASE | TECHNIQUE -->, or with a direction, <!-- explains CASE | TECHNIQUE
/// | slower -->: the paragraph says why the measured speed is below the predicted one; "faster", why it is above.
struct Explained {
  std::string row;        ///< "CASE | TECHNIQUE"
  std::string direction;  ///< empty where the comment has none
  size_t at;              ///< where the comment begins
};

/// All such comments.
std::vector<Explained> explained_in(const std::string& page_text);

/// Why the direction does not go with what was measured, as the end of a sentence: "was predicted at 0.800x and
/// measured at 0.900x, which is not slower". Empty where it does, or where there is none.
std::string misdirected(const Explained& explained, const VariantResult& technique, const Verdict& verdict);

/// Adds a line to `wrong` for each direction on a lesson's page that the lesson's result in `references` contradicts.
void check_explained(const std::string& page_text, const std::filesystem::path& page,
                     const std::vector<Result>& references, std::vector<std::string>& wrong);

}  // namespace tenfold
