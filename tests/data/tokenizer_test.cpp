// Our ids against tiktoken's, on all books and on random text; the round trip; the time of the worst case.
#include "common/data/tokenizer.h"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include "common/data/data_files.h"
#include "common/data/shakespeare.h"
#include "common/data/unicode.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

#include "scratch.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

fs::path vocabulary_file() { return data_folder() / "gpt2" / "gpt2.tiktoken"; }
const fs::path kPython = test::environment_program("python");

const Gpt2Tokenizer& tokenizer() {
  static const Gpt2Tokenizer shared;
  return shared;
}

/// tiktoken's ids of each text; empty, with the reason, when there is no tiktoken here.
std::vector<Ids> tiktoken_ids(const std::vector<std::string>& texts, std::string& reason) {
  const test::Scratch scratch;
  std::string records;
  const auto append_size = [](std::string& out, size_t size) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(size >> shift & 255);
  };
  for (const std::string& text : texts) append_size(records, text.size()), records += text;
  test::write_text(scratch.path() / "texts", records);
  if (!fs::exists(kPython)) return reason = kPython.string() + " is missing", std::vector<Ids>();
  const std::string command = "'" + kPython.string() + "' '" +
                              (test::source_folder() / "tests/data/tiktoken_ids.py").string() + "' '" +
                              vocabulary_file().string() + "' '" + (scratch.path() / "texts").string() + "' '" +
                              (scratch.path() / "ids").string() + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return reason = "tiktoken cannot be imported", std::vector<Ids>();
  EXPECT_EQ(status, 0) << command;

  const std::string found = read_file(scratch.path() / "ids");
  std::vector<Ids> ids;
  size_t at = 0;
  const auto next = [&] {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= uint32_t{static_cast<unsigned char>(found.at(at++))} << shift;
    return value;
  };
  while (at < found.size()) {
    ids.emplace_back(next());
    for (int32_t& id : ids.back()) id = static_cast<int32_t>(next());
  }
  return ids;
}

void append_utf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

/// Random numbers whose values do not depend on the standard library.
struct Random {
  std::mt19937_64 engine{20240607};
  uint32_t below(uint64_t n) { return static_cast<uint32_t>(engine() % n); }
};

/// Random code points that meet often what the pattern asks about.
std::string random_unicode(Random& random) {
  static const std::vector<std::string> kPatternParts = {
      "'",   "'s", "'t", "'re",      "'ve", "'m",       "'ll",           "'d",           "'S",      "'l",
      " ",   "  ", "\n", "\r\n",     "\t",  "\xc2\xa0", "\xe3\x80\x80",  "\xc2\x85",     "\x1c",    "a",
      "The", "1",  "42", "\xc2\xb2", "!",   "...",      "<|endoftext|>", "\xe4\xb8\xad", "\xcc\x81"};
  std::string text;
  for (uint32_t n = random.below(40); n > 0; --n) {
    switch (random.below(6)) {
      case 0:
        append_utf8(random.below(128), text);
        break;
      case 1:
        append_utf8(random.below(0x800), text);
        break;
      case 2:
        append_utf8(random.below(0xd800), text);
        break;
      case 3:
        append_utf8(0xe000 + random.below(0x110000 - 0xe000), text);
        break;
      default:
        text += kPatternParts[random.below(kPatternParts.size())];
    }
  }
  return text;
}

std::string random_bytes(Random& random) {
  // Leads and continuations more often than chance: broken characters of every kind.
  static const std::string kEdges = "\x80\xbf\xc0\xc1\xc2\xdf\xe0\xa0\x9f\xed\xef\xf0\x90\x8f\xf4\xf5\xff a'";
  std::string text;
  for (uint32_t n = random.below(48); n > 0; --n) {
    text += random.below(2) ? kEdges[random.below(kEdges.size())] : static_cast<char>(random.below(256));
  }
  return text;
}

/// Long pieces: letters only, spaces only, repeated characters.
std::string random_long_piece(Random& random) {
  static const std::vector<std::string> kAlphabets = {"ab",
                                                      "etaoin",
                                                      " ",
                                                      "=",
                                                      "-=",
                                                      "0123456789",
                                                      "\xc3\xa9\xc3\xa3",
                                                      "\xe4\xb8\xad",
                                                      "\n ",
                                                      "abcdefghijklmnopqrstuvwxyz"};
  const std::string& alphabet = kAlphabets[random.below(kAlphabets.size())];
  std::string text;
  const size_t bytes = 1 + random.below(random.below(2) ? 200 : 3000);
  while (text.size() < bytes)
    text +=
        static_cast<unsigned char>(alphabet[0]) < 128 ? alphabet.substr(random.below(alphabet.size()), 1) : alphabet;
  return text;
}

/// Every code point that is one, alone, after a space, between letters and after white space.
std::vector<std::string> every_code_point() {
  std::vector<std::string> texts;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    if (c % 4096 == 0) texts.emplace_back();
    std::string one;
    append_utf8(c, one);
    texts.back() += one + " " + one + "a" + one + one + "1\t" + one + "!  " + one;
  }
  return texts;
}

void expect_same_ids(const std::vector<std::string>& texts) {
  std::string reason;
  const std::vector<Ids> expected = tiktoken_ids(texts, reason);
  if (!reason.empty()) GTEST_SKIP() << reason;
  ASSERT_EQ(expected.size(), texts.size());
  int wrong = 0;
  for (size_t i = 0; i < texts.size() && wrong < 3; ++i) {
    const Ids ours = tokenizer().encode(texts[i]);
    if (ours == expected[i]) continue;
    ++wrong;
    const auto at = static_cast<size_t>(std::ranges::mismatch(ours, expected[i]).in1 - ours.begin());
    ADD_FAILURE() << "text " << i << " differs from id " << at << " on, after \""
                  << tokenizer().decode(std::span(ours).first(at)) << '"';
  }
}

TEST(TokenizerAgainstTiktoken, AllWorks) {
  std::vector<std::string> texts;
  size_t count = 0;
  for (Book& book : shakespeare()) {
    count += tokenizer().encode(book.text).size();
    texts.push_back(std::move(book.text));
  }
  EXPECT_EQ(count, 1565959u);
  expect_same_ids(texts);
}
TEST(TokenizerAgainstTiktoken, RandomUnicode) {
  Random random;
  std::vector<std::string> texts(20000);
  std::ranges::generate(texts, [&] { return random_unicode(random); });
  expect_same_ids(texts);
}
TEST(TokenizerAgainstTiktoken, RandomBytes) {
  Random random;
  std::vector<std::string> texts(20000);
  std::ranges::generate(texts, [&] { return random_bytes(random); });
  expect_same_ids(texts);
}
TEST(TokenizerAgainstTiktoken, LongPieces) {
  Random random;
  std::vector<std::string> texts(500);
  std::ranges::generate(texts, [&] { return random_long_piece(random); });
  expect_same_ids(texts);
}
TEST(TokenizerAgainstTiktoken, EveryCodePoint) { expect_same_ids(every_code_point()); }

TEST(Tokenizer, KnownIds) {
  EXPECT_EQ(tokenizer().encode("Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(tokenizer().encode(""), Ids());
  EXPECT_EQ(tokenizer().encode("\xff"), tokenizer().encode("\xef\xbf\xbd")) << "a broken byte is read as U+FFFD";
}
TEST(Tokenizer, SpecialTokensInTextAreText) {
  const Ids ids = tokenizer().encode("<|endoftext|>");
  EXPECT_EQ(std::ranges::count(ids, Gpt2Tokenizer::end_of_text), 0);
  EXPECT_EQ(tokenizer().decode(ids), "<|endoftext|>");
  EXPECT_EQ(tokenizer().decode(Ids{Gpt2Tokenizer::end_of_text}), "<|endoftext|>");
}
TEST(Tokenizer, DecodeUndoesEncode) {
  for (const Book& book : shakespeare())
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(book.text)), book.text) << book.name;
  for (const std::string& text : every_code_point()) ASSERT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
  Random random;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_unicode(random);
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
    const std::string bytes = random_bytes(random);
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(bytes)), replace_invalid_utf8(bytes));
  }
}
TEST(Tokenizer, EveryTokenButBrokenOnesIsItself) {
  int whole = 0;
  for (int32_t id = 0; id < Gpt2Tokenizer::end_of_text; ++id) {
    const std::string bytes = tokenizer().decode(Ids{id});
    if (valid_utf8_prefix(bytes) != bytes.size()) continue;
    // Some tokens span what the pattern cuts apart (" \n\n" before nothing else stays whole; "'sell" does not).
    if (tokenizer().encode(bytes) == Ids{id}) ++whole;
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(bytes)), bytes);
  }
  EXPECT_GT(whole, 49000);
}
TEST(Tokenizer, DecodeRefusesStrangeIds) {
  EXPECT_THROW(tokenizer().decode(Ids{15496, 50257}), std::invalid_argument);
  EXPECT_THROW(tokenizer().decode(Ids{-1}), std::invalid_argument);
}

TEST(Tokenizer, BrokenUtf8ByMaximalParts) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(replace_invalid_utf8("a\xc3\xa9z"), "a\xc3\xa9z");
  EXPECT_EQ(replace_invalid_utf8("\x80"), r);
  EXPECT_EQ(replace_invalid_utf8("\xe4\xb8"), r);  // broken off: one part
  EXPECT_EQ(replace_invalid_utf8("\xe4\xb8x"), r + "x");
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf"), r + r);          // overlong
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), r + r + r);  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(replace_invalid_utf8("\xf4\x90\x80\x80"), r + r + r + r);  // past U+10FFFF
}

// A run of one letter is a single piece. Quadratic merging would take 64 times as long for 8 times the letters.
TEST(Tokenizer, OneLongPieceIsNotQuadratic) {
  const auto seconds = [](size_t letters) {
    const std::string text(letters, 'a');
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const std::clock_t start = std::clock();  // processor time: other programs do not count
      EXPECT_EQ(tokenizer().decode(tokenizer().encode(text)).size(), letters);
      best = std::min(best, static_cast<double>(std::clock() - start));
    }
    return best;
  };
  EXPECT_LT(seconds(200000), 32 * seconds(25000));
}

TEST(TokenizerVocabulary, MissingTruncatedOrAlteredIsOneLine) {
  const std::string whole = read_file(vocabulary_file());
  const test::Scratch scratch;
  const fs::path file = scratch.path() / "gpt2.tiktoken";
  const auto error = [&] { return test::message_of<DataError>([&] { Gpt2Tokenizer{file}; }); };
  const auto expect_error = [&](const char* part) {
    const std::string line = error();
    for (const std::string& wanted : {file.string(), std::string(part), std::string("./tenfold setup")})
      EXPECT_NE(line.find(wanted), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  };
  expect_error("is missing");
  for (const size_t bytes : {size_t{0}, size_t{5}, whole.size() / 2, whole.size() - 1}) {
    test::write_text(file, whole.substr(0, bytes));
    expect_error("truncated or altered");
  }
  std::string altered = whole;
  altered[1000] ^= 1;
  test::write_text(file, altered);
  expect_error("truncated or altered");
  test::write_text(file, whole);
  EXPECT_EQ(error(), "");
  const test::CacheAt cache(scratch.path() / "nothing");
  EXPECT_THROW(Gpt2Tokenizer(), DataError);
}

}  // namespace
}  // namespace tenfold
