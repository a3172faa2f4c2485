#pragma once
// Figures on the lessons' pages: which one a marker means, and the SVG file that GitHub shows.
//
//   <!-- tenfold:begin figure KIND [CASE [| TECHNIQUE]] -->    KIND is memory, split, ratio, waterfall
//   <!-- tenfold:begin figure notes SURVEY | NOTE -->          or | LOOK
//   <!-- tenfold:begin figure sweep SETTING [CASE] [| TECHNIQUE] -->
//
// becomes an image line, or nothing as long as no machine in results/REFERENCE has published such a result. Without
// CASE it is the case of the lesson's headline, or the one that was swept over SETTING. The file is
// figures/KIND_CASE.svg beside the page. It begins with a stamp of its specification and of itself, so that checking it
// needs no renderer.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold {

/// What draws: as common/tools/requirements-test.txt and figures.py pin it, and a part of each stamp.
inline constexpr const char *kRenderer = "vl-convert-python==1.9.0", *kVegaLite = "5.21";

struct PageFigure {
  std::filesystem::path file;
  Figure figure;
  std::string remark;  ///< below it
};

/// From what is `published`, of which `references` are the results that pages speak of (references.h). Throws
/// std::invalid_argument on a marker that means no figure.
std::optional<PageFigure> page_figure(const std::filesystem::path& page, const std::vector<std::string>& arguments,
                                      const std::filesystem::path& root, const std::vector<Result>& published,
                                      const std::vector<Result>& references);

/// The image line and the remark.
std::string figure_markdown(const PageFigure& figure, const std::filesystem::path& page);

/// Whether a committed file is what `figure` was drawn as, by its stamp.
bool is_drawn_as(const std::string& svg, const Figure& figure);

/// A drawing as it is committed: stamped, with its text for screen readers and the colours of both schemes.
std::string finished_svg(const std::string& drawing, const Figure& figure);

/// Draws with `python` and common/tools/figures.py, which needs vl-convert-python. Throws std::invalid_argument with
/// what that said.
std::map<std::filesystem::path, std::string> draw_figures(const std::vector<PageFigure>& figures,
                                                          const std::filesystem::path& python,
                                                          const std::filesystem::path& script);

}  // namespace tenfold
