#include "fit/levers.h"

#include <algorithm>
#include <sstream>

#include "common/base/flags.h"
#include "common/base/text.h"

namespace tenfold::fit {

const std::vector<LeverText>& lever_texts() {
  static const std::vector<LeverText> all = {{Lever::autocast, "autocast", "16-bit autocast"},
                                             {Lever::chunked_loss, "chunked-loss", "loss in chunks"},
                                             {Lever::micro_batches, "micro-batches", "micro-batches of one sequence"},
                                             {Lever::checkpointing, "checkpointing", "activation checkpointing"},
                                             {Lever::eight_bit_adamw, "8-bit-adamw", "8-bit AdamW"},
                                             {Lever::sixteen_bit_weights, "16-bit-weights", "16-bit weights"}};
  return all;
}

std::vector<Lever> levers_of(int capability) {
  std::vector<Lever> usable;
  for (const LeverText& text : lever_texts()) {
    if (capability >= 8 || text.lever != Lever::sixteen_bit_weights) usable.push_back(text.lever);
  }
  return usable;
}

Levers levers_named(const std::string& list) {
  Levers levers;
  if (list == "none") return levers;
  std::vector<std::string> keys;
  for (const LeverText& text : lever_texts()) keys.emplace_back(text.key);
  std::istringstream words(list + ",");
  for (std::string word; std::getline(words, word, ',');) {
    const auto found = std::ranges::find(keys, word);
    if (found == keys.end()) {
      const std::string guess = nearest(word, keys);
      throw UsageError(
          "--with " + one_line(list) + ": '" + one_line(word) + "' is no lever" +
          (guess.empty() ? "; they are: " + joined(keys) + "; or: none" : "; did you mean '" + guess + "'?"));
    }
    levers.insert(lever_texts()[static_cast<size_t>(found - keys.begin())].lever);
  }
  return levers;
}

std::vector<std::string> keys_of(const Levers& levers) {
  std::vector<std::string> keys;
  for (const LeverText& text : lever_texts()) {
    if (levers.contains(text.lever)) keys.emplace_back(text.key);
  }
  return keys;
}

}  // namespace tenfold::fit
