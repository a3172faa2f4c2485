#include "common/pages/rows/machine_card.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/machine/makers_share.h"

namespace tenfold {
namespace {

std::string gpus_text(const Machine& machine) {
  if (machine.gpus.empty()) return "none";
  const std::string count = machine.gpus.size() > 1 ? std::to_string(machine.gpus.size()) + " x " : "";
  return count + machine.gpus.front().name + ", " + human_bytes(static_cast<double>(machine.gpus.front().memory_bytes));
}

std::vector<std::string> row_of(const std::string& ceiling, const Machine& a, const Machine& b) {
  const auto side = [&](const Machine& machine) -> std::pair<std::string, std::string> {
    const auto found = machine.ceilings.find(ceiling);
    if (found == machine.ceilings.end()) return {"-", "-"};
    const auto share = share_of_makers(machine, ceiling, found->second);
    return {ceiling_text(ceiling, found->second), share ? human_percent(*share) : "-"};
  };
  const auto [text_a, share_a] = side(a);
  const auto [text_b, share_b] = side(b);
  const bool both = a.ceilings.contains(ceiling) && b.ceilings.contains(ceiling);
  return {ceiling_name(ceiling),
          text_a,
          share_a,
          text_b,
          share_b,
          both ? human_ratio(b.ceilings.at(ceiling) / a.ceilings.at(ceiling)) : "-"};
}

}  // namespace

std::string ceiling_name(const std::string& ceiling) {
  std::string name = ceiling;
  for (const char* ending : {"_bytes_per_s", "_flops_per_s", "_seconds"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::string(ending).size());
  }
  std::ranges::replace(name, '_', ' ');
  return ceiling.ends_with("_flops_per_s") ? name + " arithmetic" : name;
}

std::string ceiling_text(const std::string& ceiling, double value) {
  if (ceiling.ends_with("_seconds")) return human_seconds(value);
  const std::string unit = ceiling.find("flops") != std::string::npos ? "FLOP/s" : "B/s";
  for (const auto& [scale, prefix] : {std::pair(1e12, " T"), {1e9, " G"}, {1e6, " M"}}) {
    if (value >= scale) return human_number(value / scale) + prefix + unit;
  }
  return human_number(value) + " " + unit;
}

Cells machine_cells(const Machine& a, const Machine& b) {
  Cells cells = {{"machine", "A", "of the maker's", "B", "of the maker's", "B over A"}};
  const auto add = [&](const std::string& what, const std::string& left, const std::string& right) {
    cells.push_back({what, left, "", right, "", ""});
  };
  add("CPU", a.cpu, b.cpu);
  add("cores", std::to_string(a.cores), std::to_string(b.cores));
  add("memory", human_bytes(static_cast<double>(a.ram_bytes)), human_bytes(static_cast<double>(b.ram_bytes)));
  add("GPUs", gpus_text(a), gpus_text(b));
  std::set<std::string> ceilings;
  for (const Machine* machine : {&a, &b}) {
    for (const auto& [name, value] : machine->ceilings) ceilings.insert(name);
  }
  for (const std::string& ceiling : ceilings) cells.push_back(row_of(ceiling, a, b));
  return cells;
}

std::string makers_text(const Machine& a, const Machine& b) {
  std::set<std::string> sources, unknown;
  for (const Machine* machine : {&a, &b}) {
    if (const simt::GpuCeilings* card = card_of(*machine)) {
      sources.insert(card->name + " (" + card->source + ")");
    } else if (!machine->gpus.empty() && !is_dry(*machine)) {
      unknown.insert(machine->gpus.front().name);
    }
  }
  std::string text = "Ceilings were measured by ./tenfold probe, once: they have no interval.";
  if (!sources.empty()) text += " Shares are of the figures of " + joined({sources.begin(), sources.end()}) + ".";
  if (!unknown.empty()) text += " No figure is known of " + joined({unknown.begin(), unknown.end()}) + ".";
  return text + " Of a CPU no maker's figure is stated.";
}

}  // namespace tenfold
