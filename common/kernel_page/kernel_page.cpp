#include "common/kernel_page/kernel_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/base/number_in.h"
#include "common/base/streams.h"
#include "common/base/text.h"
#include "common/kernel_page/counts.h"
#include "common/kernel_page/picture.h"
#include "common/kernel_page/report_text.h"
#include "common/kernel_page/sizes.h"
#include "common/result/result.h"

namespace tenfold::simt {
namespace {

constexpr int kBadResult = 1, kBadUsage = 2;

struct PageOptions {
  std::string rung, shape, json, pictures;
  bool no_races = false, describe = false;
};

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

/// Empty after --help, which has printed.
std::optional<PageOptions> parse(int argc, char** argv, const KernelCase& page) {
  GivenFlags given;
  CLI::App app(page.title +
               ", under the microscope: runs the CUDA source on the CPU and counts what it asks of the memory");
  app.set_help_flag("--help", kHelpText);
  for (const Flag& flag : kernel_flags()) add_flag(app, flag, given);
  if (!parse_flags(app, argc, argv)) return std::nullopt;
  return PageOptions{.rung = value_of(given, "--rung", ""),
                     .shape = value_of(given, "--shape", ""),
                     .json = value_of(given, "--json", ""),
                     .pictures = value_of(given, "--pictures", ""),
                     .no_races = given.contains("--no-races"),
                     .describe = given.contains("--describe")};
}

// The product of a shape's dimensions: far above what ends within a day, and far below where 64 bits overflow.
constexpr double kMostNumbers = 1e12;

std::vector<int> rungs_of(const PageOptions& options, const KernelCase& page) {
  std::vector<int> rungs;
  std::string all;
  const auto number = number_in<int64_t>(options.rung);
  for (size_t i = 0; i < page.rungs.size(); ++i) {
    const bool meant = options.rung.empty() || options.rung == page.rungs[i].name || number == static_cast<int64_t>(i);
    if (meant) rungs.push_back(static_cast<int>(i));
    all += (i == 0 ? "" : ", ") + std::to_string(i) + " " + page.rungs[i].name;
  }
  if (rungs.empty()) refuse("--rung " + options.rung + ": no such rung; this kernel has: " + all);
  return rungs;
}

Shape shape_of(const PageOptions& options, const KernelCase& page) {
  const Shape shape = parse_shape("--shape " + options.shape, options.shape, page.shape, /*least=*/1);
  double numbers = 1;
  for (const auto& [name, value] : shape) numbers *= static_cast<double>(value);
  if (numbers > kMostNumbers) {
    refuse("--shape " + options.shape + ": more than the microscope can hold; the kernel's own shape is " +
           text_of(page.shape));
  }
  return shape;
}

/// "transpose_rung2_03_shared_store.svg", numbered in the table's order.
void write_pictures(const std::filesystem::path& folder, const KernelCase& page, const RungResult& result) {
  const std::string rung = std::to_string(result.rung);
  for (size_t i = 0; i < result.report.accesses.size(); ++i) {
    const Access& access = result.report.accesses[i];
    if (access.bytes > 16) continue;  // a box or an operand: no lanes that could be drawn
    const std::string what = std::string(name_of(access.space)) + " " + name_of(access.kind);
    const std::string number = (i + 1 < 10 ? "0" : "") + std::to_string(i + 1);
    const std::string title = page.name + ", rung " + rung + " " + page.rungs[static_cast<size_t>(result.rung)].name +
                              ": " + what + (access.buffer.empty() ? "" : " of '" + access.buffer + "'") + " at " +
                              short_text_of(access.where);
    const std::string file =
        page.name + "_rung" + rung + "_" + number + "_" + name_of(access.space) + "_" + name_of(access.kind) + ".svg";
    write_atomically(folder / file, picture(access, title, source_line(access.where)));
  }
}

int run_page(int argc, char** argv, const KernelCase& page, const PageBody& run) {
  if (argc > 1 && std::string_view(argv[1]) == "counts") {
    std::cout << format_counts(page, {argv + 2, argv + argc});
    return 0;
  }
  const std::optional<PageOptions> options = parse(argc, argv, page);
  if (!options) return 0;
  if (options->describe) {
    std::cout << format_description(page);
    return 0;
  }
  const std::vector<int> rungs = rungs_of(*options, page);
  const Shape shape = shape_of(*options, page);
  if (!options->json.empty()) require_writable(options->json, "--json " + options->json, "name another file");
  if (!options->pictures.empty())
    require_writable(std::filesystem::path(options->pictures) / "picture.svg", "--pictures " + options->pictures,
                     "name another folder");

  std::vector<RungResult> results;
  for (const int rung : rungs) {
    Device device({.count = true, .races = !options->no_races});
    RungResult result{.rung = rung};
    result.run = run(device, shape, rung);
    result.report = device.report();
    results.push_back(std::move(result));
  }
  if (options->rung.empty()) {
    std::cout << format_ladder(page, shape, results) << "\nOne rung in detail: ./tenfold kernel " << page.name
              << " --rung 0\n";
  } else {
    for (const RungResult& result : results) std::cout << format_rung(page, shape, result);
  }
  if (options->no_races) std::cout << "Races were not looked for (--no-races).\n";
  if (!options->json.empty()) write_atomically(options->json, format_json(page, shape, results));
  if (!options->pictures.empty()) {
    for (const RungResult& result : results) write_pictures(options->pictures, page, result);
    std::cout << "pictures: " << options->pictures << "\n";
  }
  const bool good = std::all_of(results.begin(), results.end(), [](const RungResult& result) { return result.good(); });
  return good ? 0 : kBadResult;
}

}  // namespace

int show(int argc, char** argv, const KernelCase& about, const PageBody& run) {
  const auto complain = [](const std::exception& error) {
    std::cout.flush();
    std::fprintf(stderr, "%s\n", one_line(error.what()).c_str());
  };
  open_standard_streams();
  int code = 0;
  try {
    code = run_page(argc, argv, about, run);
  } catch (const std::invalid_argument& error) {
    complain(error);
    return kBadUsage;
  } catch (const UsageError& error) {
    complain(error);
    return kBadUsage;
  } catch (const FileError& error) {  // a file that cannot be written
    complain(error);
    return kBadUsage;
  } catch (const std::bad_alloc&) {
    complain(std::runtime_error("there is not enough memory for this shape; name a smaller one with --shape"));
    return kBadUsage;
  } catch (const std::length_error&) {  // of a std::vector
    complain(std::runtime_error("there is not enough memory for this shape; name a smaller one with --shape"));
    return kBadUsage;
  } catch (const std::exception& error) {
    complain(error);
    return kBadResult;
  }
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "standard output cannot be written (is the disk full?)\n");
    return kBadUsage;
  }
  return code;
}

}  // namespace tenfold::simt
