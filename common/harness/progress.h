#pragma once
// Says how far a lesson is: lines `@progress FRACTION TEXT` for the driver, one rewritten line on a terminal.

#include <exception>
#include <string>

namespace tenfold {

class Progress {
 public:
  /// `active`: only one of several ranks speaks.
  explicit Progress(bool active);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What follows is about a case, and takes the lesson from one fraction to another.
  void begin(const std::string& case_name, double from, double to);
  /// `part` of that is done, 0 to 1.
  void at(double part, const std::string& text);

 private:
  enum class Mode { silent, lines, terminal } mode_ = Mode::silent;
  double from_ = 0, to_ = 1;
  std::string name_;
};

/// Ctrl-C or SIGTERM has arrived. The first one asks for a clean stop, which passes look for; a second one kills.
bool interrupted();
void catch_interrupts();

/// Thrown by a pass that was asked to stop.
struct Interrupted : std::exception {};

}  // namespace tenfold
