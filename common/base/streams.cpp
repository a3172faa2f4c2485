#include "common/base/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace tenfold {

bool can_draw(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) != 0 && terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
}

void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    // open() takes the lowest number that is free: this one.
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace tenfold
