#include "common/kernel_page/report_text.h"

#include <nlohmann/json.hpp>

namespace tenfold::simt {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Where& where) { return {{"file", where.file}, {"line", where.line}}; }
Json json_of(const ThreadId& id) { return {{"block", id.block}, {"thread", id.thread}}; }

Json json_of(const Access& access) {
  Json json = {{"where", json_of(access.where)}, {"source", source_line(access.where)},
               {"space", name_of(access.space)}, {"kind", name_of(access.kind)},
               {"bytes", access.bytes},          {"buffer", access.buffer},
               {"requests", access.requests},    {"lanes", access.lanes}};
  if (access.space == Space::global) {
    json["sectors"] = access.sectors;
    json["lines"] = access.lines;
    json["ideal_sectors_per_request"] = ideal_sectors_per_request(access);
  } else {
    json["wavefronts"] = access.wavefronts;
    json["ideal_wavefronts"] = access.ideal_wavefronts;
    json["worst_ways"] = access.worst_ways;
  }
  json["example"] = access.example;
  return json;
}

Json json_of(const Report& report) {
  Json json = {{"accesses", Json::array()}, {"races", Json::array()}, {"faults", Json::array()}};
  for (const Access& access : report.accesses) json["accesses"].push_back(json_of(access));
  for (const Race& race : report.races) {
    json["races"].push_back({{"space", name_of(race.space)},
                             {"first_kind", name_of(race.first_kind)},
                             {"first", json_of(race.first)},
                             {"second_kind", name_of(race.second_kind)},
                             {"second", json_of(race.second)},
                             {"buffer", race.buffer},
                             {"offset", race.offset},
                             {"first_thread", json_of(race.first_thread)},
                             {"second_thread", json_of(race.second_thread)},
                             {"in_flight", race.in_flight},
                             {"count", race.count}});
  }
  for (const Fault& fault : report.faults) {
    json["faults"].push_back(
        {{"kind", name_of(fault.kind)}, {"where", json_of(fault.where)}, {"text", fault.text}, {"count", fault.count}});
  }
  json["launches"] = report.launches;
  json["blocks"] = report.blocks;
  json["threads"] = report.threads;
  json["barriers"] = report.barriers;
  json["warp_operations"] = report.warp_operations;
  json["matrix_multiplies"] = report.matrix_multiplies;
  json["tensor_flops"] = report.tensor_flops;
  json["lane_accesses"] = report.lane_accesses;
  json["unique_bytes_read"] = report.unique_bytes_read;
  json["unique_bytes_written"] = report.unique_bytes_written;
  json["largest_shared_bytes"] = report.largest_shared_bytes;
  return json;
}

const char* name_of(ValueType type) {
  switch (type) {
    case ValueType::float32:
      return "float";
    case ValueType::bfloat16:
      return "bfloat16";
    case ValueType::int8:
      return "int8";
    default:
      return "e4m3";
  }
}

int64_t bytes_of(ValueType type) { return type == ValueType::float32 ? 4 : type == ValueType::bfloat16 ? 2 : 1; }

/// As the GPUs' rates are called where the model reads them.
const char* name_of(Peak peak) {
  switch (peak) {
    case Peak::bytes:
      return "dram_bytes_per_s";
    case Peak::cuda_cores:
      return "flops_per_s";
    case Peak::tensor_cores_int8:
      return "tensor_int8_per_s";
    case Peak::tensor_cores_fp8:
      return "tensor_fp8_per_s";
    default:
      return "tensor_flops_per_s";
  }
}

Json json_of(const Sizes& sizes) {
  Json json = Json::object();
  for (const auto& [name, value] : sizes) json[name] = value;
  return json;
}

Json json_of(const Pass& pass) {
  const Work work = pass.work(shape_of(pass.shape), bytes_of(pass.type));
  return {{"name", pass.name},          {"rungs", pass.rungs},
          {"type", name_of(pass.type)}, {"shape", json_of(pass.shape)},
          {"flops", work.flops},        {"least_bytes", work.least_bytes},
          {"peak", name_of(pass.peak)}, {"sampled_blocks", pass.sampled_blocks}};
}

}  // namespace

std::string format_json(const KernelCase& page, const Shape& shape, const std::vector<RungResult>& results) {
  Json json = {{"schema", kMicroscopeSchema},
               {"kernel", page.name},
               {"title", page.title},
               {"shape", Json::object()},
               {"rungs", Json::array()}};
  for (const auto& [name, otherwise] : page.shape) {
    const auto chosen = shape.find(name);
    json["shape"][name] = chosen == shape.end() ? otherwise : chosen->second;
  }
  for (const RungResult& result : results) {
    const Rung& rung = page.rungs[static_cast<size_t>(result.rung)];
    json["rungs"].push_back({{"rung", result.rung},
                             {"name", rung.name},
                             {"idea", rung.idea},
                             {"right", result.right()},
                             {"worst_error", result.run.worst_error},
                             {"flops", result.run.work.flops},
                             {"least_bytes", result.run.work.least_bytes},
                             {"report", json_of(result.report)}});
  }
  return json.dump(1) + "\n";  // dump() writes an infinity or NaN as null
}

std::string format_description(const KernelCase& page) {
  Json json = {{"kernel", page.name}, {"title", page.title}, {"shape", json_of(page.shape)}, {"rungs", Json::array()}};
  for (const Rung& rung : page.rungs) json["rungs"].push_back({{"name", rung.name}, {"idea", rung.idea}});
  json["passes"] = Json::array();
  for (const Pass& pass : page.passes) json["passes"].push_back(json_of(pass));
  return json.dump(1) + "\n";
}

}  // namespace tenfold::simt
