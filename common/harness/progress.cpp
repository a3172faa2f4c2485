#include "common/harness/progress.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "common/base/progress_line.h"
#include "common/base/streams.h"

namespace tenfold {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

void on_signal(int signal) {
  stop_asked = 1;
  std::signal(signal, SIG_DFL);  // a second Ctrl-C means it
}

}  // namespace

Progress::Progress(bool active) {
  if (!active) return;
  mode_ = std::getenv("TENFOLD_PROGRESS") != nullptr ? Mode::lines
          : can_draw(STDERR_FILENO)                  ? Mode::terminal
                                                     : Mode::silent;
}

Progress::~Progress() {
  if (mode_ == Mode::terminal) std::fputs("\r\033[K", stderr);
}

void Progress::begin(const std::string& case_name, double from, double to) {
  name_ = case_name;
  from_ = from;
  to_ = to;
}

void Progress::at(double part, const std::string& text) {
  const double fraction = from_ + part * (to_ - from_);
  if (mode_ == Mode::lines) print_progress(fraction, "case " + name_ + ": " + text);
  if (mode_ != Mode::terminal) return;
  std::fprintf(stderr, "\r\033[K%3.0f %%  case %s: %s", 100 * fraction, name_.c_str(), text.c_str());
  std::fflush(stderr);
}

bool interrupted() { return stop_asked != 0; }

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

}  // namespace tenfold
