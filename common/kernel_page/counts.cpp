#include "common/kernel_page/counts.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/base/number_in.h"
#include "common/kernel_page/sizes.h"

namespace tenfold::simt {
namespace {

nlohmann::json json_of(const KernelCounts& kernel) {
  nlohmann::json json = {{"symbol", kernel.symbol},
                         {"launches", kernel.launches},
                         {"grid_blocks", kernel.grid_blocks},
                         {"blocks", kernel.blocks},
                         {"warps", kernel.warps},
                         {"threads_of_block", kernel.threads_of_block},
                         {"shared_bytes", kernel.shared_bytes},
                         {"accesses", nlohmann::json::array()},
                         {"operations", nlohmann::json::array()},
                         {"lines", nlohmann::json::array()},
                         {"touches", nlohmann::json::object()},
                         {"reads_again", nlohmann::json::array()}};
  for (const auto& access : kernel.accesses) {
    json["accesses"].push_back({{"where", text_of(access.where)},
                                {"space", name_of(access.space)},
                                {"kind", name_of(access.kind)},
                                {"bytes", access.bytes},
                                {"buffer", access.buffer},
                                {"requests", access.requests},
                                {"lanes", access.lanes},
                                {"sectors", access.sectors},
                                {"lines", access.lines},
                                {"wavefronts", access.wavefronts},
                                {"wavefronts_8", access.wavefronts_8},
                                {"wavefronts_16", access.wavefronts_16}});
  }
  for (const auto& operation : kernel.operations)
    json["operations"].push_back(
        {{"where", text_of(operation.where)}, {"name", operation.name}, {"count", operation.count}});
  for (const auto& line : kernel.lines)
    json["lines"].push_back({{"where", text_of(line.where)}, {"issues", line.issues}, {"lanes", line.lanes}});
  for (const auto& [buffer, touches] : kernel.touches)
    json["touches"][buffer] = {{"bytes", touches.bytes},
                               {"first_reads", touches.first_reads},
                               {"stores", touches.stores},
                               {"written", touches.written}};
  for (size_t i = 0; i < kernel.reads_again.size(); ++i)
    if (kernel.reads_again[i] > 0) json["reads_again"].push_back({reuse_bytes(i), kernel.reads_again[i]});
  return json;
}

const Pass& pass_named(const KernelCase& kernel, const std::string& name) {
  std::string all;
  for (const Pass& pass : kernel.passes) {
    if (pass.name == name) return pass;
    all += (all.empty() ? "" : ", ") + pass.name;
  }
  throw std::invalid_argument("counts " + name + ": " + kernel.name +
                              (all.empty() ? " has no passes" : " has no such pass, only " + all));
}

/// Up to `most`.
int64_t number_of(const std::string& what, const std::string& text, int64_t most) {
  const auto number = number_in<int64_t>(text);
  if (!number || *number < 0 || *number > most)
    throw std::invalid_argument(what + " " + text + " is not in 0 .. " + std::to_string(most));
  return *number;
}

}  // namespace

std::string format_counts(const KernelCase& kernel, const std::vector<std::string>& words) {
  if (words.size() < 3 || words.size() > 4)
    throw std::invalid_argument("usage: " + kernel.name + " counts PASS RUNG NAME=N,NAME=N [BLOCKS]");
  const Pass& pass = pass_named(kernel, words[0]);
  const int64_t rung = number_of("rung", words[1], static_cast<int64_t>(pass.rungs.size()) - 1);
  const Shape shape = parse_shape("counts " + words[2], words[2], pass.shape, /*least=*/0);
  const int64_t blocks = words.size() == 4 ? number_of("BLOCKS", words[3], std::numeric_limits<int64_t>::max()) : 0;
  Device device({.count = true, .lines = true, .reuse = true, .sample = blocks, .races = false});
  pass.launch(device, shape, static_cast<int>(rung));
  const Report report = device.report();
  for (const Fault& fault : report.faults) throw std::runtime_error(text_of(fault.where) + ": " + fault.text);
  nlohmann::json all = nlohmann::json::array();
  for (const KernelCounts& counts : report.kernels) all.push_back(json_of(counts));
  return all.dump(1) + "\n";
}

}  // namespace tenfold::simt
