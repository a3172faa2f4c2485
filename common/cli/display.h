#pragma once
// Live progress on standard error: one line rewritten on a terminal, a line now and then in a pipe.

#include <chrono>
#include <string>

namespace tenfold::cli {

class Display {
 public:
  Display();
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  /// What is going on; `fraction` of the whole work is done (0..1).
  void update(double fraction, const std::string& text);
  /// Redraws the seconds; call it now and then.
  void tick();
  /// A line that stays, above the progress.
  void say(const std::string& line);
  /// Takes the progress line away, before somebody else prints.
  void clear();
  /// Seconds that are left if the rest goes on as fast as what was done; negative while that is a guess.
  double seconds_left() const;

 private:
  void draw();
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool drawn_ = false;
  double fraction_ = 0;
  std::string text_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace tenfold::cli
