#pragma once
// The flags of lessons and of kernels' pages, each in one row. The programs and the driver, which hands flags on, all
// register these rows, so a flag has the same help and the same complaint about a bad value wherever it is typed.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tenfold {

/// Whole numbers. A `most` that is the largest number of a type is no limit worth naming: "1 or more".
struct Range {
  int64_t least = 0, most = std::numeric_limits<int>::max();
};

struct Flag {
  std::string name;   ///< "--preset"
  std::string value;  ///< what the help calls its value, "FILE"; empty: it takes none
  std::string help;
  /// The values that it takes; empty: any text. One with a colon, "dry:CARD", stands for all that begin so.
  std::vector<std::string> choices = {};
  std::optional<Range> range = {};  ///< it takes a whole number in this range
  bool repeats = false;             ///< may be given several times, with one value each time
  bool list = false;                ///< its value is one number or several, each once: "1,2,4"
};

/// Bad usage: one line that says what is wrong, where, and what to do; exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr const char* kHelpText = "show this text and stop";

/// Ranks that one machine is asked to start at most. A launcher of several machines may have more.
inline constexpr int kMostRanks = 64;

/// Steps in one file of --trace.
inline constexpr int kTracedSteps = 3;

/// Set by the driver where it starts a lesson's program more than once, for parts of other numbers of ranks. A program
/// that finds a setting of --set unread then says so on standard error, in a line of this mark and the name, instead of
/// refusing it: another start may read it.
inline constexpr const char *kOtherStarts = "TENFOLD_OTHER_STARTS", *kUnreadMark = "@unread ";

std::vector<Flag> lesson_flags();
std::vector<Flag> kernel_flags();

/// The row of this name among lesson_flags(). Throws std::out_of_range.
Flag lesson_flag(const std::string& name);

/// The flags that were given, each with its values as they were typed; those that take none have none.
using GivenFlags = std::map<std::string, std::vector<std::string>>;

/// Registers a row; parsing then fills `given`, which must live as long. A value that the row does not take makes
/// parsing throw std::invalid_argument, "--rounds 0: expected 1 or more".
CLI::Option* add_flag(CLI::App& app, const Flag& flag, GivenFlags& given);

/// The value of a flag that is given at most once.
std::string value_of(const GivenFlags& given, const std::string& name, const std::string& otherwise);
int64_t number_of(const GivenFlags& given, const std::string& name, int64_t otherwise);

/// Of a flag whose value is a list: its numbers, in their order; none without it.
std::vector<int64_t> numbers_of(const GivenFlags& given, const std::string& name);

/// All values of a flag, in their order.
std::vector<std::string> values_of(const GivenFlags& given, const std::string& name);

/// The command line that gives these flags again.
std::vector<std::string> as_arguments(const GivenFlags& given);

/// The same without where files go: what a result records, since that sets nothing and is a path of one machine.
std::vector<std::string> recorded_flags(GivenFlags given);

/// Parses by what the program registered. False after --help, which it has printed. Throws UsageError.
bool parse_flags(CLI::App& app, int argc, char** argv);

}  // namespace tenfold
