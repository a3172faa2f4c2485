#pragma once
// How a program is started on a dry GPU: with the stand-ins before CUDA's own libraries, and a card named.

#include <filesystem>
#include <map>
#include <string>

namespace tenfold::dry {

/// "H100" of "dry:H100"; empty for any other device. As it was typed: card_named() says whether there is such a card.
std::string card_of_device(const std::string& device);

/// What results of a card are filed under: "dry-h100".
std::string machine_id(const std::string& card);

struct Start {
  std::string gpu = "H100";     ///< a card's key, in upper or lower case
  int gpus = 1;                 ///< how many of it
  std::string arithmetic = "";  ///< late or early: when streams do their work; empty: nothing is computed
  bool timed = false;           ///< its time is modelled; not with arithmetic
  std::string report = "";      ///< a file that gets a line of JSON from each process; empty: none
};

/// The environment of a program so started, of the stand-ins built below `build`. Throws std::runtime_error, one line,
/// where they are not built, or in a folder that the loader cannot take.
std::map<std::string, std::string> environment(const Start& start, const std::filesystem::path& build);

}  // namespace tenfold::dry
