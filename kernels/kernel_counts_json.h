// What kernel_counts prints, as JSON for common/tools/kernel_time.py.
#pragma once

#include <nlohmann/json.hpp>

#include "common/kernel_page/gpu_ceilings.h"
#include "common/kernel_page/kernel_page.h"

namespace tenfold::simt {

nlohmann::json json_of(const KernelCounts& kernel);

/// One entry for each of known_gpus(): rates in bytes or operations a second, latencies in clocks.
nlohmann::json gpus_json();

}  // namespace tenfold::simt
