// Runs a fuzz target without libFuzzer, on the same inputs each time: every file of a folder, each cut short at every
// place, and with a fixed row of changes. usage: PROGRAM FOLDER [CHANGES OF EACH FILE]
//
// While an input is run it lies in the file PROGRAM.input; one that ends the program is left there, and becomes a file
// of the folder when the fault is mended.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "fuzz.h"

namespace {

namespace fs = std::filesystem;
using Input = std::vector<uint8_t>;

struct Runner {
  std::string kept;  ///< the file that holds the input which is run
  int file = -1;
  int64_t count = 0;

  void run(const Input& input) {
    if (ftruncate(file, 0) != 0 || pwrite(file, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
      std::perror(kept.c_str());
      std::exit(2);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++count;
  }
};

Input read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// One of the changes that break readers: a flipped bit, a number at its limit, bytes gone, doubled, or of another
/// file.
Input changed(Input input, const Input& other, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); };
  static constexpr std::array<uint32_t, 8> kNumbers = {0,          1,          0x7f,       0xff,
                                                       0x7fffffff, 0x80000000, 0xffffffff, 0x00010000};
  for (size_t changes = 1 + below(3); changes > 0 && !input.empty(); --changes) {
    const size_t at = below(input.size());
    const auto from = input.begin() + static_cast<int64_t>(at);
    const size_t length = 1 + below(std::min<size_t>(input.size() - at, 16));
    switch (below(6)) {
      case 0:
        input[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        input[at] = static_cast<uint8_t>(random());
        break;
      case 2: {
        const uint32_t number = kNumbers[below(kNumbers.size())];
        const bool little = below(2) == 0;
        for (size_t i = 0; i < 4 && at + i < input.size(); ++i)
          input[at + i] = static_cast<uint8_t>(number >> 8 * (little ? i : 3 - i));
        break;
      }
      case 3:
        input.erase(from, from + static_cast<int64_t>(length));
        break;
      case 4: {
        const Input again(from, from + static_cast<int64_t>(length));
        input.insert(from, again.begin(), again.end());
        break;
      }
      default: {
        const size_t start = below(other.size());
        const size_t taken = std::min({other.size() - start, input.size() - at, size_t{64}});
        std::copy_n(other.begin() + static_cast<int64_t>(start), taken, from);
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s FOLDER [CHANGES OF EACH FILE]\n", argv[0]);
    return 2;
  }
  const int changes = argc > 2 ? std::atoi(argv[2]) : 2000;
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(argv[1])) names.push_back(entry.path());
  std::ranges::sort(names);
  if (names.empty()) {
    std::fprintf(stderr, "%s holds no input\n", argv[1]);
    return 2;
  }
  std::vector<Input> files;
  for (const fs::path& name : names) files.push_back(read(name));

  Runner runner{.kept = std::string(argv[0]) + ".input"};
  runner.file = open(runner.kept.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  runner.run({});
  std::mt19937_64 random(20261121);
  for (const Input& file : files) {
    runner.run(file);
    const size_t step = std::max<size_t>(1, file.size() / 1000);
    for (size_t n = 1; n < file.size(); n += step) runner.run({file.begin(), file.begin() + static_cast<int64_t>(n)});
    for (int i = 0; i < changes; ++i) runner.run(changed(file, files[random() % files.size()], random));
  }
  close(runner.file);
  fs::remove(runner.kept);
  std::printf("%zu files, %lld inputs\n", files.size(), static_cast<long long>(runner.count));
}
