#include "common/pages/book/nsight_tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/kernel_resources.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/result.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kTime = "gpu__time_duration.sum";

template <class F>
auto with_json(const fs::path& root, const std::string& stem, const std::string& script, F&& use) {
  const fs::path file = root / "results" / "compiler" / (stem + ".json");
  if (!fs::exists(file)) throw FileError(file.string() + " is missing; write it with kernels/model/" + script);
  try {
    const Json json = Json::parse(read_text(file));
    if (json.at("schema") != "tenfold." + stem + "/1") throw FileError(file.string() + ": unknown schema");
    return use(json);
  } catch (const nlohmann::json::exception& error) {
    throw FileError(file.string() + " is damaged: " + error.what());
  }
}

template <class F>
auto with_sheet(const fs::path& root, F&& use) {
  return with_json(root, "nsight_compute", "nsight_sheet.py", std::forward<F>(use));
}

template <class F>
auto with_loads(const fs::path& root, F&& use) {
  return with_json(root, "loads_in_flight", "listing.py --write", std::forward<F>(use));
}

/// "layer_norm backward", with a mark where the kernel has changed since.
std::string title_of(const fs::path& root, const Json& kernel) {
  std::string title = kernel.at("operation");
  const std::string name = kernel.at("kernel");
  if (title.starts_with(name + "_")) title[name.size()] = ' ';
  const bool stale = kernel.at("sources") != kernel_sources_hash(root, kernel.at("kernel").get<std::string>());
  return title + (stale ? " *stale*" : "");
}

/// What the metric should be; nothing where the kernel does none of it.
std::string value_of(const Json& values, const std::string& metric, std::string (*text_of)(double)) {
  return values.contains(metric) ? text_of(values.at(metric)) : "-";
}

/// The kernel of a rung that takes longest.
const Json& longest_launch(const Json& rung) {
  const Json& launches = rung.at("launches");
  return *std::max_element(launches.begin(), launches.end(), [](const Json& a, const Json& b) {
    return a.at("values").at(kTime).get<double>() < b.at("values").at(kTime).get<double>();
  });
}

std::string nanoseconds(double value) { return human_seconds(1e-9 * value); }

}  // namespace

std::string nsight_metrics_markdown(const fs::path& root) {
  return with_sheet(root, [](const Json& json) {
    Rows rows = {{"ours", "Nsight Compute", "section", "it should be", "where it is not"}};
    for (const Json& metric : json.at("metrics")) {
      const std::string rule = metric.at("rule");
      rows.push_back({metric.at("ours"), "`" + metric.at("name").get<std::string>() + "`", metric.at("section"), rule,
                      metric.at("why")});
    }
    return markdown_table(rows);
  });
}

std::string nsight_sheet_markdown(const fs::path& root) {
  return with_sheet(root, [&](const Json& json) {
    const std::string l1 = "l1tex__", lsu = "_pipe_lsu_mem_global_op_";
    struct Column {
      std::string head, metric;
      std::string (*text_of)(double);
    };
    const std::vector<Column> columns = {
        {"instructions", "smsp__inst_executed.sum", human_number},
        {"load", l1 + "average_t_sectors_per_request" + lsu + "ld.ratio", human_number},
        {"store", l1 + "average_t_sectors_per_request" + lsu + "st.ratio", human_number},
        {"shared wavefronts", l1 + "data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", human_number},
        {"bank conflicts", l1 + "data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", human_number},
        {"L2 sectors read", "lts__t_sectors_srcunit_tex_op_read.sum", human_number},
        {"DRAM read", "dram__bytes_read.sum", human_bytes},
        {"DRAM written", "dram__bytes_write.sum", human_bytes},
        {"registers", "launch__registers_per_thread", human_number},
        {"warps, %", "sm__warps_active.avg.pct_of_peak_sustained_active", human_number},
        {"at least", kTime, nanoseconds}};
    Rows rows = {{"kernel", "rung"}};
    for (const Column& column : columns) rows[0].push_back(column.head);
    std::string heads;
    for (const Column& column : columns)
      heads += (heads.empty() ? "" : "; ") + ("*" + column.head + "* `" + column.metric + "`");
    for (const Json& kernel : json.at("kernels")) {
      int number = 0;
      for (const Json& rung : kernel.at("rungs")) {
        const Json& values = longest_launch(rung).at("values");
        rows.push_back({title_of(root, kernel), std::to_string(number++) + " " + rung.at("name").get<std::string>()});
        for (const Column& column : columns) rows.back().push_back(value_of(values, column.metric, column.text_of));
      }
    }
    return "For an " + json.at("gpu").get<std::string>() + ", nvcc " + json.at("nvcc").get<std::string>() + ", " +
           json.at("date").get<std::string>() + "; no card has confirmed a number.\n\n" + markdown_table(rows) + "\n" +
           heads + ".\n";
  });
}

std::string loads_in_flight_markdown(const fs::path& root) {
  return with_loads(root, [&](const Json& json) {
    const double needed = json.at("bytes_needed_on_sm");
    Rows rows = {{"kernel", "rung", "loads of a warp", "bytes of a warp", "warps on an SM", "bytes on an SM"}};
    for (const Json& kernel : json.at("kernels")) {
      int number = 0;
      for (const Json& rung : kernel.at("rungs")) {
        const double bytes = rung.at("bytes_on_sm");
        const std::string name = std::to_string(number++) + " " + rung.at("name").get<std::string>();
        const int loads = rung.at("loads");
        if (loads == 0) continue;  // TMA's copies are no loads of a warp
        rows.push_back({title_of(root, kernel), name, std::to_string(loads), human_bytes(rung.at("bytes_of_warp")),
                        std::to_string(rung.at("warps_on_sm").get<int>()),
                        bytes < needed ? "**" + human_bytes(bytes) + "**" : human_bytes(bytes)});
      }
    }
    return "Of the code for an " + json.at("gpu").get<std::string>() + ", nvcc " + json.at("nvcc").get<std::string>() +
           ", " + json.at("date").get<std::string>() + ". **Bold**: less than the " + human_bytes(needed) +
           " that have to be on their way on each SM, if DRAM is to give all its bytes and answers each request "
           "within " +
           human_number(json.at("dram_latency")) + " clocks.\n\n" + markdown_table(rows);
  });
}

std::string control_bits_check_markdown(const fs::path& root) {
  return with_loads(root, [](const Json& json) {
    const Json& checked = json.at("checked");
    const auto count = [&](const char* name) { return std::to_string(checked.at(name).get<int64_t>()); };
    return "In " + count("kernels") + " kernels for an " + json.at("gpu").get<std::string>() + ", nvcc " +
           json.at("nvcc").get<std::string>() + ", " + json.at("date").get<std::string>() + ":\n\n" +
           markdown_table({{"what a right program does", "counted", "otherwise"},
                           {"who needs a register that one of " + count("loads") + " loads fills has waited",
                            count("uses"), count("wrong_uses")},
                           {"who overwrites a register that is still to be read has waited", count("overwrites"),
                            count("wrong_overwrites")},
                           {"from an FFMA, FADD or FMUL to the next that needs it the stall counts add up to " +
                                count("clocks") + " or more",
                            count("chains"), count("short_chains")}});
  });
}

std::string control_bits_markdown(const fs::path& root) {
  return with_loads(root, [&](const Json& json) {
    const Json& example = json.at("example");
    std::string text = "The loop of `" + example.at("operation").get<std::string>() + "`, rung " +
                       std::to_string(example.at("rung").get<int>()) + ", on an " + json.at("gpu").get<std::string>() +
                       "; a warp runs it " + human_number(example.at("times")) + " times:\n\n```text\n";
    for (const Json& line : example.at("lines")) text += line.get<std::string>() + "\n";
    return text + "```\n";
  });
}

}  // namespace tenfold
