#include "common/cli/command_table.h"

#include "common/cli/commands.h"

namespace tenfold::cli {

std::vector<Command> command_table(const std::vector<std::string>& program) {
  const auto without_options = [](int (*action)()) { return [action](CLI::App&) -> Action { return action; }; };
  return {
      {"tour",
       "probe this machine, run the core lessons, print one table of verdicts and write a report\n"
       "Results go to <out>/<lesson>.json.\n"
       "Ctrl-C keeps what is done. Exit code 1 when a lesson failed, 130 when interrupted.",
       tour_command},
      {"list", "all lessons, with what each asks and when it was measured here", list_command},
      {"run",
       "run some lessons: by name, by number, or by a part of the name\n"
       "The flags of the lessons are handed on as they are; with --json or --trace only one lesson can run. Exit code: "
       "the worst of the lessons' (0 fine, 1 not valid, 77 cannot run here).",
       run_command},
      {"exercise",
       "start or check an exercise; without a name: the list of them\n"
       "The first call copies a starter to exercises/NAME/exercise.h; edit it and call again. Exit code 0 when every "
       "check passes.",
       exercise_command},
      {"kernel",
       "a CUDA kernel under the microscope, on any machine: what its warps ask of the memory, and its races\n"
       "Runs the kernel's own source on the CPU and counts. Without a name: the list of kernels. Exit code: 0; 1 when "
       "a result is wrong, or a race or a fault was found.",
       kernel_command},
      {"dry",
       "run a program of LibTorch or PyTorch on a GPU that is not there: does it fit, what does it ask\n"
       "Its allocator, streams and launches are LibTorch's own and are counted; nothing is computed, and no "
       "time is measured, but with --time it is modelled. The program stands behind \"--\" and must be built with CUDA "
       "13. Exit code: the program's.",
       [program](CLI::App& app) { return dry_command(app, program); }},
      {"snapshot",
       "what a memory snapshot of PyTorch says: stranded bytes, who held the peak, driver calls, which cure would "
       "help\n"
       "Reads what torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") wrote, or the same as JSON; nothing in it is "
       "run. The words and the rules: lessons/32_caching_allocator/README.md.",
       snapshot_command},
      {"fit",
       "what of a GPT's training fits on which GPU, with which techniques, and how fast it would be\n"
       "Trains it on dry GPUs, with one memory-saving technique after the other, and counts. For example: fit --layers "
       "32 "
       "--width 4096 --length 4096. docs/fit.md says what the columns mean. Exit code 77 when no card can do what "
       "--with asks "
       "for.",
       fit_command},
      {"scale",
       "how long a step of data parallel training, measured on some GPUs, would take on more of them, by model\n"
       "From the bytes that are exchanged and the links' rates, between two bounds: all that can be hidden is, nothing "
       "is. For example: scale --parameters 8.03e9 --step-ms 2843 --sharded. docs/scaling.md has the formulas, and "
       "published runs beside them.",
       scale_command},
      {"probe", "measure what this machine can do at most: copy and compute rates, launch cost",
       without_options(probe)},
      {"doctor", "what this machine has and lacks, each with the fix", without_options(doctor)},
      {"report", "write out/report.html from the results of this machine; or the tables in the documentation",
       report_command},
      {"publish",
       "copy this machine's results to results/, if they come from the clean, committed code of this tree\n"
       "All of them or none. They must have been measured with one preset, full unless --preset says otherwise; a case "
       "with fewer rounds than an interval wants is named.",
       publish_command},
      {"reproduce", "run what a published result ran, and print theirs beside yours", reproduce_command},
      {"compare", "result files or folders side by side, row by row; the first is the reference", compare_command},
      {"score",
       "what a dry GPU said of a card, held against what the card measured\n"
       "For each row whether the intervals of the speed ratio meet, and how far the counted peak is off.\n"
       "The set must be as it was sealed when it was published.",
       score_command},
      {"claims",
       "what articles promise, judged by published results, and what others measured\n"
       "A verdict for each machine: holds, does not hold, depends, not decided, not measured here. docs/claims.md says "
       "how.",
       claims_command},
      {"data",
       "what data there are; `data pack` fetches pictures (131 MB, once) and packs them into shards\n"
       "docs/data.md says what each set is. Shards lie in data/shards of the cache; what is packed already is not "
       "packed again.",
       data_command},
      {"new-lesson",
       "begin a lesson as a copy of another: new-lesson 66_my_technique\n"
       "The copy is version 1, installs no header, and its page shows no number. docs/adding_a_lesson.md goes on from "
       "there.",
       new_lesson_command},
      {"version", "print the version and what it was built with", without_options(version)},
  };
}

}  // namespace tenfold::cli
