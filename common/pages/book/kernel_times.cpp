#include "common/pages/book/kernel_times.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/kernel_resources.h"
#include "common/pages/book/published_ladders.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/result.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kWidth = 120;
constexpr const char* kDetailed = "H100";

template <class F>
auto with_times(const fs::path& root, F&& use) {
  const fs::path file = kernel_times_file(root);
  if (!fs::exists(file))
    throw FileError(file.string() + " is missing; write it with kernels/model/kernel_time.py --write");
  try {
    const Json json = Json::parse(read_text(file));
    if (json.at("schema") != "tenfold.kernel_times/2") throw FileError(file.string() + ": unknown schema");
    return use(json);
  } catch (const nlohmann::json::exception& error) {
    throw FileError(file.string() + " is damaged: " + error.what());
  }
}

std::vector<std::string> gpus_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, name] : json.at("gpus").items()) keys.push_back(key);
  return keys;
}

using Bounds = std::optional<std::set<std::pair<std::string, std::string>>>;  ///< validated_bounds()

/// "35 %, issue"; in brackets, where no measurement has been beside that bound on that GPU. Behind it what this code
/// reached there, where it was timed: a model's share must not stand alone beside a better one. `timed`: own_times(),
/// none on a terminal, whose columns are narrow.
std::string cell(const Json& kernel, const Json& rung, size_t number, const std::string& gpu, const Bounds& validated,
                 const OwnTimes& timed) {
  if (!rung.at("gpus").contains(gpu)) return "-";
  const Json& on = rung.at("gpus").at(gpu);
  if (on.contains("unknown")) return "-, " + on.at("unknown").get<std::string>() + " unknown";
  const double least = kernel.at("least_seconds").at(gpu);
  const std::string bound = on.at("bound"), text = human_percent(least / on.at("seconds").get<double>()) + ", " + bound;
  const auto measured = timed.find({kernel.at("operation").get<std::string>(), gpu, number});
  return (validated && !validated->contains({bound, gpu}) ? "(" + text + ")" : text) +
         (measured == timed.end() ? "" : "; measured " + human_percent(least / measured->second));
}

/// Instructions of all warps, and bytes from and to DRAM, on the GPU that the pages detail.
std::vector<std::string> work_of(const Json& rung) {
  if (!rung.at("gpus").contains(kDetailed)) return {"-", "-"};
  const Json& on = rung.at("gpus").at(kDetailed);
  return {human_number(on.at("instructions")), human_bytes(on.at("dram_bytes"))};
}

enum class Columns { shares, work_and_shares };

void add_rungs(Rows& rows, const Json& kernel, const std::vector<std::string>& gpus, const std::string& first,
               Columns columns, const Bounds& validated, const OwnTimes& timed = {}) {
  size_t number = 0;
  for (const Json& rung : kernel.at("rungs")) {
    std::vector<std::string> row;
    if (!first.empty()) row.push_back(first);
    row.push_back(std::to_string(number) + " " + rung.at("name").get<std::string>());
    if (columns == Columns::work_and_shares) {
      const std::vector<std::string> work = work_of(rung);
      row.insert(row.end(), work.begin(), work.end());
    }
    for (const std::string& gpu : gpus) row.push_back(cell(kernel, rung, number, gpu, validated, timed));
    rows.push_back(row);
    ++number;
  }
}

/// Of a rung on a GPU; 0 where it has none.
double seconds_of(const Json& kernel, size_t rung, const std::string& gpu) {
  const Json& rungs = kernel.at("rungs");
  if (rung >= rungs.size() || !rungs[rung].at("gpus").contains(gpu)) return 0;
  return rungs[rung].at("gpus").at(gpu).at("seconds");
}

std::string remarks_on(const fs::path& root, const Json& kernel) {
  return order_remarks(root, kernel.at("operation"),
                       [&](size_t rung, const std::string& gpu) { return seconds_of(kernel, rung, gpu); });
}

OwnTimes own_times_of(const fs::path& root, const Json& kernel) {
  return own_times(root, kernel.at("operation"), kernel.at("type"), kernel.at("shape"));
}

constexpr const char* kTimed = " *Measured*: the share that this code reached there on empty caches.";
constexpr const char* kUnseen =
    " In brackets: unchecked. No time of a rung with this bound, on that GPU or one of its kind, was within a factor "
    "of 1.3 of it.";
static_assert(kConfirmingFactor == 1.3, "as the sentence says");

/// "layer_norm backward", "scaled_gemm int8"
std::string title_of(const Json& kernel) {
  std::string title = kernel.at("operation");
  const std::string name = kernel.at("kernel");
  if (title.starts_with(name + "_")) title[name.size()] = ' ';
  return title;
}

/// "bfloat16, rows=8192,columns=8192"
std::string shape_of(const Json& kernel) {
  return kernel.at("type").get<std::string>() + ", " + kernel.at("shape").get<std::string>();
}

bool is_stale(const fs::path& root, const Json& kernel) {
  return kernel.at("sources") != kernel_sources_hash(root, kernel.at("kernel").get<std::string>()) ||
         kernel.at("model") != kernel_model_hash(root);
}

/// A row for each bound, the one that weighs most first, a column for each GPU that the rung runs on.
std::string bounds_table(const Json& kernel, const Json& rung) {
  Rows rows = {{"modelled"}};
  std::map<std::string, double> weights;  // of each bound, its largest part of a GPU's time
  for (const auto& [gpu, on] : rung.at("gpus").items()) {
    rows[0].push_back(gpu);
    for (const auto& [bound, seconds] : on.at("bounds").items())
      weights[bound] = std::max(weights[bound], seconds.get<double>() / on.at("seconds").get<double>());
  }
  std::vector<std::string> bounds;
  for (const auto& [bound, weight] : weights) bounds.push_back(bound);
  std::sort(bounds.begin(), bounds.end(), [&](const std::string& a, const std::string& b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  for (const std::string& bound : bounds) {
    std::vector<std::string> row = {bound};
    for (const auto& [gpu, on] : rung.at("gpus").items()) {
      const Json& all = on.at("bounds");
      row.push_back(!all.contains(bound) ? "-  "
                                         : human_seconds(all.at(bound)) + (on.at("bound") == bound ? " *" : "  "));
    }
    rows.push_back(row);
  }
  const auto add = [&](const std::string& what, const auto& text) {
    std::vector<std::string> row = {what};
    for (const auto& [gpu, on] : rung.at("gpus").items()) row.push_back(text(on) + "  ");
    rows.push_back(row);
  };
  add("instructions", [](const Json& on) { return human_number(on.at("instructions")); });
  add("registers of a thread", [](const Json& on) { return std::to_string(on.at("registers").get<int>()); });
  add("blocks on an SM", [](const Json& on) { return std::to_string(on.at("blocks_on_sm").get<int>()); });
  const std::string what = "At " + shape_of(kernel) + ", " + kernel.at("date").get<std::string>() +
                           ", never measured. * holds the rung up: to be faster, it has to need less of that. "
                           "docs/kernel_time.md says how it is made.";
  return format_columns(rows, "l" + std::string(rows[0].size() - 1, 'r'), kWidth) + "  " +
         wrap_text(what, kWidth - 4, 2) + "\n";
}

/// The command on a line of its own: somebody will copy it.
std::string written_again(const std::string& operations) {
  return "  The kernel has changed since: kernels/model/kernel_time.py --write" + operations + "\n";
}

}  // namespace

fs::path kernel_times_file(const fs::path& root) { return root / "results" / "compiler" / "kernel_times.json"; }

std::string kernel_times_markdown(const fs::path& root, const std::string& name) {
  return with_times(root, [&](const Json& json) {
    const std::vector<std::string> gpus = gpus_of(json);
    const std::string detailed = kDetailed;
    Rows head = {name.empty() ? std::vector<std::string>{"kernel", "rung"}
                              : std::vector<std::string>{"rung", "instructions, " + detailed, "DRAM, " + detailed}};
    head[0].insert(head[0].end(), gpus.begin(), gpus.end());
    const Bounds validated = validated_bounds(root);
    const auto meaning = [&](bool timed) {
      return ". The share of what the GPU allows, and what holds it up." + std::string(timed ? kTimed : "") +
             std::string(validated ? kUnseen : "") + "\n\n";
    };
    bool any_timed = false;
    Rows all = head;
    std::string text, shapes, remarks;
    for (const Json& kernel : json.at("kernels")) {
      const OwnTimes timed = own_times_of(root, kernel);
      if (name.empty()) {
        any_timed = any_timed || !timed.empty();
        add_rungs(all, kernel, gpus, title_of(kernel) + (is_stale(root, kernel) ? " *stale*" : ""), Columns::shares,
                  validated, timed);
        if (const std::string said = remarks_on(root, kernel); !said.empty())
          remarks += "\n" + title_of(kernel) + ". " + said;
        shapes += (shapes.empty() ? "\nShapes: " : "; ") + title_of(kernel) + " " + shape_of(kernel);
      } else if (kernel.at("kernel") == name) {
        Rows rows = head;
        add_rungs(rows, kernel, gpus, "", Columns::work_and_shares, validated, timed);
        const std::string title = title_of(kernel);
        text += (text.empty() ? "" : "\n") + ("*Modelled*, " + kernel.at("date").get<std::string>()) + ", " +
                (title == name ? "" : title + ", ") + shape_of(kernel) + meaning(!timed.empty()) + markdown_table(rows);
        if (const std::string said = remarks_on(root, kernel); !said.empty()) text += "\n" + said;
      }
    }
    if (!name.empty() && text.empty()) throw FileError(kernel_times_file(root).string() + " has no kernel " + name);
    return name.empty() ? "*Modelled*" + meaning(any_timed) + markdown_table(all) + shapes + ".\n" + remarks : text;
  });
}

std::string kernel_times_text(const fs::path& root, const std::string& name) {
  return with_times(root, [&](const Json& json) {
    const std::vector<std::string> gpus = gpus_of(json);
    const Bounds validated = validated_bounds(root);
    std::string tables, stale;
    for (const Json& kernel : json.at("kernels")) {
      if (kernel.at("kernel") != name) continue;
      const std::string title = title_of(kernel);
      Rows rows = {{"modelled" + (title == name ? std::string() : title.substr(name.size())) + " rung"}};
      rows[0].insert(rows[0].end(), gpus.begin(), gpus.end());
      add_rungs(rows, kernel, gpus, "", Columns::shares, validated);
      tables += format_columns(rows, "l" + std::string(gpus.size(), 'l'), kWidth) + "  at " + shape_of(kernel) + "\n\n";
      tables += remarks_on(root, kernel);
      if (is_stale(root, kernel)) stale += " " + kernel.at("operation").get<std::string>();
    }
    if (tables.empty()) return tables;
    const std::string what =
        std::string(
            "The share of what the GPU's memory or arithmetic allows, and what holds the rung up. From the "
            "machine code and what the microscope counts, never measured. docs/kernel_time.md says how.") +
        std::string(validated ? kUnseen : "");
    return tables + "  " + wrap_text(what, kWidth - 4, 2) + "\n" + (stale.empty() ? "" : written_again(stale));
  });
}

std::string kernel_bounds_text(const fs::path& root, const std::string& name, const std::string& wanted) {
  return with_times(root, [&](const Json& json) -> std::string {
    for (const Json& kernel : json.at("kernels")) {
      if (kernel.at("operation") != name) continue;
      const Json& rungs = kernel.at("rungs");
      for (size_t number = 0; number < rungs.size(); ++number) {
        const Json& rung = rungs[number];
        if (wanted == std::to_string(number) || wanted == rung.at("name").get<std::string>())
          return bounds_table(kernel, rung) + (is_stale(root, kernel) ? written_again(" " + name) : "");
      }
    }
    return "";
  });
}

std::vector<std::string> rung_names(const fs::path& root, const std::string& operation) {
  return with_times(root, [&](const Json& json) {
    std::vector<std::string> names;
    for (const Json& kernel : json.at("kernels")) {
      if (kernel.at("operation") != operation) continue;
      for (const Json& rung : kernel.at("rungs")) names.push_back(rung.at("name"));
    }
    return names;
  });
}

}  // namespace tenfold
