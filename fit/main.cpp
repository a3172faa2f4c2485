// tenfold-fit: which levers make a GPT of given sizes fit the dry GPU that this program was started on. `./tenfold fit`
// starts it once for each card.

#include <torch/torch.h>

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "common/base/files.h"
#include "common/base/fit_flags.h"
#include "common/base/progress_line.h"
#include "common/base/streams.h"
#include "common/base/text.h"
#include "common/dry_gpu/card.h"
#include "common/harness/dry_start.h"
#include "common/measure/dry.h"
#include "fit/search.h"
#include "fit/training.h"

namespace tenfold::fit {
namespace {

using Json = nlohmann::ordered_json;

/// What this card cannot do; exit code 77.
struct NotHere : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int64_t required(const GivenFlags& given, const std::string& name) {
  if (!given.contains(name))
    throw UsageError(name + " is missing; for example: ./tenfold fit --layers 32 --width 4096 --length 4096");
  return number_of(given, name, 0);
}

/// Throws UsageError where they make no GPT.
Sizes sizes_of(const GivenFlags& given) {
  Sizes sizes;
  sizes.layers = required(given, "--layers");
  sizes.width = required(given, "--width");
  const int64_t head_width = sizes.width % 128 == 0 ? 128 : 64;
  sizes.heads = number_of(given, "--heads", std::max<int64_t>(1, sizes.width / head_width));
  sizes.length = number_of(given, "--length", 2048);
  sizes.batch = number_of(given, "--batch", 1);
  sizes.vocabulary = number_of(given, "--vocabulary", 32000);
  if (sizes.width % sizes.heads != 0)
    throw UsageError("--heads " + std::to_string(sizes.heads) + " does not divide --width " +
                     std::to_string(sizes.width) + "; name another number of heads");
  return sizes;
}

Json json_of(const Row& row, const Sizes& sizes) {
  const Counted& counted = row.counted;
  Json json = {{"levers", keys_of(row.way.levers)},
               {"batch", row.way.batch},
               {"at_once", row.way.at_once},
               {"fits", counted.fits},
               {"reserved_bytes", counted.reserved_bytes},
               {"allocated_bytes", counted.allocated_bytes},
               {"requested_bytes", counted.requested_bytes}};
  if (!counted.fits) {
    json["stopped_in"] = counted.stopped_in;
    json["error"] = counted.error;
  }
  if (counted.step_seconds) {
    json["step_seconds"] = *counted.step_seconds;
    json["tokens_per_s"] = static_cast<double>(row.way.batch * sizes.length) / *counted.step_seconds;
  }
  return json;
}

/// Progress as the driver reads it.
void say_progress(int done, const Way& way) {
  const std::string levers = joined(keys_of(way.levers));
  // Nobody knows how many steps the search will take; most take about thirty.
  print_progress(1 - 30.0 / (30 + done),
                 (levers.empty() ? "no lever" : levers) + ", " + std::to_string(way.at_once) + " at a time");
}

int run(int argc, char** argv) {
  CLI::App app("which levers make a GPT of these sizes fit the dry GPU that this program was started on",
               "tenfold-fit");
  GivenFlags given;
  for (const Flag& flag : fit_flags()) add_flag(app, flag, given);
  add_flag(app, {.name = "--json", .value = "FILE", .help = "write the result to this file, as JSON"}, given);
  if (!parse_flags(app, argc, argv)) return 0;
  const auto card = dry_card();
  if (!memory_only()) throw UsageError("no dry GPU, or one that computes; start it with: ./tenfold fit");
  const Sizes sizes = sizes_of(given);
  const bool all = !given.contains("--with");
  const Levers chosen = all ? Levers() : levers_named(value_of(given, "--with", ""));
  const int capability = dry::card_named(*card).major;
  const std::vector<Lever> usable = levers_of(capability);
  for (const Lever lever : chosen) {
    if (std::ranges::find(usable, lever) == usable.end())
      throw NotHere(joined(keys_of({lever})) + " is for cards with bfloat16, of compute capability 8.0 or more");
  }
  leave_weights_undrawn();
  const int64_t whole = card_bytes(), spare = number_of(given, "--spare", 1024) << 20;
  int done = 0;
  const Count count = [&](const Way& way, bool limited) {
    say_progress(done++, way);
    constexpr int64_t kEnough = int64_t{1} << 46;  // 64 TiB: addresses are all that it costs
    return train(sizes, way, limited ? std::max<int64_t>(whole - spare, 0) : kEnough);
  };
  const Found found = all ? find(usable, sizes.batch, count) : find_with(chosen, sizes.batch, count);

  Json ladder = Json::array();
  for (const Row& row : found.ladder) ladder.push_back(json_of(row, sizes));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const Json result = {{"sizes",
                        {{"layers", sizes.layers},
                         {"width", sizes.width},
                         {"heads", sizes.heads},
                         {"length", sizes.length},
                         {"batch", sizes.batch},
                         {"vocabulary", sizes.vocabulary},
                         {"parameters", parameters_of(sizes)}}},
                       {"card", *card},
                       {"memory_bytes", whole},
                       {"spare_bytes", spare},
                       {"ladder", ladder},
                       {"smallest", found.smallest ? json_of(*found.smallest, sizes) : Json()},
                       {"most_at_once", found.at_once ? Json(*found.at_once) : Json()},
                       {"more_may_fit", found.more_may_fit},
                       {"steps_counted", done},
                       {"host_peak_bytes", int64_t{usage.ru_maxrss} << 10}};
  if (const std::string file = value_of(given, "--json", ""); file.empty()) {
    std::printf("%s\n", result.dump(1).c_str());
  } else {
    write_atomically(file, result.dump(1) + "\n");
  }
  return 0;
}

}  // namespace
}  // namespace tenfold::fit

int main(int argc, char** argv) {
  tenfold::open_standard_streams();
  try {
    return tenfold::fit::run(argc, argv);
  } catch (const tenfold::fit::NotHere& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 77;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", tenfold::first_line(error.what_without_backtrace()).c_str());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fit: %s\n", tenfold::one_line(error.what()).c_str());
    return 2;
  }
}
