#pragma once
// A case as rows of words, made in one place for the terminal, Markdown, HTML and JSON. A printer chooses the columns
// that it has room for and says how they look; it does not ask which kind of case it prints.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// What a column says of a variant.
enum class Column {
  budget_value,      ///< the largest value of the budget's setting that fits
  rate,              ///< items per second
  quality,           ///< of a training, by its metric
  trained_in,        ///< the time of a whole training
  against_baseline,  ///< of a training: BETTER, NOT WORSE, WORSE
  time_to_quality,   ///< of a training: FASTER, SLOWER to the baseline's quality
  speed,
  predicted_speed,
  peak,
  memory,
  predicted_peak,
  agreement,
  expected,
};

/// How a cell looks where a printer has colours.
enum class Tone { plain, number, faint, faster, slower, smaller, larger, same, open, invalid, surprise };

struct Cell {
  std::string text = {};
  Tone tone = Tone::plain;
  std::string detail = {};  ///< why it is undecided: wide printers put it behind the text, others below the row
};

/// "UNDECIDED: in 3 of 6 seeds ...".
std::string with_detail(const Cell& cell);

struct Heading {
  Column column;
  std::string text;
};

/// One thing that is known of a variant besides its columns: "validation loss" "4.20".
struct Fact {
  enum class Of { quality, training, request, note, environment } of;
  std::string name, text;
};

struct VariantRow {
  std::string name;
  const VariantResult* variant = nullptr;
  const Verdict* verdict = nullptr;  ///< of a technique that was judged against a baseline
  std::map<Column, Cell> cells = {};
  std::vector<Fact> facts = {};

  /// An empty cell where the row has none in this column.
  const Cell& at(Column column) const;
  /// Speed, or of a training the time to an equal quality.
  const Cell& speed() const;
  /// Agreement, or of a training its quality against the baseline's.
  const Cell& agreement() const;
};

/// Pointers in it lead into the case.
struct CaseRows {
  const CaseResult* c = nullptr;
  std::string about = {};  ///< what is compared: the metric and its margin, the budget
  std::string ratio = {};  ///< what a ratio of speeds is, as a heading: "Items per second against the baseline"
  bool judged = true;      ///< there is a baseline; else rows stand for themselves, and are mostly facts
  std::vector<Heading> headings = {};
  std::vector<VariantRow> rows = {};

  bool has(Column column) const;
};

/// The only function that asks which kind of case it is.
CaseRows rows_of(const CaseResult& c);

/// As a page shows them: first what compares, then what trains to an end, then what stands for itself.
std::vector<CaseRows> rows_in_page_order(const Result& result);

/// A technique's row with where it belongs.
struct VerdictRow {
  const Result* result = nullptr;
  const CaseResult* c = nullptr;
  VariantRow row = {};
};

/// Every judged technique, in the order of the results.
std::vector<VerdictRow> verdict_rows(std::span<const Result> results);

/// "skipped: needs a CUDA device"; empty where the variant has no reason to give.
std::string reason_text(const VariantResult& variant);

}  // namespace tenfold
