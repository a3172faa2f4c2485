#include "common/harness/device_choice.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/measure/device.h"
#include "common/measure/dry.h"

namespace tenfold {
namespace {

std::string counted(size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

Surroundings surroundings() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return {host, visible_gpus(), why_no_gpu()};
}

/// The host's name, why there is no GPU, and a GPU on each further line.
std::string to_text(const Surroundings& seen) {
  std::string text = seen.host + "\n" + seen.why_none;
  for (const std::string& gpu : seen.gpus) text += "\n" + gpu;
  return text;
}

Surroundings from_text(const std::string& text) {
  std::istringstream lines(text);
  Surroundings seen;
  std::getline(lines, seen.host);
  std::getline(lines, seen.why_none);
  for (std::string gpu; std::getline(lines, gpu);) seen.gpus.push_back(gpu);
  return seen;
}

}  // namespace

DeviceChoice choose_device(const std::string& wanted, const std::vector<Surroundings>& ranks, int rank) {
  if (wanted == "cpu") return {};
  const bool none = std::all_of(ranks.begin(), ranks.end(), [](const Surroundings& seen) { return seen.gpus.empty(); });
  if (wanted == "auto" && none) return {};
  DeviceChoice choice;
  std::vector<std::string> taken;
  std::string problem;
  for (size_t i = 0; i < ranks.size() && problem.empty(); ++i) {
    const std::vector<std::string>& gpus = ranks[i].gpus;
    const auto same_host = [&](const Surroundings& seen) { return seen.host == ranks[i].host; };
    if (gpus.empty()) {
      problem = "no usable CUDA device on " + ranks[i].host + ": " + ranks[i].why_none +
                " (./tenfold doctor says what is missing)";
      break;
    }
    const auto before =
        static_cast<size_t>(std::count_if(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(i), same_host));
    const size_t index = before % gpus.size();
    if (std::find(taken.begin(), taken.end(), gpus[index]) != taken.end()) {
      const auto here = static_cast<size_t>(std::count_if(ranks.begin(), ranks.end(), same_host));
      problem = ranks[i].host + " has " + counted(gpus.size(), "GPU") + " for " + counted(here, "rank") +
                ", and NCCL needs one for each";
    }
    taken.push_back(gpus[index]);
    if (static_cast<int>(i) == rank) choice.device = {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
  }
  if (problem.empty()) return choice;
  if (wanted == "cuda")
    throw UsageError("--device cuda: " + problem + "; use --device cpu" + (none ? "" : " or start fewer ranks"));
  return {torch::kCPU, problem + "; running on the CPU"};
}

DeviceChoice chosen_device(const std::string& wanted, const World& world) {
  if (wanted == "cpu") return {};
  std::vector<Surroundings> ranks;
  for (const std::string& text : world.texts_of_all(to_text(surroundings()))) ranks.push_back(from_text(text));
  DeviceChoice choice = choose_device(wanted, ranks, world.ranks.rank);
  // Of several cards that are not there the last: where a device is forgotten it is the first, and that shows.
  if (choice.device.is_cuda() && ranks.size() == 1 && dry_card())
    choice.device.set_index(static_cast<c10::DeviceIndex>(ranks.front().gpus.size() - 1));
  use_device(choice.device);
  return choice;
}

}  // namespace tenfold
