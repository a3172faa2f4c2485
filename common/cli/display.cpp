#include "common/cli/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/base/seconds_since.h"
#include "common/base/streams.h"
#include "common/base/text.h"

namespace tenfold::cli {
namespace {

constexpr auto kBetweenLines = std::chrono::seconds(15);  // in a pipe

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Display::Display() : terminal_(can_draw(STDERR_FILENO) && !std::getenv("CI")) {}
Display::~Display() { clear(); }

double Display::seconds_left() const {
  const double passed = seconds_since(start_);
  return fraction_ < 0.02 || passed < 3 ? -1 : passed * (1 - fraction_) / fraction_;
}

void Display::draw() {
  const double left = seconds_left();
  std::string line = "[" + std::to_string(static_cast<int>(fraction_ * 100)) + " %] " + text_;
  const std::string time =
      left < 0 ? human_seconds(std::max(seconds_since(start_), 1.0)) : human_seconds(std::max(left, 1.0)) + " left";
  const size_t room = terminal_width() - 1;
  if (line.size() + time.size() + 3 > room) line.resize(room > time.size() + 3 ? room - time.size() - 3 : 0);
  std::fprintf(stderr, "\r\033[K%s   %s", line.c_str(), time.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Display::update(double fraction, const std::string& text) {
  fraction_ = std::clamp(fraction, fraction_, 1.0);  // a second case never makes the whole go back
  text_ = one_line(text);
  tick();
}

void Display::tick() {
  if (text_.empty()) return;
  const auto now = Clock::now();
  if (terminal_) {
    if (now - last_ >= std::chrono::milliseconds(150) || !drawn_) draw(), last_ = now;
  } else if (now - last_ >= kBetweenLines) {
    const double left = seconds_left();
    std::fprintf(stderr, "    %d %% %s%s\n", static_cast<int>(fraction_ * 100), text_.c_str(),
                 left < 0 ? "" : (", " + human_seconds(left) + " left").c_str());
    last_ = now;
  }
}

void Display::say(const std::string& line) {
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Display::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace tenfold::cli
