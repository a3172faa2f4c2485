// Figures: their specifications, the marker on a page, the file's stamp.
#include "common/pages/figures/figure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/generated.h"
#include "common/pages/figures/figure_curves.h"
#include "common/pages/figures/figure_notes.h"
#include "common/pages/figures/figure_roofline.h"
#include "common/pages/figures/work_points.h"
#include "common/pages/rows/case_words.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Relative luminance. Source: WCAG 2.2, "relative luminance" and "contrast ratio".
double luminance(const std::string& colour) {
  double sum = 0;
  const std::array<double, 3> weights = {0.2126, 0.7152, 0.0722};
  for (size_t i = 0; i < 3; ++i) {
    const double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    sum += weights[i] * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}
double contrast(const std::string& a, const std::string& b) {
  const double one = luminance(a) + 0.05, other = luminance(b) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

/// Every colour written anywhere in a specification or a drawing.
std::vector<std::string> colours_in(const std::string& text) {
  std::vector<std::string> found;
  const std::regex colour("#[0-9a-fA-F]{6}\\b");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), colour); at != std::sregex_iterator(); ++at)
    found.push_back(at->str());
  return found;
}

Timeline timeline(double forward, double backward) {
  Timeline made;
  for (const auto& [region, most] : {std::pair("forward", forward), {"backward", backward}, {"optimizer", 2e6}}) {
    for (int i = 1; i <= 10; ++i) {
      made.bytes.push_back(std::llround(most * i / 10));
      made.region.emplace_back(region);
    }
  }
  return made;
}

CaseResult remembered() {
  CaseResult c = sample_result().cases[0];
  c.variants[0].timeline = timeline(16 << 20, 12 << 20);
  c.variants[1].timeline = timeline(4 << 20, 8 << 20);
  return c;
}

/// The technique is `speeds[i]` as fast at layers = 1, 2, 4, 8 ...
Result swept(const std::vector<double>& speeds) {
  Result result = sample_result();
  const CaseResult one = result.cases[0];
  result.cases.clear();
  int64_t layers = 1;
  for (const double speed : speeds) {
    CaseResult c = one;
    c.name = "R2 layers=" + std::to_string(layers);
    c.sweep = SweepPoint{"layers", layers};
    c.verdicts[0].speed = {speed > 1 ? "FASTER" : "SLOWER", speed, speed * 0.98, speed * 1.02};
    c.variants[1].predicted.speed_ratio = speed * 1.1;
    result.cases.push_back(c);
    layers *= 2;
  }
  return result;
}

/// Rows of data of all layers and panels that hold a field.
std::vector<Json> rows_with(const Json& spec, const std::string& field) {
  std::vector<Json> found;
  if (spec.is_object() && spec.contains("values") && spec["values"].is_array()) {
    for (const Json& row : spec["values"]) {
      if (row.is_object() && row.contains(field)) found.push_back(row);
    }
  }
  if (spec.is_structured()) {
    for (const Json& part : spec) {
      const auto inner = rows_with(part, field);
      found.insert(found.end(), inner.begin(), inner.end());
    }
  }
  return found;
}

/// With 1 MiB of gradients on 3 MiB that stay.
CaseResult told_apart() {
  CaseResult told = remembered();
  for (VariantResult& variant : told.variants) {
    if (!variant.timeline) continue;
    variant.timeline->gradients.emplace(variant.timeline->bytes.size(), 1 << 20);
    variant.timeline->states = 3 << 20;
  }
  return told;
}

/// A lesson with counted work, and one whose variants note their own intensity, under known ceilings.
std::vector<Result> under_a_roof() {
  Result counted = sample_result(), noted = sample_result();
  // 10 steps of 1000 items in 0.1 s: a step is 10 ms, 100,000 items/s.
  counted.cases[0].variants[0].counted = {{"flops", 2e8}, {"operator_bytes", 1e8}};
  noted.lesson = "02_roofline", noted.title = "Roofline";
  for (size_t i = 0; i < 2; ++i) noted.cases[0].variants[i].notes["arithmetic intensity"] = {8, "FLOP per byte"};
  for (Result* result : {&counted, &noted})
    result->machine.ceilings = {{"cpu_copy_bytes_per_s", 1e10},
                                {"cpu_flops_per_s", 1e11},
                                {"cpu_all_cores_copy_bytes_per_s", 2e10},
                                {"cpu_all_cores_flops_per_s", 2e11}};
  return {counted, noted};
}

CaseResult surveyed() {
  CaseResult survey;
  survey.name = "waiting", survey.kind = "survey";
  VariantResult never, always;
  never.name = "never", always.name = "always";
  never.notes = {{"waits", {0, "a step"}}};
  always.notes = {{"waits", {3, "a step"}}, {"batch 1", {20, "images/s"}}, {"batch 2", {40, "images/s"}}};
  survey.variants = {never, always};
  return survey;
}

std::vector<Figure> all_figures() {
  return {*memory_figure(remembered()),
          *memory_figure(told_apart()),
          *split_figure(remembered()),
          *ratio_figure(remembered()),
          *sweep_figure(swept({0.7, 0.9, 1.2, 1.5}).cases),
          *notes_figure(surveyed(), "waits"),
          *roofline_figure(under_a_roof(), "02_roofline")};
}

TEST(FigureSpecs, NotesAreBarsOfLooksOrOfOneLook) {
  const Figure waits = *notes_figure(surveyed(), "waits");
  EXPECT_EQ(waits.alt, "waits (a step) in survey waiting: never 0; always 3");
  ASSERT_EQ(rows_with(waits.spec, "x2").size(), 2);
  EXPECT_EQ(rows_with(waits.spec, "x2")[1]["x2"], 3);
  const Figure look = *notes_figure(surveyed(), "always");
  EXPECT_EQ(look.alt, "always (images/s) in survey waiting: batch 1 20; batch 2 40") << "the unit that most have";
  EXPECT_FALSE(notes_figure(surveyed(), "nothing"));
}

TEST(FigureSpecs, EveryColourIsSeenOnBothPages) {
  std::vector<std::string> allowed = {kFigureInside};
  for (const FigureColour& colour : figure_colours()) {
    for (const char* shade : {colour.plain, colour.on_light, colour.on_dark}) {
      EXPECT_GE(contrast(shade, kWhitePage), 3) << shade;
      EXPECT_GE(contrast(shade, kDarkPage), 3) << shade;
      EXPECT_GE(contrast(shade, kFigureInside), 3) << "text inside an area of " << shade;
    }
    EXPECT_GE(contrast(colour.on_light, kWhitePage), 4) << "a light scheme is not worse than the plain colour";
    EXPECT_GE(contrast(colour.on_dark, kDarkPage), 4);
    allowed.emplace_back(colour.plain);
  }
  for (const Figure& figure : all_figures()) {
    const auto used = colours_in(figure.spec.dump());
    EXPECT_FALSE(used.empty());
    for (const std::string& colour : used) EXPECT_TRUE(std::ranges::find(allowed, colour) != allowed.end()) << colour;
    EXPECT_TRUE(figure.spec["background"].is_null());
  }
}

TEST(FigureSpecs, TextCanBeReadOnAPhone) {
  const std::regex size("\"[a-zA-Z]*[fF]ontSize\":([0-9]+)");
  for (const Figure& figure : all_figures()) {
    const std::string text = figure.spec.dump();
    for (auto at = std::sregex_iterator(text.begin(), text.end(), size); at != std::sregex_iterator(); ++at)
      EXPECT_GE(std::stoi((*at)[1]) * 400.0 / kFigureWidth, 9) << at->str();
  }
}

TEST(FigureSpecs, TheSplitNamesEachPartThatCounts) {
  const auto figure = split_figure(remembered());
  ASSERT_TRUE(figure);
  // 100 ms: data 1, host 2, device 90, copy 3, communication 4. Each bar is 100 % of its own step.
  std::string texts;
  for (const Json& row : rows_with(figure->spec, "text")) texts += row["text"].get<std::string>() + "\n";
  EXPECT_TRUE(has(texts, "\ndevice 90 %\n") || texts.starts_with("device 90 %\n")) << texts;
  EXPECT_TRUE(has(texts, "data 1.0 %, host 2.0 %, copy 3.0 %, communication 4.0 %\n")) << texts;
  EXPECT_FALSE(has(texts, "ms")) << texts;
  EXPECT_TRUE(has(figure->alt, "large batch data 1.0 %, host 2.0 %, device 90 %")) << figure->alt;
  double longest = 0;
  for (const Json& row : rows_with(figure->spec, "x2")) longest = std::max(longest, row["x2"].get<double>());
  EXPECT_NEAR(longest, 100, 1e-6);
  CaseResult without = remembered();
  for (VariantResult& variant : without.variants) variant.split.reset();
  EXPECT_FALSE(split_figure(without));
}

TEST(FigureSpecs, RatiosStandWithTheirIntervals) {
  const auto figure = ratio_figure(remembered());
  ASSERT_TRUE(figure);
  EXPECT_TRUE(has(figure->alt, "accumulate: speed ")) << figure->alt;
  EXPECT_TRUE(has(figure->alt, "memory 0.250x")) << figure->alt;
  EXPECT_EQ(rows_with(figure->spec, "x2").size(), 1) << "one was timed";
  EXPECT_FALSE(has(figure->spec.dump(), "zeroes every micro-batch")) << "what is wrong has no ratio";
  CaseResult none = remembered();
  for (Verdict& verdict : none.verdicts) verdict.speed.ratio.reset(), verdict.memory.ratio.reset();
  EXPECT_FALSE(ratio_figure(none));
}

TEST(FigureSpecs, MemoryIsShownWhenBothWereLookedAt) {
  const auto figure = memory_figure(remembered());
  ASSERT_TRUE(figure);
  EXPECT_TRUE(has(figure->alt, "large batch: peak 16.0 MiB in forward; accumulate: peak 8.00 MiB in backward"))
      << figure->alt;
  ASSERT_EQ(figure->spec["vconcat"].size(), 2);
  for (const Json& panel : figure->spec["vconcat"]) {
    const std::string text = panel.dump();
    for (const char* region : {"forward", "backward", "optimizer"})
      EXPECT_TRUE(has(text, "\"text\":\"" + std::string(region) + "\"")) << region;
    EXPECT_TRUE(has(text, "\"domain\":[0,")) << "bytes start at zero";
  }
  CaseResult half = remembered();
  half.variants[1].timeline.reset();
  EXPECT_FALSE(memory_figure(half));
  half = remembered();
  half.variants[0].timeline.reset();
  EXPECT_FALSE(memory_figure(half));
  EXPECT_FALSE(memory_figure(remembered(), "zeroes every micro-batch"));
}

TEST(FigureSpecs, MemoryShowsGradientsAndWhatStaysWhereTheyAreToldApart) {
  const auto with = memory_figure(told_apart()), without = memory_figure(remembered());
  ASSERT_TRUE(with && without);
  for (size_t panel = 0; panel < 2; ++panel) {
    EXPECT_EQ(with->spec["vconcat"][panel]["layer"].size(), without->spec["vconcat"][panel]["layer"].size() + 1);
    const Json band = rows_with(with->spec["vconcat"][panel], "y2").back();
    EXPECT_EQ(band["y"], 3) << "MiB that stay";
    EXPECT_EQ(band["y2"], 4) << "gradients on top";
  }
  EXPECT_TRUE(has(with->spec.dump(), "parameters and optimizer state"));
  EXPECT_FALSE(has(without->spec.dump(), "parameters and optimizer state"));
}

TEST(FigureSpecs, ACrossoverNeedsBothSides) {
  const auto crossing = sweep_figure(swept({0.5, 0.8, 1.25, 2}).cases);
  ASSERT_TRUE(crossing);
  EXPECT_TRUE(has(crossing->alt, "faster from 4")) << crossing->alt;
  EXPECT_TRUE(has(crossing->alt, "speed 0.500x to 2.00x")) << crossing->alt;
  EXPECT_TRUE(has(sweep_figure(swept({2, 1.25, 0.8, 0.5}).cases)->alt, "faster up to 2"));
  EXPECT_FALSE(has(sweep_figure(swept({0.5, 0.8, 0.9}).cases)->alt, "faster"));
  EXPECT_FALSE(has(sweep_figure(swept({0.5, 0.8, 1.005}).cases)->alt, "faster")) << "its interval holds 1";
  EXPECT_FALSE(has(sweep_figure(swept({0.995, 1.3, 2}).cases)->alt, "faster")) << "nothing is slower for certain";
  EXPECT_FALSE(sweep_figure(swept({0.5}).cases));
  EXPECT_FALSE(sweep_figure({}));
}

TEST(WorkPoints, CountedStepsAndNotedOnes) {
  std::vector<Result> results = under_a_roof();
  const WorkPoints found = work_points(results);
  ASSERT_EQ(found.points.size(), 3U);
  EXPECT_EQ(found.left_out, 0U);
  EXPECT_EQ(found.points[0].name, "30 Gradient accumulation, R2 batch=4, large batch");
  EXPECT_DOUBLE_EQ(found.points[0].intensity, 2);
  EXPECT_NEAR(found.points[0].flops_per_s / 2e10, 1, 0.01);
  EXPECT_EQ(found.points[2].name, "02 Roofline, R2 batch=4, accumulate");
  EXPECT_DOUBLE_EQ(found.points[2].intensity, 8);
  EXPECT_DOUBLE_EQ(found.points[2].flops_per_s, items_per_second(results[1].cases[0].variants[1]));
  results[0].cases[0].device = "cuda";
  results[1].cases[0].ranks = 2;
  EXPECT_TRUE(work_points(results).points.empty());
  EXPECT_EQ(work_points(results).left_out, 2U);
}

TEST(FigureSpecs, TheRooflineHasBothRoofsAndEveryStep) {
  std::vector<Result> results = under_a_roof();
  const Figure figure = *roofline_figure(results, "02_roofline");
  std::string texts;
  for (const Json& row : rows_with(figure.spec, "text")) texts += row["text"].get<std::string>() + ";";
  EXPECT_EQ(texts, "one core;all cores;30;");
  const auto rows = rows_with(figure.spec, "x");
  const auto stands = [&](double x, double y) {
    return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
      return std::abs(row["x"].get<double>() - x) < 1e-6 && std::abs(row["y"].get<double>() / y - 1) < 0.01;
    });
  };
  EXPECT_TRUE(stands(10, 100)) << "the ridge point of one core";
  EXPECT_TRUE(stands(10, 200)) << "the ridge point of all cores";
  EXPECT_TRUE(stands(2, 20)) << "the counted step";
  EXPECT_TRUE(has(figure.alt, "at most 100 GFLOP/s and copies 10 GB/s; 1 step of other lessons: 20")) << figure.alt;
  for (Result& result : results) result.machine.ceilings.clear();
  EXPECT_FALSE(roofline_figure(results, "02_roofline"));
  EXPECT_FALSE(roofline_figure({}, "02_roofline"));
}

TEST(FigureFile, ItsStampTellsWhatItWasDrawnFrom) {
  const Figure figure = *split_figure(remembered());
  const std::string svg = finished_svg("<svg width=\"9\"><text fill=\"#757d87\">a</text></svg>", figure);
  EXPECT_TRUE(is_drawn_as(svg, figure));
  EXPECT_TRUE(has(svg, "prefers-color-scheme:dark"));
  EXPECT_TRUE(has(svg, "<title>Where one step"));
  Figure other = figure;
  other.spec["height"] = 1;
  EXPECT_FALSE(is_drawn_as(svg, other)) << "another specification";
  other = figure;
  other.alt += "!";
  EXPECT_FALSE(is_drawn_as(svg, other)) << "another text";
  std::string edited = svg;
  edited.replace(edited.find(">a<"), 3, ">b<");
  EXPECT_FALSE(is_drawn_as(edited, figure)) << "a drawing changed by hand";
  EXPECT_FALSE(is_drawn_as("", figure));
  EXPECT_THROW(finished_svg("no drawing", figure), std::invalid_argument);
}

TEST(FigureFile, ItsStampHasTheRendererThatIsPinned) {
  const fs::path tools = test::source_folder() / "common" / "tools";
  EXPECT_TRUE(has(read_text(tools / "requirements-test.txt"), std::string("\n") + kRenderer + "\n"));
  EXPECT_TRUE(has(read_text(tools / "figures.py"), std::string("\nVEGA_LITE = \"") + kVegaLite + "\"\n"));
}

class FigureOnPage : public testing::Test {
 protected:
  FigureOnPage() {
    write("results/REFERENCE", "2x-sample-cpu\n");
    write(folder_ + "/lesson.cpp", "int a;\n");
    marker("split");
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(root_ / name, text); }
  void marker(const std::string& arguments, const std::string& part = "figure") const {
    write(folder_ + "/README.md",
          "before\n<!-- tenfold:begin " + part + " " + arguments + " -->\n<!-- tenfold:end -->\nafter\n");
  }
  void publish(const Result& result, const std::string& name) const {
    write_result(root_ / "results" / result.machine.id / name, result);
  }
  std::map<std::string, GeneratedFile> files() const {
    std::map<std::string, GeneratedFile> all;
    for (const GeneratedFile& file : generate_documents(root_, {}))
      all.emplace(file.path.lexically_relative(root_).generic_string(), file);
    return all;
  }
  std::string complaint() const {
    return test::message_of<FileError>([&] { generate_documents(root_, {}); });
  }
  test::Scratch scratch_;
  fs::path root_ = scratch_.path();
  const std::string folder_ = "lessons/30_gradient_accumulation";
  const std::string svg_ = folder_ + "/figures/split_R2_batch_4.svg";
};

TEST_F(FigureOnPage, NothingIsShownOfWhatIsNotPublished) {
  EXPECT_TRUE(has(files().at(folder_ + "/README.md").text, " -->\n<!-- tenfold:end -->\n"));
  publish(sample_result(), "30_gradient_accumulation.json");
  marker("memory");
  EXPECT_TRUE(has(files().at(folder_ + "/README.md").text, " -->\n<!-- tenfold:end -->\n")) << "no timeline";
  EXPECT_FALSE(files().contains(svg_));
}

TEST_F(FigureOnPage, AnImageIsDrawnOnceAndRemovedWhenNoPageShowsIt) {
  publish(sample_result(), "30_gradient_accumulation.json");
  auto all = files();
  EXPECT_TRUE(has(all.at(folder_ + "/README.md").text, "-->\n![Where one step's time goes"))
      << all.at(folder_ + "/README.md").text;
  EXPECT_TRUE(has(all.at(folder_ + "/README.md").text, "](figures/split_R2_batch_4.svg)\n<!-- tenfold:end -->"));
  ASSERT_TRUE(all.at(svg_).figure) << "it has to be drawn";
  write(svg_, finished_svg("<svg></svg>", all.at(svg_).figure->figure));
  all = files();
  EXPECT_FALSE(all.at(svg_).figure);
  EXPECT_EQ(all.at(svg_).text, all.at(svg_).old_text);
  marker("ratio");
  all = files();
  EXPECT_FALSE(all.at(svg_).figure);
  EXPECT_EQ(all.at(svg_).text, "") << "no page shows it any more";
  EXPECT_TRUE(all.at(folder_ + "/figures/ratio_R2_batch_4.svg").figure);
}

TEST_F(FigureOnPage, ASweepComesFromItsOwnFolder) {
  publish(swept({0.5, 0.8, 1.25, 2}), "sweeps/30_layers_R2.json");
  marker("sweep layers");
  const auto all = files();
  EXPECT_TRUE(all.at(folder_ + "/figures/sweep_layers.svg").figure);
  EXPECT_TRUE(has(all.at(folder_ + "/README.md").text, "the lesson's code has changed since"));
  EXPECT_FALSE(has(all.at("docs/results.md").text, "layers=")) << "no row of its own";
}

TEST_F(FigureOnPage, ASweepOfOneOfTwoCasesIsNamed) {
  publish(swept({0.5, 0.8, 1.25, 2}), "sweeps/30_layers_R2.json");
  Result other = swept({0.5, 0.8, 1.25, 2});
  for (CaseResult& c : other.cases) c.name.replace(0, 2, "R3 wide");
  publish(other, "sweeps/30_layers_R3_wide.json");
  marker("sweep layers");
  EXPECT_TRUE(has(complaint(), "there are sweeps of layers over the cases R2 and R3 wide")) << complaint();
  marker("sweep layers R3 wide");
  EXPECT_TRUE(files().at(folder_ + "/figures/sweep_layers_R3_wide.svg").figure);
  marker("sweep layers R4");
  EXPECT_FALSE(has(files().at(folder_ + "/README.md").text, ".svg")) << "nothing was published of it";
}

TEST_F(FigureOnPage, ARooflineHasTheStepsOfAllLessons) {
  const std::vector<Result> results = under_a_roof();
  publish(results[1], "02_roofline.json");
  marker("roofline");
  const auto page = [&] { return files().at(folder_ + "/README.md").text; };
  EXPECT_TRUE(has(page(), "; 2 steps of other lessons: ")) << page();
  EXPECT_FALSE(has(page(), "this lesson's")) << page();
  publish(results[0], "30_gradient_accumulation.json");
  EXPECT_TRUE(has(page(), "; this lesson's variants: ")) << page();
  EXPECT_TRUE(files().at(folder_ + "/figures/roofline.svg").figure);
}

TEST_F(FigureOnPage, ADryGpusFigureNamesTheCardAndSaysThatTimeIsModelled) {
  publish(sample_result(), "30_gradient_accumulation.json");
  const Result dry = sample_modelled_result("H100");
  publish(dry, dry.lesson + ".json");
  marker("H100 ratio", "figure_dry");
  const auto all = files();
  EXPECT_TRUE(all.at(folder_ + "/figures/dry_H100_ratio_R2_batch_4.svg").figure);
  const std::string& page = all.at(folder_ + "/README.md").text;
  EXPECT_TRUE(has(page, human_ratio(*dry.cases[0].verdicts[0].speed.ratio))) << page;
  EXPECT_TRUE(has(page, "*A [dry](../../docs/dry_gpu.md) H100: memory is counted, time modelled.*\n")) << page;
  marker("T4 ratio", "figure_dry");
  EXPECT_FALSE(has(files().at(folder_ + "/README.md").text, ".svg")) << "nothing was published of it";
  marker("H100 sweep layers", "figure_dry");
  EXPECT_TRUE(has(complaint(), "a dry GPU has no sweep")) << complaint();
  marker("", "figure_dry");
  EXPECT_TRUE(has(complaint(), "figure needs a kind")) << complaint();
}

TEST_F(FigureOnPage, AMarkerThatMeansNothingIsRefused) {
  publish(sample_result(), "30_gradient_accumulation.json");
  for (const auto& [arguments, why] : {std::pair("pie", "unknown kind 'pie'"),
                                       {"", "figure needs a kind"},
                                       {"split nowhere", "has no case 'nowhere'"},
                                       {"memory R2 batch=4 | magic", "has no technique 'magic'"},
                                       {"notes", "notes needs a survey"},
                                       {"notes R2 batch=4 | magic", "has no look and no note 'magic'"},
                                       {"sweep", "sweep needs a setting"}}) {
    marker(arguments);
    EXPECT_TRUE(has(complaint(), why)) << arguments << ": " << complaint();
    EXPECT_TRUE(has(complaint(), "README.md:2: ")) << complaint();
  }
}

TEST(FigureDrawing, WhatCannotBeDrawnSaysWhy) {
  const test::Scratch scratch;
  test::write_text(scratch.path() / "draw", "import sys\nsys.exit('no package')\n");
  const std::vector<PageFigure> one = {{"a.svg", *split_figure(remembered()), ""}};
  const auto why =
      test::message_of<std::invalid_argument>([&] { draw_figures(one, "python3", scratch.path() / "draw"); });
  EXPECT_EQ(why, "figures cannot be drawn: no package");
  test::write_text(scratch.path() / "draw",
                   "import json, sys\nspecs = json.load(open(sys.argv[1]))\n"
                   "print(json.dumps({name: '<svg>%d</svg>' % spec['width'] for name, spec in specs.items()}))\n");
  const auto drawn = draw_figures(one, "python3", scratch.path() / "draw");
  EXPECT_TRUE(is_drawn_as(drawn.at("a.svg"), one[0].figure));
  EXPECT_TRUE(has(drawn.at("a.svg"), "</style>720</svg>")) << drawn.at("a.svg");
}

}  // namespace
}  // namespace tenfold
