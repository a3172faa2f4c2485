#include "common/cli/command_line.h"

#include "common/base/flags.h"
#include "common/base/text.h"

namespace tenfold::cli {

const std::vector<std::pair<std::string, std::string>> kScriptCommands = {
    {"setup", "set this machine up: packages, data, build (every command does it when needed)"},
    {"test", "set up and run every test (--all adds the slow ones)"},
    {"bench", "set up and run the benchmark programs (--peers adds their Python twins)"},
    {"gpu-pack", "make a small tree for a GPU machine without network"},
    {"gpu-run", "build and run such a tree there, in parts"}};

void refuse_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string flag = extras.front().substr(0, extras.front().find('='));
  if (!flag.starts_with("-")) names.clear();
  for (const CLI::App* below : command.get_subcommands({})) names.push_back(below->get_name());
  const std::string guess = nearest(flag, names);
  const std::string above = command.get_parent()->get_name();
  throw UsageError("unknown argument '" + extras.front() + "'" +
                   (guess.empty() ? "" : "; did you mean '" + guess + "'?") + " (see: ./" +
                   (above == "tenfold" ? "" : "tenfold ") + above + " " + command.get_name() + " --help)");
}

std::string Overview::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (app->get_parent()) return CLI::Formatter::make_help(app, name, mode);
  std::string out =
      "Tenfold: GPU training techniques in C++, each measured without and with it.\n\nUsage: tenfold COMMAND "
      "[FLAGS]; tenfold COMMAND "
      "--help says more\n\n";
  const auto line = [&](const std::string& command, const std::string& what) {
    out += "  " + command + std::string(command.size() < 11 ? 11 - command.size() : 1, ' ') + what + "\n";
  };
  for (const CLI::App* command : app->get_subcommands({}))
    line(command->get_name(),
         wrap_text(command->get_description().substr(0, command->get_description().find('\n')), 105, 13));
  out += "\nDone by the script before this program:\n";
  for (const auto& [command, what] : kScriptCommands) line(command, what);
  return out + "\nStart with: ./tenfold tour\n";
}

}  // namespace tenfold::cli
