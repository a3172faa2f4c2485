#pragma once
// How long a GPU would need at the least for what the microscope counted: a roofline over four ceilings. A model, never
// a measurement: it knows no latency, no occupancy, no launch cost and no cache hit.

#include "common/microscope/report.h"

#include <string>
#include <vector>

namespace tenfold::simt {

/// What a GPU can do at most, as its maker publishes it; roofline.cpp names the document of each figure.
struct GpuCeilings {
  std::string key;   ///< what --gpu takes, e.g. "H100"
  std::string name;  ///< e.g. "NVIDIA H100 SXM 80GB"
  int sms = 0;
  double clock_hz = 0;            ///< boost clock
  double flops_per_s = 0;         ///< float32, no tensor cores
  double tensor_flops_per_s = 0;  ///< fp16 or bf16 in, float32 out, dense; tf32, of which no kernel makes use, has less
  double dram_bytes_per_s = 0;
  double l2_bytes_per_clock = 0;        ///< reads; 0: no figure to cite, and the model leaves L2 out
  std::string l2_source;                ///< who says so
  double shared_bytes_per_clock = 128;  ///< of one SM

  double l2_bytes_per_s() const { return l2_bytes_per_clock * clock_hz; }
  /// A wavefront passes once over 32 banks of 4 bytes.
  double wavefronts_per_s() const { return sms * clock_hz * shared_bytes_per_clock / 128; }
};

const std::vector<GpuCeilings>& known_gpus();

/// Upper and lower case are the same. Throws std::invalid_argument, one line that lists the known ones.
const GpuCeilings& gpu_named(const std::string& key);

/// One resource: how much of it the kernel needs, and how long the GPU takes for that with nothing else in the way.
struct RooflinePart {
  std::string name;  ///< "DRAM", "L2", "shared memory", "arithmetic", "tensor cores"
  std::string unit;  ///< of `amount`: "bytes", "wavefronts", "flop"
  double amount = 0;
  double ceiling = 0;  ///< amount per second
  double seconds = 0;
};

struct Roofline {
  std::string gpu;                  ///< GpuCeilings::key
  std::vector<RooflinePart> parts;  ///< L2 is absent where no figure can be cited
  std::string bound;                ///< name of the slowest part
  double seconds = 0;               ///< its time
  double intensity = 0;             ///< flop per DRAM byte; 0 when no byte moved
};

/// The model for all launches of a report, of which `flops` is the arithmetic by formula; what the report counts on
/// tensor cores is taken from it. DRAM moves every touched sector once; L2 moves the sectors of every request. Source:
/// Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
Roofline roofline(const GpuCeilings& gpu, const Report& report, double flops);

}  // namespace tenfold::simt
