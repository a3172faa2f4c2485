#pragma once
// How the driver's command line reads and answers: its overview of commands, and what it says of words that it does not
// know.

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tenfold::cli {

/// These run in the bash script before the driver is called; the overview names them all the same.
extern const std::vector<std::pair<std::string, std::string>> kScriptCommands;

/// CLI11 collects what it did not understand; a mistyped flag gets its nearest neighbour named. Throws UsageError.
void refuse_extras(const CLI::App& command);

/// One line a command, instead of CLI11's groups.
struct Overview : CLI::Formatter {
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace tenfold::cli
