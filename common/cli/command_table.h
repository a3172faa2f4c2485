#pragma once
// The driver's commands as a table. Each row's function registers the options of its command and says what they mean.
// What a command then does is in commands.h.

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tenfold::cli {

/// Runs a command after its options were parsed. It owns the variables that they are parsed into, so it must live until
/// then. Returns the exit code; throws UsageError on bad input.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* help;  ///< its first line is all that the overview shows
  std::function<Action(CLI::App&)> add;
};

/// All commands of the driver but `help`, in the order of the overview. `program`: the words after "--", which only
/// `dry` has.
std::vector<Command> command_table(const std::vector<std::string>& program);

// Each registers the options of one command on `app`, which must outlive the action.

Action tour_command(CLI::App& app);
Action list_command(CLI::App& app);
Action run_command(CLI::App& app);
Action exercise_command(CLI::App& app);
Action new_lesson_command(CLI::App& app);

Action kernel_command(CLI::App& app);
Action dry_command(CLI::App& app, const std::vector<std::string>& program);
Action snapshot_command(CLI::App& app);
Action fit_command(CLI::App& app);
Action scale_command(CLI::App& app);
Action data_command(CLI::App& app);

Action report_command(CLI::App& app);
Action publish_command(CLI::App& app);
Action reproduce_command(CLI::App& app);
Action compare_command(CLI::App& app);
Action score_command(CLI::App& app);
Action claims_command(CLI::App& app);

}  // namespace tenfold::cli
