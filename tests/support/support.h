#pragma once
// What every test may need: where the tree lies, a folder of its own, the message of a failure.

#include <filesystem>
#include <map>
#include <string>

namespace tenfold::test {

/// The checkout and the build folder. Functions and not macros: a macro with a path in it would make every clone
/// compile every test anew.
std::filesystem::path source_folder();
std::filesystem::path build_folder();

/// A file of the environment that `./tenfold` sets up: "python", "torchrun", "cmake", "ninja".
std::filesystem::path environment_program(const std::string& name);

/// An empty folder that goes with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The file's bytes; empty when there is none.
std::string read_text(const std::filesystem::path& file);
/// Makes the folders on the way.
void write_text(const std::filesystem::path& file, const std::string& text);

/// What `./tenfold COMMAND --help` says of each flag, or a lesson's or a page's own --help:
/// flags_of_help(text)["--seed"] is the name of its value and the sentence, as they stand there.
std::map<std::string, std::string> flags_of_help(const std::string& help);
std::string help_of_driver(const std::string& command);

/// What `work` complains of when it throws an E; empty when it does not throw.
template <class E, class Work>
std::string message_of(Work&& work) {
  try {
    work();
  } catch (const E& error) {
    if constexpr (requires { error.what_without_backtrace(); }) {
      return error.what_without_backtrace();
    } else {
      return error.what();
    }
  }
  return "";
}

}  // namespace tenfold::test
