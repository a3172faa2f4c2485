// The tokenizer on one thread. Twin: peers/tokenizer.py (tiktoken), same texts, same ids.
#include <benchmark/benchmark.h>
#include "common/base/sha256.h"
#include "common/data/shakespeare.h"
#include "common/data/tokenizer.h"

#include <string>
#include <vector>

#include "run_benchmarks.h"

namespace {

std::vector<std::string> books() {
  std::vector<std::string> texts;
  for (tenfold::Book& book : tenfold::shakespeare()) texts.push_back(std::move(book.text));
  return texts;
}

/// Text without a single ASCII letter: six scripts, each code point once, with a space after every fifth.
std::vector<std::string> scripts() {
  std::string text;
  int count = 0;
  const auto add = [&](uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last; ++c) {
      if (c < 0x800) {
        text += static_cast<char>(0xc0 | c >> 6);
      } else {
        text += static_cast<char>(0xe0 | c >> 12);
        text += static_cast<char>(0x80 | (c >> 6 & 63));
      }
      text += static_cast<char>(0x80 | (c & 63));
      if (++count % 5 == 0) text += ' ';
    }
  };
  add(0xc0, 0x24f);     // Latin with marks
  add(0x391, 0x3c9);    // Greek
  add(0x410, 0x44f);    // Cyrillic
  add(0x905, 0x939);    // Devanagari
  add(0x3041, 0x3096);  // Hiragana
  add(0x4e00, 0x9fa5);  // Han
  return {text};
}

/// The ids of all texts as 4-byte little-endian numbers: what both twins must agree on before any time counts.
std::string answer() {
  const tenfold::Gpt2Tokenizer tokenizer;
  std::string bytes;
  for (const auto& texts : {books(), scripts()}) {
    for (const std::string& text : texts) {
      for (const int32_t id : tokenizer.encode(text)) {
        for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 255);
      }
    }
  }
  return tenfold::sha256(bytes);
}

void encode(benchmark::State& state, const std::vector<std::string>& texts) {
  const tenfold::Gpt2Tokenizer tokenizer;
  int64_t bytes = 0;
  for (auto _ : state) {
    for (const std::string& text : texts) {
      benchmark::DoNotOptimize(tokenizer.encode(text).data());
      bytes += static_cast<int64_t>(text.size());
    }
  }
  state.SetBytesProcessed(bytes);
}

void decode(benchmark::State& state, const std::vector<std::string>& texts) {
  const tenfold::Gpt2Tokenizer tokenizer;
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& text : texts) ids.push_back(tokenizer.encode(text));
  int64_t bytes = 0;
  for (auto _ : state) {
    for (const auto& row : ids) {
      const std::string text = tokenizer.decode(row);
      benchmark::DoNotOptimize(text.data());
      bytes += static_cast<int64_t>(text.size());
    }
  }
  state.SetBytesProcessed(bytes);
}

void load_vocabulary(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(tenfold::Gpt2Tokenizer());
}

}  // namespace

int main(int argc, char** argv) {
  return tenfold::bench::run_benchmarks(argc, argv, "tokenizer_bench", [] {
    benchmark::AddCustomContext("answer", answer());
    benchmark::RegisterBenchmark("encode/shakespeare", encode, books())->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("encode/scripts", encode, scripts())->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("decode/shakespeare", decode, books())->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("load_vocabulary", load_vocabulary)->Unit(benchmark::kMillisecond);
  });
}
