#include "common/pages/rows/kernel_rows.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/machine/gpu_ceilings.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kSameWork = 1e-6;  // relative: bytes are read back from bytes/s
constexpr const char* kCopy = "copy";

double scale_of(const std::string& unit) { return unit == "ns" ? 1e-9 : unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1; }

/// "softmax, Float, 8192 x 8192/rung 3/cold" as ladder, contestant, caches; nothing of another benchmark's name.
std::optional<KernelRow> named(const std::string& name) {
  const size_t caches = name.rfind('/');
  if (caches == std::string::npos || caches == 0) return std::nullopt;
  const size_t contestant = name.rfind('/', caches - 1);
  KernelRow row;
  row.caches = name.substr(caches + 1);
  if (contestant == std::string::npos || (row.caches != "cold" && row.caches != "hot")) return std::nullopt;
  row.ladder = name.substr(0, contestant);
  row.name = name.substr(contestant + 1, caches - contestant - 1);
  return row;
}

bool same_row(const KernelRow& a, const KernelRow& b) { return a.label() == b.label(); }

bool same_work(double a, double b) { return std::abs(a - b) <= kSameWork * std::max(a, b); }

std::vector<double> rates(const KernelRow& row) {
  std::vector<double> rates;
  for (const double seconds : row.seconds) rates.push_back(1 / seconds);
  return rates;
}

void add_copies(std::vector<KernelRow>& rows) {
  for (KernelRow& row : rows) {
    const auto copy = std::ranges::find_if(rows, [&](const KernelRow& other) {
      return other.ladder == row.ladder && other.caches == row.caches && other.name == kCopy;
    });
    if (copy != rows.end() && row.name != kCopy) row.of_copy = speeds_over(row, *copy);
  }
}

}  // namespace

std::vector<double> speeds_over(const KernelRow& row, const KernelRow& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(row.seconds.size(), other.seconds.size()); ++i)
    ratios.push_back(other.seconds[i] / row.seconds[i]);
  return ratios;
}

bool is_bench_report(const std::string& text) {
  if (text.find("\"benchmarks\"") == std::string::npos) return false;  // a result is long to parse
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() && json.contains("context") && json.contains("benchmarks");
}

std::vector<KernelRow> read_kernel_rows(const fs::path& file) {
  try {
    const Json json = Json::parse(read_text(file));
    const Json& context = json.at("context");
    std::vector<KernelRow> rows;
    for (const Json& run : json.at("benchmarks")) {
      std::optional<KernelRow> row = named(run.at("name").get<std::string>());
      if (!row || run.value("run_type", "") != "iteration") continue;
      row->program = file.stem().string();
      row->gpu = context.value("gpu", ""), row->commit = context.value("commit", "");
      const double seconds = run.at("real_time").get<double>() * scale_of(run.at("time_unit").get<std::string>());
      if (!(seconds > 0)) throw FileError(file.string() + ": " + row->label() + ": its time is not positive");
      auto known = std::ranges::find_if(rows, [&](const KernelRow& other) { return same_row(*row, other); });
      if (known == rows.end()) {
        row->bytes = run.value("bytes/s", 0.0) * seconds, row->flops = run.value("FLOP/s", 0.0) * seconds;
        rows.push_back(std::move(*row));
        known = std::prev(rows.end());
      }
      known->seconds.push_back(seconds);
    }
    add_copies(rows);
    return rows;
  } catch (const Json::exception& error) {
    throw FileError(file.string() + ": is no benchmark report: " + one_line(error.what()));
  }
}

ComparedKernels compare_kernels(const std::vector<KernelRow>& a, const std::vector<KernelRow>& b) {
  ComparedKernels out;
  const auto count = [](const std::vector<KernelRow>& rows, const KernelRow& row) {
    return std::ranges::count_if(rows, [&](const KernelRow& other) { return same_row(row, other); });
  };
  const auto refuse = [&](const KernelRow& row, const std::string& reason) {
    out.refused.push_back({row.program + ", " + row.ladder + ", " + row.name + ", " + row.caches, reason});
  };
  for (const KernelRow& right : b) {
    const auto left = std::ranges::find_if(a, [&](const KernelRow& row) { return same_row(row, right); });
    if (left == a.end()) {
      refuse(right, "only in B");
    } else if (count(a, right) > 1 || count(b, right) > 1) {
      refuse(right, "occurs more than once on one side; name single files");
    } else if (!same_work(left->bytes, right.bytes) || !same_work(left->flops, right.flops)) {
      refuse(right, "a launch needs other bytes or FLOPs in A");
    } else {
      out.rows.push_back({*left, right, independent_ratio(rates(*left), rates(right))});
    }
  }
  for (const KernelRow& left : a) {
    if (count(b, left) == 0) refuse(left, "only in A");
  }
  return out;
}

std::string share_of_ceiling(const KernelRow& row) {
  const simt::GpuCeilings* card = simt::gpu_of_driver(row.gpu);
  if (card != nullptr && (row.bytes > 0 || row.flops > 0)) {
    const double seconds = median(row.seconds);
    // Of what is not float32 the tensor cores are the roof, whether a rung uses them or not.
    const bool fp32 = row.ladder.find(", Float,") != std::string::npos;
    const double bytes = row.bytes / seconds / card->dram_bytes_per_s;
    const double flops = row.flops / seconds / (fp32 ? card->flops_per_s : card->tensor_flops_per_s);
    if (bytes >= flops) return "DRAM " + human_percent(bytes);
    return (fp32 ? "fp32 " : "tensor ") + human_percent(flops);
  }
  if (row.of_copy.empty()) return "";
  return interval_text(median_interval(row.of_copy)) + " of copy";
}

Cells kernel_cells(const std::vector<ComparedKernel>& rows, const Sides& sides) {
  Cells cells = {{"ladder", "contestant", "caches", "speed, " + sides[1] + " over " + sides[0],
                  sides[0] + " of its ceiling", sides[1] + " of its ceiling"}};
  const auto share = [](const KernelRow& row) {
    const std::string text = share_of_ceiling(row);
    return text.empty() ? std::string("-") : text;
  };
  for (const ComparedKernel& row : rows) {
    cells.push_back({row.b.ladder, row.b.name, row.b.caches, interval_text(row.speed), share(row.a), share(row.b)});
  }
  return cells;
}

}  // namespace tenfold
