#include "common/pages/book/published_ladders.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/rows/kernel_rows.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kApart = 1.15;  // published times nearer than that are taken as equal

struct PublishedRung {
  std::string name;
  size_t ours = 0;  ///< our rung that does the same
  double seconds = 0;
};
/// What was measured of a kernel's rungs, by others or of our own code: docs/published_ladders/NAME.json.
struct PublishedLadder {
  std::string name, kernel, shape, gpu, source, url, date, note;
  std::string column;  ///< the pages' GPU that is nearest to its own
  bool own = false;    ///< our code, from a report in results/
  std::string timed;   ///< of our own code, the report's ladder: "softmax, BFloat16, 8192 x 8192"
  bool held_out = false;
  std::vector<PublishedRung> rungs;
};

/// What `use` makes of the file's JSON.
template <class F>
auto from_json(const fs::path& file, const std::string& schema, F&& use) {
  try {
    const Json json = Json::parse(read_text(file));
    if (json.at("schema") != schema) throw FileError(file.string() + ": unknown schema");
    return use(json);
  } catch (const nlohmann::json::exception& error) {
    throw FileError(file.string() + " is damaged: " + error.what());
  }
}

/// Given as seconds, or as a rate of the ladder's FLOPs or bytes.
double seconds_of(const Json& ladder, const Json& rung) {
  if (rung.contains("seconds")) return rung.at("seconds");
  if (rung.contains("gflops_per_s"))
    return ladder.at("flops").get<double>() / rung.at("gflops_per_s").get<double>() / 1e9;
  return ladder.at("bytes").get<double>() / rung.at("gbytes_per_s").get<double>() / 1e9;
}

/// Of our own code: medians of the report's rounds on empty caches, since the model takes no cache for filled.
void add_own_times(PublishedLadder& ladder, const Json& json, const fs::path& root) {
  const std::string file = json.at("report"), timed = json.at("ladder");
  const BenchReport report = read_bench_report(root / file);
  const std::vector<KernelRow> rows = read_kernel_rows(root / file);
  ladder.own = true;
  ladder.timed = timed;
  ladder.source = "this code, commit " + report.commit.substr(0, 10) + ", `" + file + "`";
  ladder.date = report.date.substr(0, 10);
  for (const size_t ours : json.at("rungs")) {
    const std::string name = "rung " + std::to_string(ours);
    const auto row = std::ranges::find_if(rows, [&](const KernelRow& candidate) {
      return candidate.ladder == timed && candidate.name == name && candidate.caches == "cold";
    });
    if (row == rows.end()) throw FileError(file + " has no " + name + " of '" + timed + "' on empty caches");
    ladder.rungs.push_back({name, ours, median(row->seconds)});
  }
}

PublishedLadder read_ladder(const fs::path& root, const std::string& name) {
  const fs::path file = root / "docs" / "published_ladders" / (name + ".json");
  return from_json(file, "tenfold.published_ladder/3", [&](const Json& json) {
    PublishedLadder ladder;
    ladder.name = name;
    ladder.kernel = json.at("kernel");
    ladder.shape = json.at("shape");
    ladder.gpu = json.at("gpu");
    ladder.column = json.value("column", ladder.gpu);
    ladder.note = json.value("note", "");
    ladder.held_out = json.at("held_out");
    if (json.contains("report")) {
      add_own_times(ladder, json, root);
      return ladder;
    }
    ladder.source = json.at("source");
    ladder.url = json.at("url");
    ladder.date = json.at("date");
    for (const Json& rung : json.at("rungs"))
      ladder.rungs.push_back({rung.at("name"), rung.at("ours"), seconds_of(json, rung)});
    return ladder;
  });
}

std::vector<PublishedLadder> all_ladders(const fs::path& root) {
  std::vector<PublishedLadder> ladders;
  for (const auto& entry : fs::directory_iterator(root / "docs" / "published_ladders"))
    if (entry.path().extension() == ".json") ladders.push_back(read_ladder(root, entry.path().stem()));
  std::ranges::sort(ladders, {}, &PublishedLadder::name);
  return ladders;
}

/// What the model says of a rung.
struct ModelledRung {
  double seconds = 0, sum = 0;  ///< the longest bound, and all of them one after the other
  std::string bound;
  bool holds(double published) const { return seconds <= published && published <= sum; }
  bool confirmed_by(double published) const {
    return std::max(seconds, published) <= kConfirmingFactor * std::min(seconds, published);
  }
};
/// Of the ladders' rungs.
struct ModelledLadders {
  std::string commit;                                        ///< of the model; empty: as it is now
  std::map<std::string, std::vector<ModelledRung>> ladders;  ///< by name, in the ladder's order
};

/// Nothing where the file has not been written.
std::optional<ModelledLadders> read_times(const fs::path& root, const std::string& name) {
  const fs::path file = root / "results" / "compiler" / name;
  if (!fs::exists(file)) return std::nullopt;
  return from_json(file, "tenfold.ladder_times/1", [](const Json& json) {
    std::optional<ModelledLadders> found = ModelledLadders{json.value("commit", ""), {}};
    for (const auto& [ladder, times] : json.at("ladders").items()) {
      for (const Json& rung : times.at("rungs")) {
        ModelledRung& modelled =
            found->ladders[ladder].emplace_back(ModelledRung{rung.at("seconds"), 0, rung.at("bound")});
        if (rung.contains("bounds"))  // the frozen ones are not kept
          for (const auto& [bound, seconds] : rung.at("bounds").items()) modelled.sum += seconds.get<double>();
      }
    }
    return found;
  });
}

struct Models {
  std::optional<ModelledLadders> frozen, now;
};
Models read_models(const fs::path& root) {
  Models models{read_times(root, "ladder_times_frozen.json"), read_times(root, "ladder_times.json")};
  if (!models.frozen && !models.now)
    throw FileError((root / "results/compiler/ladder_times.json").string() +
                    " is missing; write it with kernels/model/ladder_times.py --write");
  return models;
}

/// The ladder's modelled times; nothing of a ladder that is younger than the frozen model, which is not run again.
/// Refuses where the file is of other rungs.
std::optional<std::vector<ModelledRung>> rungs_of(const std::optional<ModelledLadders>& model,
                                                  const PublishedLadder& ladder) {
  if (!model) return std::nullopt;
  const auto found = model->ladders.find(ladder.name);
  if (found == model->ladders.end() && !model->commit.empty()) return std::nullopt;
  if (found == model->ladders.end() || found->second.size() != ladder.rungs.size())
    throw FileError("results/compiler/ladder_times" + std::string(model->commit.empty() ? "" : "_frozen") +
                    ".json does not have the rungs of " + ladder.name +
                    "; write it with kernels/model/ladder_times.py --write");
  return found->second;
}

std::vector<double> published_of(const PublishedLadder& ladder) {
  std::vector<double> seconds;
  for (const PublishedRung& rung : ladder.rungs) seconds.push_back(rung.seconds);
  return seconds;
}

std::optional<LadderAgreement> agreement_of(const std::optional<ModelledLadders>& model,
                                            const PublishedLadder& ladder) {
  const auto rungs = rungs_of(model, ladder);
  if (!rungs) return std::nullopt;
  std::vector<double> modelled;
  for (const ModelledRung& rung : *rungs) modelled.push_back(rung.seconds);
  return ladder_agreement(published_of(ladder), modelled);
}

/// The path of a report of our own is no link: it would be another one on each page.
std::string linked(const PublishedLadder& ladder) {
  return ladder.own ? ladder.source : "[" + ladder.source + "](" + ladder.url + ")";
}

/// "-" where no pair counts.
std::string tau_text(const LadderAgreement& agreement) {
  return agreement.pairs == 0 ? "-" : human_number(agreement.tau);
}

/// "1 and 2, 0 and 3": our rungs that stand in the other order.
std::string wrong_text(const LadderAgreement& agreement, const PublishedLadder& ladder) {
  std::string text;
  for (const auto& [a, b] : agreement.wrong)
    text += (text.empty() ? "" : ", ") + std::to_string(ladder.rungs[a].ours) + " and " +
            std::to_string(ladder.rungs[b].ours);
  return text.empty() ? "none" : text;
}

/// "5 of 7": published times between the longest bound and the sum of all bounds.
std::string inside_text(const std::vector<ModelledRung>& rungs, const PublishedLadder& ladder) {
  int inside = 0;
  for (size_t i = 0; i < rungs.size(); ++i) inside += rungs[i].holds(ladder.rungs[i].seconds);
  return std::to_string(inside) + " of " + std::to_string(rungs.size());
}

void add_errors(std::vector<std::string>& row, const std::optional<LadderAgreement>& agreement,
                const PublishedLadder& ladder) {
  if (!agreement) return void(row.insert(row.end(), 4, "-"));
  row.insert(row.end(), {tau_text(*agreement), human_number(agreement->median_factor),
                         human_number(agreement->worst_factor), wrong_text(*agreement, ladder)});
}

/// "Of 20 pairs ... Times are off by ..."
std::string agreement_text(const std::string& of, const LadderAgreement& agreement) {
  const std::string factors = "times are off by a factor of " + human_number(agreement.median_factor) +
                              " in the median, " + human_number(agreement.worst_factor) + " at worst.";
  if (agreement.pairs == 0) return of + ": no two kernels are more than 15 % apart; " + factors;
  return of + ": of " + std::to_string(agreement.pairs) + " pairs of kernels that are more than 15 % apart, " +
         std::to_string(agreement.agree) + " stand in the published order, " + std::to_string(agreement.disagree) +
         " in the other, " + std::to_string(agreement.pairs - agreement.agree - agreement.disagree) +
         " tied: Kendall's tau " + human_number(agreement.tau) + "; " + factors;
}

}  // namespace

LadderAgreement ladder_agreement(const std::vector<double>& published, const std::vector<double>& modelled) {
  LadderAgreement found;
  std::vector<double> factors;
  for (size_t i = 0; i < published.size(); ++i) {
    factors.push_back(std::max(modelled[i] / published[i], published[i] / modelled[i]));
    for (size_t j = i + 1; j < published.size(); ++j) {
      const double real = published[i] / published[j], ours = modelled[i] / modelled[j];
      if (std::max(real, 1 / real) < kApart) continue;
      ++found.pairs;
      found.agree += (real > 1 && ours > 1) || (real < 1 && ours < 1);
      if ((real > 1 && ours < 1) || (real < 1 && ours > 1)) found.wrong.emplace_back(i, j);
    }
  }
  found.disagree = static_cast<int>(found.wrong.size());
  if (found.pairs > 0) found.tau = static_cast<double>(found.agree - found.disagree) / found.pairs;
  if (!factors.empty()) {
    found.median_factor = median(factors);
    found.worst_factor = *std::max_element(factors.begin(), factors.end());
  }
  return found;
}

std::vector<LadderErrors> ladder_errors(const fs::path& root) {
  const Models models = read_models(root);
  std::vector<LadderErrors> all;
  for (const PublishedLadder& ladder : all_ladders(root))
    all.push_back(
        {ladder.name, ladder.held_out, agreement_of(models.frozen, ladder), agreement_of(models.now, ladder)});
  return all;
}

std::string published_ladder_markdown(const fs::path& root, const std::string& name) {
  const PublishedLadder ladder = read_ladder(root, name);
  const Models models = read_models(root);
  const auto frozen = rungs_of(models.frozen, ladder), now = rungs_of(models.now, ladder);
  Rows rows = {{"published", "our rung", "published time"}};
  if (frozen) rows[0].insert(rows[0].end(), {"frozen model", "/ published"});
  if (now) rows[0].insert(rows[0].end(), {"model", "/ published", "by", "sum of bounds"});
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const PublishedRung& rung = ladder.rungs[i];
    rows.push_back({rung.name, std::to_string(rung.ours), human_seconds(rung.seconds)});
    for (const auto* rungs : {&frozen, &now}) {
      if (!*rungs) continue;
      const ModelledRung& modelled = (**rungs)[i];
      rows.back().insert(rows.back().end(),
                         {human_seconds(modelled.seconds), human_ratio(modelled.seconds / rung.seconds)});
      if (rungs == &now) rows.back().insert(rows.back().end(), {modelled.bound, human_seconds(modelled.sum)});
    }
  }
  std::string text = markdown_table(rows) + "\nPublished: " + linked(ladder) + ", " + ladder.date + ", on " +
                     ladder.gpu + ", " + ladder.shape + (ladder.note.empty() ? "" : "; " + ladder.note) + ".";
  if (const auto agreement = agreement_of(models.frozen, ladder)) text += "\n\n" + agreement_text("Frozen", *agreement);
  if (const auto agreement = agreement_of(models.now, ladder)) text += "\n\n" + agreement_text("Now", *agreement);
  return text + "\n";
}

std::optional<std::set<std::pair<std::string, std::string>>> validated_bounds(const fs::path& root) {
  const auto now = read_times(root, "ladder_times.json");
  if (!now) return std::nullopt;
  std::set<std::pair<std::string, std::string>> bounds;
  for (const PublishedLadder& ladder : all_ladders(root)) {
    const auto rungs = rungs_of(now, ladder);
    for (size_t i = 0; i < rungs->size(); ++i)
      if ((*rungs)[i].confirmed_by(ladder.rungs[i].seconds)) bounds.emplace((*rungs)[i].bound, ladder.column);
  }
  return bounds;
}

OwnTimes own_times(const fs::path& root, const std::string& operation, const std::string& type,
                   const std::string& shape) {
  OwnTimes times;
  if (!fs::exists(root / "docs" / "published_ladders")) return times;
  for (const PublishedLadder& ladder : all_ladders(root)) {
    std::string timed = ladder.timed;
    std::ranges::transform(timed, timed.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    const bool same_type = timed.find(", " + type + ",") != std::string::npos;
    if (!ladder.own || ladder.kernel != operation || ladder.shape != shape || !same_type) continue;
    for (const PublishedRung& rung : ladder.rungs) times[{operation, ladder.column, rung.ours}] = rung.seconds;
  }
  return times;
}

std::string order_remarks(const fs::path& root, const std::string& kernel,
                          const std::function<double(size_t rung, const std::string& gpu)>& seconds) {
  if (!fs::exists(root / "docs" / "published_ladders")) return "";
  std::string remarks;
  for (const PublishedLadder& ladder : all_ladders(root)) {
    if (ladder.kernel != kernel) continue;
    for (const PublishedRung& slow : ladder.rungs) {
      for (const PublishedRung& fast : ladder.rungs) {
        const double ours = seconds(slow.ours, ladder.column), others = seconds(fast.ours, ladder.column);
        if (slow.seconds / fast.seconds < kApart || ours == 0 || others == 0 || ours >= others) continue;
        remarks += (ladder.own ? "Measured" : "Published") + std::string(" in the other order: rung ") +
                   std::to_string(slow.ours) + " took " + human_ratio(slow.seconds / fast.seconds) +
                   " the time of rung " + std::to_string(fast.ours) + " on " + ladder.gpu + " (" + linked(ladder) +
                   "); the column " + ladder.column + " has it as the faster one.\n";
      }
    }
  }
  return remarks;
}

std::string published_ladders_markdown(const fs::path& root) {
  const Models models = read_models(root);
  Rows rows = {{"kernel", "GPU", "published", "", "rungs"}};
  const auto add_heads = [&rows](const std::string& of) {
    for (const char* error : {"tau", "median", "worst", "wrong order"}) rows[0].push_back(of + ": " + error);
  };
  if (models.frozen) add_heads("frozen");
  if (models.now) {
    add_heads("now");
    rows[0].push_back("now: inside");
  }
  for (const PublishedLadder& ladder : all_ladders(root)) {
    rows.push_back({ladder.kernel, ladder.gpu, linked(ladder) + ", " + ladder.date,
                    ladder.held_out ? "held out" : "in sample", std::to_string(ladder.rungs.size())});
    for (const auto* model : {&models.frozen, &models.now})
      if (*model) add_errors(rows.back(), agreement_of(*model, ladder), ladder);
    if (const auto rungs = rungs_of(models.now, ladder)) rows.back().push_back(inside_text(*rungs, ladder));
  }
  return markdown_table(rows) + (models.frozen ? "\nFrozen: the model at commit " + models.frozen->commit + ".\n" : "");
}

}  // namespace tenfold
