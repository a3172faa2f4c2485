// fit: what of a GPT's training fits on which GPU, with which levers, and how fast it would be. tenfold-fit trains it
// on each dry GPU; this starts it and prints what it says.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/fit_flags.h"
#include "common/base/process.h"
#include "common/base/progress_line.h"
#include "common/base/seconds_since.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/display.h"
#include "common/cli/paths.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"
#include "common/dry_gpu/rates.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Without --gpu: one of each size that people ask for.
const std::vector<std::string> kUsualCards = {"T4", "RTX-4090", "A100", "H100"};

/// The cards' keys, in the order of the list of cards. Throws UsageError.
std::vector<std::string> cards_of(const std::vector<std::string>& asked) {
  std::vector<std::string> keys;
  const bool all = std::ranges::find(asked, "all") != asked.end();
  for (const std::string& name : asked.empty() ? kUsualCards : asked) {
    if (name == "all") continue;
    try {
      keys.push_back(dry::card_named(name).key);
    } catch (const std::invalid_argument& error) {
      throw UsageError(std::string("--gpu: ") + error.what() + "; or: all");
    }
  }
  std::vector<std::string> ordered;
  for (const dry::Card& card : dry::cards()) {
    if (all || std::ranges::find(keys, card.key) != keys.end()) ordered.push_back(card.key);
  }
  return ordered;
}

/// What tenfold-fit says of one card. Nothing where it was interrupted. Throws UsageError with its own words where it
/// refuses the sizes.
std::optional<Json> fit_card(const std::string& card, const GivenFlags& flags, double from, double to,
                             Display& display) {
  const fs::path program = build_folder() / "tenfold-fit";
  if (!fs::exists(program)) throw UsageError(program.string() + " is not built; build with: ./tenfold setup");
  Command command;
  command.arguments = as_arguments(flags);
  command.arguments.insert(command.arguments.begin(), program.string());
  try {
    command.environment =
        dry::environment({.gpu = card, .timed = dry::rates_of(dry::card_named(card)).has_value()}, build_folder());
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
  command.environment["TENFOLD_DRY_QUIET"] = "1";
  command.environment["OMP_NUM_THREADS"] = "1";  // the host's part is one thread's
  std::string printed, last;
  Listener listener;
  listener.output = [&printed](const std::string& text) { printed += text; };
  listener.line = [&](const std::string& line) {
    if (const auto progress = progress_in(line)) {
      display.update(from + (to - from) * progress->fraction, card + ": " + progress->text);
    } else {
      last = line;
    }
  };
  listener.tick = [&display] { display.tick(); };
  const End end = run_child(command, listener);
  if (asked_to_stop()) return std::nullopt;
  if (end.code == kBadUsage && last.starts_with("fit: ")) throw UsageError(last);
  if (end.code == kNothingRan) return Json{{"card", card}, {"skipped", last}};
  if (end.code != 0)
    throw UsageError("fit: on " + card + " the program ended with " +
                     (end.signal != 0 ? signal_name(end.signal) : "exit code " + std::to_string(end.code)) +
                     (last.empty() ? "" : ": " + last));
  return Json::parse(printed);
}

/// "none", or "+ LEVER" for what a row has besides the one above it.
std::string added(const Json& row, const Json* above) {
  std::vector<std::string> more;
  for (const Json& lever : row.at("levers")) {
    const Json& before = above == nullptr ? Json::array() : above->at("levers");
    if (std::ranges::find(before, lever) == before.end()) more.push_back(lever.get<std::string>());
  }
  if (more.empty()) return "none: AdamW, 32 bits";
  return (above == nullptr ? "" : "+ ") + joined(more);
}

std::vector<std::string> cells_of(const Json& row, const std::string& levers) {
  const bool fits = row.at("fits").get<bool>(), timed = row.contains("step_seconds");
  return {levers,
          fits ? "yes" : "no",
          human_bytes(row.at("reserved_bytes").get<double>()),
          human_bytes(row.at("requested_bytes").get<double>()),
          timed ? human_seconds(row.at("step_seconds").get<double>()) : "-",
          timed ? human_number(row.at("tokens_per_s").get<double>()) : "-",
          fits ? "" : row.at("stopped_in").get<std::string>()};
}

std::string levers_of(const Json& row) {
  std::vector<std::string> keys;
  for (const Json& lever : row.at("levers")) keys.push_back(lever.get<std::string>());
  return keys.empty() ? "none" : joined(keys);
}

void print_card(const Json& result) {
  const dry::Card& card = dry::card_named(result.at("card").get<std::string>());
  const int64_t length = result.at("sizes").at("length").get<int64_t>();
  std::cout << "\n"
            << card.key << ": " << card.name << ", " << human_bytes(result.at("memory_bytes").get<double>())
            << ", of which " << human_bytes(result.at("spare_bytes").get<double>())
            << " are left to the CUDA context and the libraries\n";
  std::vector<std::vector<std::string>> rows = {
      {"levers", "fits", "reserved", "requested", "step", "tokens/s", "out of memory in"}};
  const Json* above = nullptr;
  for (const Json& row : result.at("ladder")) {
    rows.push_back(cells_of(row, added(row, above)));
    above = &row;
  }
  std::cout << format_columns(rows, "llrrrrl");
  const Json& smallest = result.at("smallest");
  const bool one_way = result.at("ladder").size() == 1;
  if (smallest.is_null()) {
    std::cout << "  does not fit" << (one_way ? "" : " with all of these levers") << "\n";
  } else {
    std::cout << "  fits with: " << levers_of(smallest);
    if (!one_way) {
      std::cout << "; " << human_bytes(smallest.at("reserved_bytes").get<double>()) << " reserved";
      if (smallest.contains("step_seconds"))
        std::cout << ", a step in " << human_seconds(smallest.at("step_seconds").get<double>());
    }
    std::cout << "\n";
  }
  if (result.at("most_at_once").is_null()) return;
  const int64_t most = result.at("most_at_once").get<int64_t>();
  std::cout << "  with these levers " << (result.at("more_may_fit").get<bool>() ? "at least " : "at most ") << most
            << (most == 1 ? " sequence fits" : " sequences fit")
            << " at a time: " << human_number(static_cast<double>(most * length)) << " tokens\n";
}

void print_sizes(const Json& sizes) {
  const auto size = [&sizes](const char* key) { return std::to_string(sizes.at(key).get<int64_t>()); };
  std::cout << "GPT of " << human_number(sizes.at("parameters").get<double>()) << " parameters: " << size("layers")
            << " layers, width " << size("width") << ", " << size("heads") << " heads, vocabulary "
            << size("vocabulary") << "; " << size("batch") << " x " << size("length") << " tokens an update\n";
}

void print_all(const Json& document) {
  bool any = false, modelled = false;
  for (const Json& card : document.at("cards")) {
    if (card.contains("skipped")) {
      std::cout << card.at("card").get<std::string>() << ": not counted: " << card.at("skipped").get<std::string>()
                << "\n";
      continue;
    }
    if (!any) print_sizes(card.at("sizes"));
    any = true;
    print_card(card);
    for (const Json& row : card.at("ladder")) modelled = modelled || row.contains("step_seconds");
  }
  if (!any) return;
  std::cout
      << "\nMemory is counted by LibTorch's allocator on a card that is not there; of what does not fit, it is what "
         "it would need.\n";
  if (modelled) std::cout << "Steps are modelled, and rather too short: docs/fit.md says what was compared.\n";
  std::cout << document.at("steps_counted").get<int64_t>() << " ways to train counted in "
            << human_seconds(document.at("seconds").get<double>()) << ", with "
            << human_bytes(document.at("host_peak_bytes").get<double>()) << " of this machine's memory\n";
}

}  // namespace

int fit(const FitOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> cards = cards_of(options.gpus);
  Json document = {{"cards", Json::array()}};
  int64_t steps = 0, most = 0;
  {
    Display display;
    for (size_t i = 0; i < cards.size(); ++i) {
      const auto share = [&](size_t done) { return static_cast<double>(done) / static_cast<double>(cards.size()); };
      const std::optional<Json> result = fit_card(cards[i], options.flags, share(i), share(i + 1), display);
      if (!result) return kInterrupted;
      document["cards"].push_back(*result);
      if (result->contains("skipped")) continue;
      steps += result->at("steps_counted").get<int64_t>();
      most = std::max(most, result->at("host_peak_bytes").get<int64_t>());
    }
  }
  document["steps_counted"] = steps;
  document["host_peak_bytes"] = most;
  document["seconds"] = seconds_since(begin);
  if (options.json) {
    std::cout << document.dump(1) << "\n";
  } else {
    print_all(document);
  }
  return steps > 0 ? 0 : kNothingRan;
}

}  // namespace tenfold::cli
