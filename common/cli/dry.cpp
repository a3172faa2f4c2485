// dry: runs any program of LibTorch or PyTorch on a card that is not there, and says what it asked of it.

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"
#include "common/dry_gpu/rates.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kKernelsShown = 8;

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

bool asked_for_work(const Json& process) {
  return std::ranges::any_of(std::initializer_list<const char*>{"launches", "copies", "allocations"},
                             [&](const char* key) { return process.at(key) > 0; });
}

/// What one process has done, from the line that the stand-ins wrote. One of several ranks has a card of its own, and
/// says nothing of the others'.
void print_summary(const Json& process, bool one_of_several) {
  std::cerr << "\n";
  const auto number = [&process](const char* key) { return process.at(key).get<int64_t>(); };
  int index = -1;
  for (const Json& device : process.at("devices")) {
    ++index;
    if (one_of_several && device.at("peak") == 0) continue;
    std::cerr << "dry GPU " << index << " (" << device.at("card").get<std::string>() << "): peak "
              << human_bytes(device.at("peak").get<double>()) << " of "
              << human_bytes(device.at("memory").get<double>())
              << " reserved; not counted: the CUDA context, cuDNN's workspaces, what libraries keep\n";
  }
  std::cerr << counted(number("launches"), "launch", "launches") << ", " << number("graph launches") << " of graphs; "
            << counted(number("waits"), "call", "calls") << " that may wait; "
            << counted(number("allocations"), "allocation", "allocations") << "\n"
            << counted(number("copies"), "copy", "copies") << ": "
            << human_bytes(static_cast<double>(number("bytes to the device"))) << " to the card, "
            << human_bytes(static_cast<double>(number("bytes to the host"))) << " back, "
            << human_bytes(static_cast<double>(number("bytes pageable")))
            << " of both from or to memory that is not pinned\n";
  std::string collectives;
  for (const auto& [name, asked] : process.at("collectives").items()) {
    collectives += (collectives.empty() ? "" : ", ") + std::to_string(asked.at("calls").get<int64_t>()) + " " + name +
                   " of " + human_bytes(asked.at("bytes").get<double>());
  }
  if (!collectives.empty()) std::cerr << "asked of NCCL: " << collectives << "\n";
  std::vector<std::pair<int64_t, std::string>> kernels;
  for (const auto& [name, count] : process.at("kernels").items()) kernels.emplace_back(-count.get<int64_t>(), name);
  std::ranges::sort(kernels);
  for (size_t i = 0; i < std::min<size_t>(kernels.size(), kKernelsShown); ++i) {
    const std::string& name = kernels[i].second;
    std::cerr << "  " << -kernels[i].first << "  " << (name.size() > 100 ? name.substr(0, 97) + "..." : name) << "\n";
  }
  if (kernels.size() > kKernelsShown) std::cerr << "  and " << kernels.size() - kKernelsShown << " kernels more\n";
  if (process.contains("modelled")) {
    const auto seconds = [&process](const char* key) { return process.at("modelled").at(key).get<double>(); };
    std::cerr << "modelled: the card was busy for " << human_seconds(seconds("busy")) << ", with kernels for "
              << human_seconds(seconds("kernels")) << "; with this host the program would have taken "
              << human_seconds(seconds("seconds")) << ", from CUDA's start to its end\n";
  }
  for (const Json& name : process.at("without price"))
    std::cerr << "not modelled, taken to be as short as a kernel can be: " << name.get<std::string>() << "\n";
  for (const Json& function : process.at("refused"))
    std::cerr << "not stood in for: " << function.get<std::string>() << "\n";
  for (const Json& name : process.at("without arithmetic"))
    std::cerr << "without arithmetic, so its numbers are none: " << name.get<std::string>() << "\n";
  for (const Json& race : process.at("races")) std::cerr << "race: " << race.get<std::string>() << "\n";
  int place = 0;
  for (const Json& of : process.at("synchronisations")) {
    const std::string prevents = of.at("prevents").get<std::string>();
    std::cerr << "synchronisation " << ++place << ": " << of.at("place").get<std::string>() << "\n"
              << "    "
              << (!of.at("followed").get<bool>() ? "run without it to see: TENFOLD_DRY_FORGET=" + std::to_string(place)
                  : prevents.empty()             ? "without it, everything would still be ordered"
                                                 : "without it: " + prevents)
              << "\n";
  }
}

std::string capability_of(const dry::Card& card) {
  return std::to_string(card.major) + "." + std::to_string(card.minor);
}

void list_cards() {
  std::vector<std::vector<std::string>> rows = {{"card", "name", "memory", "capability", "SMs"}};
  for (const dry::Card& card : dry::cards())
    rows.push_back({card.key, card.name, human_bytes(static_cast<double>(card.memory_bytes)), capability_of(card),
                    std::to_string(card.sms)});
  std::cout << format_columns(rows, "llrrr");
}

/// A card without published ceilings has none.
void list_cards_as_json() {
  auto list = nlohmann::ordered_json::array();
  for (const dry::Card& card : dry::cards()) {
    nlohmann::ordered_json entry = {{"card", card.key},
                                    {"name", card.name},
                                    {"memory_bytes", card.memory_bytes},
                                    {"capability", capability_of(card)},
                                    {"sms", card.sms},
                                    {"bus_bits", card.bus_bits},
                                    {"l2_bytes", card.l2_bytes}};
    if (const auto ceilings = dry::ceilings_of(card)) {
      entry["ceilings"] = {{"clock_hz", ceilings->clock_hz}, {"bytes_per_s", ceilings->bytes_per_s},
                           {"fp32_per_s", ceilings->fp32},   {"tf32_per_s", ceilings->tf32},
                           {"fp16_per_s", ceilings->half},   {"bf16_per_s", ceilings->bfloat16}};
    }
    list.push_back(entry);
  }
  std::cout << list.dump(1) << "\n";
}

}  // namespace

int dry(const DryOptions& options) {
  if (options.json && !options.list) throw UsageError("dry: --json goes with --list");
  if (options.list) {
    options.json ? list_cards_as_json() : list_cards();
    return 0;
  }
  if (options.program.empty())
    throw UsageError("dry: what is to run? For example: ./tenfold dry --gpu H100 -- ./train");
  try {
    dry::card_named(options.gpu);
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--gpu: ") + error.what());
  }
  if (options.timed && !options.arithmetic.empty())
    throw UsageError("--time and --arithmetic: where the CPU computes, no time is modelled; leave one of them out");
  if (options.timed && !dry::rates_of(dry::card_named(options.gpu)))
    throw UsageError("--time: no time is modelled for " + dry::card_named(options.gpu).key +
                     "; its ceilings are missing");
  const fs::path report = fs::temp_directory_path() / ("tenfold-dry-" + std::to_string(getpid()) + ".json");
  fs::remove(report);
  Command command;
  command.arguments = options.program;
  Listener listener;
  listener.output = [](const std::string& text) { std::cout << text << std::flush; };
  listener.line = [](const std::string& line) { std::cerr << line << "\n"; };
  End end;
  try {
    command.environment = dry::environment({.gpu = options.gpu,
                                            .gpus = options.gpus,
                                            .arithmetic = options.arithmetic,
                                            .timed = options.timed,
                                            .report = report.string()},
                                           build_folder());
    end = run_child(command, listener);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
  std::cout.flush();
  std::ifstream lines(report);
  std::vector<std::string> processes;
  for (std::string line; std::getline(lines, line);) processes.push_back(line);
  for (const std::string& line : processes) {
    try {
      const Json process = Json::parse(line);
      // A launcher only asks what cards there are.
      if (processes.size() == 1 || asked_for_work(process)) print_summary(process, processes.size() > 1);
    } catch (const Json::exception& error) {  // of a process that was killed, or a full disk
      std::cerr << "tenfold: what one process has done cannot be read: " << error.what() << "\n";
    }
  }
  fs::remove(report);
  if (processes.empty() && end.signal == 0)
    std::cerr
        << "tenfold: " << options.program.front()
        << " asked for no GPU through CUDA 13's runtime; a LibTorch or PyTorch of another version of CUDA finds none "
           "here\n";
  return end.code;
}

}  // namespace tenfold::cli
