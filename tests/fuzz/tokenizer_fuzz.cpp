// Any bytes as text: ids within the vocabulary, which give back the bytes, with what is no UTF-8 replaced. Any ids:
// bytes.
#include "common/data/data_files.h"
#include "common/data/tokenizer.h"
#include "common/data/unicode.h"

#include <algorithm>
#include <vector>

#include "fuzz.h"

namespace {

using tenfold::Gpt2Tokenizer;
using tenfold::fuzz::require;

/// Read before the first input; without the vocabulary there is nothing to test.
const Gpt2Tokenizer& tokenizer() {
  static const Gpt2Tokenizer shared = [] {
    try {
      return Gpt2Tokenizer();
    } catch (const tenfold::DataError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(77);
    }
  }();
  return shared;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = tenfold::fuzz::text_of({data, size});
  const std::string whole = tenfold::replace_invalid_utf8(text);
  require(tenfold::valid_utf8_prefix(whole) == whole.size(), "what was replaced is valid UTF-8");
  const std::vector<int32_t> ids = tokenizer().encode(text);
  require(std::ranges::all_of(ids, [](int32_t id) { return id >= 0 && id < Gpt2Tokenizer::end_of_text; }),
          "ids of text are in range");
  require(ids.size() <= whole.size(), "every id stands for a byte or more");
  require(tokenizer().decode(ids) == whole, "decode undoes encode");
  require(tokenizer().encode(whole) == ids, "broken bytes are read as U+FFFD");

  // The same bytes as ids, two for each.
  std::vector<int32_t> any;
  for (size_t i = 0; i + 1 < size; i += 2)
    any.push_back((data[i] << 8 | data[i + 1]) % static_cast<int32_t>(Gpt2Tokenizer::vocabulary_size));
  const std::string decoded = tokenizer().decode(any);
  require(tokenizer().decode(tokenizer().encode(decoded)) == tenfold::replace_invalid_utf8(decoded),
          "decoded ids are text again");
  return 0;
}
