// Writes the speeches that lesson 15 draws, for its twin in Python: a line for each step, texts separated by ';'.
//
// usage: speech_batches BATCH LENGTH SEED STEPS

#include "common/models/speech_batches.h"

#include <cstdlib>
#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: speech_batches BATCH LENGTH SEED STEPS\n";
    return 2;
  }
  try {
    tenfold::SpeechBatches batches({.batch = std::atoll(argv[1]), .context = std::atoll(argv[2])},
                                   std::strtoull(argv[3], nullptr, 10));
    for (int step = 0; step < std::atoi(argv[4]); ++step) {
      const char* between = "";
      for (const tenfold::TextIds text : batches.next()) {
        std::cout << between;
        for (const int32_t id : text) std::cout << id << ' ';
        between = ";";
      }
      std::cout << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "speech_batches: " << error.what() << '\n';
    return 3;
  }
}
