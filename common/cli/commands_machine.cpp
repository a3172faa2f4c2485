// The commands that need no lesson, a kernel, dry GPUs, a snapshot and the data: their options.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fit_flags.h"
#include "common/base/flags.h"
#include "common/cli/command_line.h"
#include "common/cli/command_table.h"
#include "common/cli/commands.h"

namespace tenfold::cli {

Action kernel_command(CLI::App& app) {
  const auto options = std::make_shared<KernelOptions>();
  const auto given = std::make_shared<GivenFlags>();
  app.add_option("name", options->name, "e.g. transpose")->type_name("");
  for (const Flag& flag : kernel_flags()) add_flag(app, flag, *given);
  return [options, given] {
    options->flags = as_arguments(*given);
    return kernel(*options);
  };
}

Action dry_command(CLI::App& app, const std::vector<std::string>& program) {
  const auto options = std::make_shared<DryOptions>();
  const auto given = std::make_shared<GivenFlags>();
  options->program = program;
  app.add_flag("--list", options->list, "the cards that there are");
  app.add_flag("--json", options->json, "with --list: as a JSON array, with what each can do at most");
  app.add_option("--gpu", options->gpu, "which card; default H100")->type_name("NAME");
  add_flag(app, {.name = "--gpus", .value = "N", .help = "how many of it; default 1", .range = Range{1, 64}}, *given);
  app.add_flag("--time", options->timed, "model how long the card is busy, and the time between its events");
  add_flag(app,
           {.name = "--arithmetic",
            .value = "WHEN",
            .help = "compute, on the CPU: late, when somebody waits, or early; both are orders of a GPU",
            .choices = {"late", "early"}},
           *given);
  return [options, given] {
    options->gpus = static_cast<int>(number_of(*given, "--gpus", 1));
    options->arithmetic = value_of(*given, "--arithmetic", "");
    return dry(*options);
  };
}

Action snapshot_command(CLI::App& app) {
  const auto file = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  app.add_option("file", *file, "e.g. snapshot.pickle")->required()->type_name("");
  app.add_flag("--json", *json, "as a JSON object, in bytes and seconds");
  return [file, json] { return snapshot(*file, *json); };
}

Action fit_command(CLI::App& app) {
  const auto options = std::make_shared<FitOptions>();
  for (const Flag& flag : fit_flags()) add_flag(app, flag, options->flags);
  app.add_option("--gpu", options->gpus,
                 "on this card; repeat the flag for more, or: all; default T4, RTX-4090, A100, H100")
      ->type_name("NAME")
      ->take_all();
  app.add_flag("--json", options->json, "as JSON");
  return [options] { return fit(*options); };
}

Action scale_command(CLI::App& app) {
  const auto options = std::make_shared<ScaleOptions>();
  const CLI::Range gpus(1, 1 << 20), bytes(0.125, 16.0), rate(1e-3, 1e6);
  app.add_option("--parameters", options->parameters, "of the model, e.g. 8.03e9")
      ->type_name("N")
      ->check(CLI::Range(1.0, 1e15));
  app.add_option("--step-ms", options->step_ms, "a step as it was measured")
      ->type_name("MS")
      ->check(CLI::Range(1e-3, 1e9));
  app.add_option("--measured-gpus", options->measured_gpus, "on so many; default 8")->type_name("N")->check(gpus);
  app.add_option("--gpus", options->gpus, "on so many, each with as much to compute; default 8,64,512")
      ->type_name("N,N")
      ->delimiter(',')
      ->check(gpus);
  app.add_flag("--sharded", options->sharded, "parameters are gathered twice in a step, as FSDP and ZeRO 3 do");
  app.add_option("--gradient-bytes", options->gradient_bytes, "of a parameter's gradient, as it is sent; default 4")
      ->type_name("N")
      ->check(bytes);
  app.add_option("--weight-bytes", options->weight_bytes, "of a gathered parameter; default 2")
      ->type_name("N")
      ->check(bytes);
  app.add_option("--collectives", options->collectives,
                 "pieces in which a step's bytes are exchanged; default buckets of 25 MiB; sharded, those of "
                 "32 layers")
      ->type_name("N")
      ->check(gpus);
  app.add_option("--per-node", options->per_node, "GPUs in a node; default 8")->type_name("N")->check(gpus);
  app.add_option("--inside", options->inside_gbyte, "GB/s each way that rings reach in a node; default 370, an H100's")
      ->type_name("GB/S")
      ->check(rate);
  app.add_option("--network", options->node_gbit, "Gbit/s each way of all adapters of a node; default 3200")
      ->type_name("GBIT/S")
      ->check(rate);
  app.add_flag("--json", options->json, "as JSON");
  return [options] { return scale(*options); };
}

Action data_command(CLI::App& app) {
  const auto given = std::make_shared<GivenFlags>();
  CLI::App* const pack =
      app.add_subcommand(
             "pack",
             "pack the pictures of openclipart into a train and a test shard: as PNG files, unless told otherwise")
          ->allow_extras()
          ->fallthrough(false);
  for (const auto& [name, help] : {std::pair("--jpeg", "as JPEG files, longer side at most SIDE"),
                                   std::pair("--raw", "as pixels, SIDE x SIDE x 3 bytes each")})
    add_flag(*pack, {.name = name, .value = "SIDE", .help = help, .range = Range{8, 4096}}, *given);
  return [pack, given] {
    if (!pack->parsed()) return list_data();
    refuse_extras(*pack);
    return pack_data({.jpeg = static_cast<int>(number_of(*given, "--jpeg", 0)),
                      .raw = static_cast<int>(number_of(*given, "--raw", 0))});
  };
}

}  // namespace tenfold::cli
