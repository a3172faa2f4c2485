// scale: a step that was measured, on more GPUs.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/machine/scaling.h"
#include "common/pages/rows/forecast_words.h"

namespace tenfold::cli {
namespace {

constexpr int kOfLayers = 3 * (32 + 1);  // FSDP's: two gathers and a scatter of each of 32 layers, and of the rest

struct Row {
  int gpus = 0;
  double exchange = 0;  ///< seconds
  StepBounds step;
  double seconds = 0;  ///< of the measured step
};

std::vector<Row> rows_of(const ScaleOptions& options) {
  const double seconds = options.step_ms / 1e3;
  StepExchange exchange{.reduced_bytes = options.gradient_bytes * options.parameters, .sharded = options.sharded};
  if (options.sharded) exchange.gathered_bytes = 2 * options.weight_bytes * options.parameters;
  exchange.collectives = options.collectives > 0 ? options.collectives
                         : options.sharded       ? kOfLayers
                                                 : ddp_buckets(exchange.reduced_bytes);
  const Cluster cluster{.per_node = options.per_node,
                        .inside_bytes_per_s = options.inside_gbyte * 1e9,
                        .node_bytes_per_s = options.node_gbit * 1e9 / 8};
  std::vector<Row> rows;
  for (const int gpus : options.gpus.empty() ? std::vector<int>{8, 64, 512} : options.gpus) {
    rows.push_back({gpus, exchange_seconds(exchange, gpus, cluster),
                    step_bounds(seconds, options.measured_gpus, gpus, exchange, cluster), seconds});
  }
  return rows;
}

}  // namespace

int scale(const ScaleOptions& options) {
  if (options.parameters == 0 || options.step_ms == 0) {
    throw UsageError(std::string("scale: ") + (options.parameters == 0 ? "--parameters" : "--step-ms") +
                     " is missing; for example: ./tenfold scale --parameters 8.03e9 --step-ms 2843 --sharded");
  }
  const std::vector<Row> rows = rows_of(options);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row& row : rows) {
      all.push_back({{"gpus", row.gpus},
                     {"exchange_seconds", row.exchange},
                     {"least_step_seconds", row.step.least},
                     {"most_step_seconds", row.step.most},
                     {"least_efficiency", row.seconds / row.step.most},
                     {"most_efficiency", row.seconds / row.step.least}});
    }
    std::cout << all.dump(1) << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> cells = {forecast_heads()};
  for (const Row& row : rows) cells.push_back(forecast_cells(row.gpus, row.exchange, row.step, row.seconds));
  std::cout
      << human_number(options.parameters) << " parameters, " << (options.sharded ? "sharded" : "all-reduced") << "; "
      << human_seconds(options.step_ms / 1e3) << " a step on " << options.measured_gpus << "\n"
      << format_columns(cells, "rrrrr")
      << "Modelled, with as much to compute on each GPU. Most published runs lie between the two: docs/scaling.md\n";
  return 0;
}

}  // namespace tenfold::cli
