#pragma once
// What GPUs can do at most, from their makers' documents: what modelled times are computed with, and what a machine's
// measured ceilings are a share of.

#include <cstdint>
#include <string>
#include <vector>

namespace tenfold::simt {

/// What a GPU can do at most, as its maker publishes it; gpu_ceilings.cpp names the document of each figure.
struct GpuCeilings {
  std::string key;                        ///< "H100"
  std::string name;                       ///< e.g. "NVIDIA H100 SXM 80GB"
  std::vector<std::string> driver_names;  ///< what the driver calls this card and no other, "NVIDIA H100 80GB HBM3"
  std::string source;                     ///< the maker's document of FLOP/s and bytes/s
  int sms = 0;
  double clock_hz = 0;            ///< boost clock
  double tensor_clock_hz = 0;     ///< that tensor_flops_per_s implies, where it is another one; 0: the boost clock
  double flops_per_s = 0;         ///< float32, no tensor cores
  double tensor_flops_per_s = 0;  ///< fp16 or bf16 in, float32 out, dense; tf32, of which no kernel makes use, has less
  double tensor_int8_per_s = 0;   ///< int8 in, int32 out, dense: operations
  double tensor_fp8_per_s = 0;    ///< fp8 in, float32 out, dense; 0: it has none, and fp8 goes as fp16
  double dram_bytes_per_s = 0;
  double l2_bytes_per_clock = 0;        ///< as reads reached it; 0: no figure to cite, and the model leaves L2 out
  std::string l2_source;                ///< who says so
  double shared_bytes_per_clock = 128;  ///< of one SM
  double request_clocks = 1;            ///< of one SM, from a load or store of a warp to the next

  std::string capability;    ///< what the machine code is compiled for: "8.0"
  int most_threads = 0;      ///< that an SM holds
  int most_blocks = 0;       ///< that an SM holds
  int64_t shared_bytes = 0;  ///< of an SM, for blocks to have
  int64_t l1_bytes = 0;      ///< of an SM, with the shared memory
  int64_t l2_bytes = 0;      ///< capacity
  double l1_latency = 0;     ///< clocks from a load to its value; shared memory, L2 and DRAM likewise
  double shared_latency = 0, l2_latency = 0, dram_latency = 0;
  std::string latency_source;
  double mma_share = 1;  ///< of tensor_flops_per_s that mma.sync reaches at most

  /// One clock for all that the model of time computes: the lower one, as under load.
  double model_clock_hz() const { return tensor_clock_hz > 0 ? tensor_clock_hz : clock_hz; }
  double l2_bytes_per_s() const { return l2_bytes_per_clock * model_clock_hz(); }
};

const std::vector<GpuCeilings>& known_gpus();

/// Cards that only others' tables were measured on (docs/published_ladders): no page has a column for them.
const std::vector<GpuCeilings>& ladder_gpus();

/// Upper and lower case are the same. Throws std::invalid_argument, one line that lists the known ones.
const GpuCeilings& gpu_named(const std::string& key);

/// The card that the driver calls so; null where there is none in the table: one with other memory or another clock has
/// other figures.
const GpuCeilings* gpu_of_driver(const std::string& name);

}  // namespace tenfold::simt
