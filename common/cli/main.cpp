// tenfold: the driver behind ./tenfold. One command, then its flags; bad input is one line and exit code 2.

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/flags.h"
#include "common/base/streams.h"
#include "common/base/text.h"
#include "common/cli/command_line.h"
#include "common/cli/command_table.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"

namespace tenfold::cli {
namespace {

/// The command line of the program that `dry` runs: the words after "--". They are not ours to parse, so `argc` then
/// ends before them.
std::vector<std::string> take_program(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "dry") return {};
  char** const dashes = std::find(argv, argv + argc, std::string_view("--"));
  std::vector<std::string> program;
  if (dashes < argv + argc) program.assign(dashes + 1, argv + argc);
  argc = static_cast<int>(dashes - argv);
  return program;
}

/// Throws UsageError on a word that is no command, which CLI11 would call an unexpected argument, and on the commands
/// of the script.
void check_command_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  for (const auto& [name, help] : kScriptCommands) {
    if (word == name) throw UsageError("'" + name + "' is run by the script; call: ./tenfold " + name);
    names.push_back(name);
  }
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string guess = nearest(word, names);
  throw UsageError("unknown command '" + word + "'" + (guess.empty() ? "" : "; did you mean '" + guess + "'?") +
                   " (all commands: ./tenfold help)");
}

/// The overview, or the help of the command that the first of these words names.
int show_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* shown = words.empty() ? &app : nullptr;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!words.empty() && command->get_name() == words.front()) shown = command;
  }
  if (!shown) throw UsageError("unknown command '" + words.front() + "' (all commands: ./tenfold help)");
  std::cout << app.get_formatter()->make_help(shown, "tenfold " + shown->get_name(), CLI::AppFormatMode::Normal);
  return 0;
}

int run(int argc, char** argv) {
  const std::vector<std::string> program = take_program(argc, argv);
  CLI::App app("", "tenfold");
  app.formatter(std::make_shared<Overview>());
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", kHelpText);
  app.set_version_flag("--version", "print the version and what it was built with");
  // What a command does not know is left to refuse_extras, which says it better.
  const auto add_command = [&app](const char* name, const char* help) {
    return app.add_subcommand(name, help)->allow_extras()->fallthrough(false);
  };
  std::map<std::string, Action> actions;
  for (const Command& command : command_table(program))
    actions[command.name] = command.add(*add_command(command.name, command.help));
  const CLI::App* const help = add_command("help", "this overview");

  if (argc > 1 && argv[1][0] != '-') check_command_word(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    return version();
  } catch (const CLI::CallForHelp& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    const std::string name = parsed.empty() ? "" : " " + parsed.front()->get_name();
    throw UsageError(one_line(error.what()) + " (see: ./tenfold" + name + " --help)");
  }
  const auto parsed = app.get_subcommands();
  if (parsed.empty() || help->parsed()) return show_help(app, help->remaining());  // "help run"
  refuse_extras(*parsed.front());
  return actions.at(parsed.front()->get_name())();
}

/// Whether whoever read our standard output has left, as `head` does.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

}  // namespace
}  // namespace tenfold::cli

int main(int argc, char** argv) {
  tenfold::open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough must not cost what is being measured
  int code = 0;
  try {
    code = tenfold::cli::run(argc, argv);
  } catch (const std::exception& error) {  // UsageError, FileError, a file system that says no
    std::fflush(stdout);
    std::fprintf(stderr, "tenfold: %s\n", tenfold::one_line(error.what()).c_str());
    return tenfold::cli::kBadUsage;
  }
  // A table that went to a full disk is no table.
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout;
  if (!written && !tenfold::cli::reader_is_gone()) {
    std::fprintf(stderr, "tenfold: standard output cannot be written (is the disk full?)\n");
    return tenfold::cli::kBadUsage;
  }
  return code;
}
