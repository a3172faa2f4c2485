#pragma once
// A page that is being filled, and what its parts say of a result alike.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/pages/book/generated.h"
#include "common/pages/figures/figure.h"

namespace tenfold {

/// A page that is being filled, and what it is filled from.
struct Page {
  const std::filesystem::path& path;
  const std::string& text;
  const std::filesystem::path& root;
  const std::vector<LessonEntry>& lessons;
  const std::vector<Result>& published;
  const std::vector<Result>& dry;             ///< of GPUs that are not there
  const std::vector<Result>& references;      ///< those of `published` that pages speak of (references.h)
  std::vector<PageFigure>& figures;           ///< gets those that the page shows
  std::set<std::string> earlier_models = {};  ///< of `dry` and of scores: another model of time than this tree's
};

/// "[30](../lessons/30_gradient_accumulation/README.md)": from the page to the lesson's.
std::string lesson_link(const Page& page, const std::string& lesson);

/// Whether the result has modelled speeds, by another model of time than this tree's.
bool is_of_earlier_model(const Page& page, const Result& result);

/// " (earlier code)" where the lesson's code has changed since the result was measured, " (earlier model)" where the
/// model of its speeds has, else nothing. Reads the lesson's sources: once for a result, not for each of its rows.
std::string earlier(const Page& page, const Result& result);
std::string earlier(bool code, bool model);

}  // namespace tenfold
