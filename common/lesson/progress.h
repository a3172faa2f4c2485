#pragma once
// Says how far a lesson is: lines `@progress FRACTION TEXT` for the driver, one rewritten line on a terminal.

#include <exception>
#include <string>

namespace tenfold {

class Progress {
 public:
  /// `active`: only one of several ranks speaks.
  Progress(bool active, int cases);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin_case(int index, const std::string& name);
  /// `part` of the current case is done, 0 to 1.
  void at(double part, const std::string& what);

 private:
  enum class Mode { silent, lines, terminal } mode_;
  int cases_, case_ = 0;
  std::string name_;
};

/// Ctrl-C or SIGTERM has arrived. The first one asks for a clean stop, which passes look for; a second one kills.
bool interrupted();
void catch_interrupts();

/// Thrown by a pass that was asked to stop.
struct Interrupted : std::exception {};

}  // namespace tenfold
