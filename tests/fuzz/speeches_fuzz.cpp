// Any text as a play: speeches that have a speaker and words, and hold no more than the play does.
#include "common/data/speeches.h"

#include <array>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tenfold::fuzz::require;
  const std::string text = tenfold::fuzz::text_of({data, size});
  // Two ways of printing speakers, and a book of poems.
  for (const char* name : {"macbeth", "hamlet", "sonnets"}) {
    size_t said = 0;
    for (const tenfold::Speech& speech : tenfold::speeches_of({name, text})) {
      require(speech.play == name, "a speech is of its play");
      require(!speech.speaker.empty() && speech.speaker.find('\n') == std::string::npos, "somebody speaks");
      require(!speech.text.empty(), "something is said");
      require(speech.text.find_first_of("[]{}") == std::string::npos, "directions are not said");
      said += speech.text.size();
    }
    require(said <= text.size(), "nothing is said twice");
    require(said == 0 || std::string(name) != "sonnets", "poems have no speeches");
  }
  return 0;
}
