#include "common/pages/book/published_scaling.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/machine/scaling.h"
#include "common/pages/rows/forecast_words.h"
#include "common/pages/rows/markdown_table.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Where the efficiencies of two models are closer, their order says nothing.
constexpr double kApart = 0.02;

/// One published number, and what the model says of it.
struct Point {
  std::string model;
  int gpus = 0, measured_gpus = 0;
  double published = 0;        ///< efficiency: speed of a GPU, over that on measured_gpus
  double least = 0, most = 0;  ///< modelled

  bool within() const { return least <= published && published <= most; }
};

struct Run {
  std::string name, setup, source, url;
  std::vector<Point> points;
};

Cluster cluster_of(const Json& json) {
  return {.per_node = json.at("per_node"),
          .inside_bytes_per_s = json.at("inside_gbyte_per_s").get<double>() * 1e9,
          .node_bytes_per_s = json.at("node_gbit_per_s").get<double>() * 1e9 / 8};
}

StepExchange exchange_of(const Json& row) {
  const double parameters = row.at("parameters");
  return {.reduced_bytes = 4 * parameters,
          .gathered_bytes = row.value("gathered_bytes_per_parameter", 0.0) * parameters,
          .sharded = row.value("sharded", false),
          .collectives = row.value("collectives", ddp_buckets(4 * parameters))};
}

/// Of the step that was measured.
double seconds_of(const Json& row) {
  return row.at("per_step").get<double>() * row.at("measured_gpus").get<double>() / row.at("rate").get<double>();
}

std::vector<Point> points_of(const Json& row, const Cluster& cluster) {
  const StepExchange exchange = exchange_of(row);
  const double seconds = seconds_of(row);
  std::vector<Point> points;
  for (const Json& json : row.at("points")) {
    Point point{.model = row.at("model"), .gpus = json.at("gpus"), .measured_gpus = row.at("measured_gpus")};
    const double of_a_gpu = row.at("rate").get<double>() / point.measured_gpus;
    point.published = json.contains("efficiency") ? json.at("efficiency").get<double>()
                                                  : json.at("rate").get<double>() / point.gpus / of_a_gpu;
    const StepBounds bounds = step_bounds(seconds, point.measured_gpus, point.gpus, exchange, cluster);
    point.least = seconds / bounds.most;
    point.most = seconds / bounds.least;
    points.push_back(point);
  }
  return points;
}

template <class F>
auto with_file(const fs::path& root, F&& use) {
  const fs::path file = root / "docs" / "published_scaling.json";
  try {
    const Json json = Json::parse(read_text(file));
    if (json.at("schema") != "tenfold.published_scaling/1") throw FileError(file.string() + ": unknown schema");
    return use(json.at("tables"));
  } catch (const Json::exception& error) {
    throw FileError(file.string() + " is damaged: " + one_line(error.what()));
  }
}

std::vector<Run> runs_of(const Json& tables) {
  std::vector<Run> runs;
  for (const Json& table : tables) {
    Run run{table.at("name"), table.at("setup"), table.at("source"), table.at("url"), {}};
    for (const Json& row : table.at("rows")) {
      const std::vector<Point> points = points_of(row, cluster_of(table.at("cluster")));
      run.points.insert(run.points.end(), points.begin(), points.end());
    }
    runs.push_back(run);
  }
  return runs;
}

struct Order {
  int pairs = 0, alike = 0;
};

/// Of the models of a run on as many GPUs.
Order order_of(const std::vector<Run>& runs) {
  Order order;
  for (const Run& run : runs) {
    for (size_t i = 0; i < run.points.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Point &a = run.points[i], &b = run.points[j];
        if (a.gpus != b.gpus || std::abs(a.published - b.published) < kApart) continue;
        ++order.pairs;
        if ((a.published < b.published) == (a.least < b.least)) ++order.alike;
      }
    }
  }
  return order;
}

/// With a decimal: "99.2 %", where most lie close to the whole.
std::string percent(double share) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << 100 * share << " %";
  return text.str();
}

}  // namespace

std::string published_scaling_markdown(const fs::path& root) {
  return with_file(root, [](const Json& tables) {
    const std::vector<Run> runs = runs_of(tables);
    std::vector<std::vector<std::string>> rows = {{"published run", "model", "GPUs", "efficiency, published",
                                                   "modelled: nothing hidden", "all hidden", "between"}};
    int points = 0, within = 0;
    double worst = 0;
    for (const Run& run : runs) {
      for (const Point& point : run.points) {
        ++points;
        within += point.within() ? 1 : 0;
        worst = std::max({worst, point.least - point.published, point.published - point.most});
        rows.push_back(
            {run.name, point.model, std::to_string(point.measured_gpus) + " to " + std::to_string(point.gpus),
             percent(point.published), percent(point.least), percent(point.most), point.within() ? "yes" : "no"});
      }
    }
    const Order order = order_of(runs);
    std::string text = markdown_table_of_texts(rows) + "\n" + std::to_string(within) + " of " + std::to_string(points) +
                       " published efficiencies lie between the two bounds";
    text += within == points ? "" : "; the farthest is " + human_number(100 * worst) + " points off";
    text += ". Of " + std::to_string(order.pairs) + " pairs of models of a run that are more than " +
            human_number(100 * kApart) + " points apart, " + std::to_string(order.alike) +
            " stand in the published order.\n\n";
    for (const Run& run : runs)
      text += "- *" + run.name + "*: " + run.setup + ". [" + run.source + "](" + run.url + ").\n";
    return text;
  });
}

std::string scaling_forecast_markdown(const fs::path& root) {
  return with_file(root, [](const Json& tables) {
    const Json& table = tables.back();
    const Json& row = table.at("rows").front();
    const StepExchange exchange = exchange_of(row);
    const double seconds = seconds_of(row);
    const int measured = row.at("measured_gpus");
    std::vector<std::vector<std::string>> rows = {forecast_heads()};
    rows[0].insert(rows[0].begin(), "network of a node");
    for (const double gbit : {3200., 400., 100., 25.}) {
      Cluster cluster = cluster_of(table.at("cluster"));
      cluster.node_bytes_per_s = gbit * 1e9 / 8;
      for (const int gpus : {8, 64, 512}) {
        if (gpus == measured && gbit < 3200) continue;  // one node has no network
        rows.push_back(forecast_cells(gpus, exchange_seconds(exchange, gpus, cluster),
                                      step_bounds(seconds, measured, gpus, exchange, cluster), seconds));
        rows.back().insert(rows.back().begin(), gpus == measured ? "-" : human_number(gbit) + " Gbit/s");
      }
    }
    return row.at("model").get<std::string>() + ", " + human_seconds(seconds) + " a step on " +
           std::to_string(measured) + " GPUs (published):\n\n" + markdown_table_of_texts(rows);
  });
}

}  // namespace tenfold
