// What is read, and what is refused: nothing in a file is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/snapshot/report.h"
#include "story.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using test::Json;
using testing::HasSubstr;

std::string refusal_of(std::string_view bytes) {
  return test::message_of<SnapshotError>([&] { parse_snapshot(bytes); });
}

/// Bytes with zeros in them.
template <size_t N>
std::string_view bytes_of(const char (&text)[N]) {
  return {text, N - 1};
}

/// Runs Python, which writes files into the folder `sys.argv[1]`.
void run_python(const std::string& program, const fs::path& folder) {
  const fs::path file = folder / "program.py";
  test::write_text(file, program);
  output_of({test::environment_program("python").string(), file.string(), folder.string()});
}

class Files : public testing::Test {
 protected:
  std::string text_of(const std::string& name) const { return test::read_text(scratch_.path() / name); }
  test::Scratch scratch_;
};

TEST_F(Files, AllProtocolsAreReadAlike) {
  const test::Story story = test::rising_lengths();
  test::write_text(scratch_.path() / "snapshot.json", story.json.dump());
  run_python(R"(
import json, pathlib, pickle, sys
folder = pathlib.Path(sys.argv[1])
snapshot = json.loads((folder / "snapshot.json").read_text())
snapshot["segments"][0]["segment_pool_id"] = (0, 0)
snapshot["external_annotations"] = [None, True, 2.5, -1, 1 << 40, 1 << 70, -(1 << 31), "ä", "long" * 100]
for protocol in range(6):
    if protocol == 3:
        snapshot["external_annotations"].append(b"\0")  # protocol 2 asks Python for it
    (folder / f"{protocol}.pickle").write_bytes(pickle.dumps(snapshot, protocol))
)",
             scratch_.path());
  const std::string expected = snapshot_json(story.read(), "x");
  for (const char* protocol : {"2", "3", "4", "5"}) {
    const std::string bytes = text_of(std::string(protocol) + ".pickle");
    EXPECT_EQ(snapshot_json(parse_snapshot(bytes), "x"), expected) << protocol;
    for (size_t length = 0; length < bytes.size(); length += 7)
      ASSERT_NE(refusal_of(std::string_view(bytes).substr(0, length)), "") << protocol << " cut to " << length;
  }
  EXPECT_THAT(refusal_of(text_of("0.pickle")), HasSubstr("no pickle of protocol 2 or later"));
  EXPECT_THAT(refusal_of(text_of("5.pickle").substr(0, 5000)), HasSubstr("is truncated"));
}

TEST_F(Files, WhatAPickleAsksForIsNotRun) {
  run_python(R"(
import datetime, os, pathlib, pickle, sys
folder = pathlib.Path(sys.argv[1])
class Evil:
    def __reduce__(self):
        return os.mkdir, (str(folder / "was_run"),)
for protocol in range(2, 6):
    (folder / f"{protocol}.pickle").write_bytes(pickle.dumps({"segments": [Evil()]}, protocol))
(folder / "object.pickle").write_bytes(pickle.dumps({"segments": [], "when": datetime.date(2026, 1, 2)}))
)",
             scratch_.path());
  for (const char* protocol : {"2", "3", "4", "5"}) {
    const std::string line = refusal_of(text_of(std::string(protocol) + ".pickle"));
    EXPECT_THAT(line, HasSubstr("asks Python for posix.mkdir, which no snapshot needs; it was not run")) << protocol;
  }
  EXPECT_THAT(refusal_of(text_of("object.pickle")), HasSubstr("datetime.date"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "was_run"));
}

TEST(Reader, BytesThatAreNoPickle) {
  EXPECT_EQ(refusal_of(""), "is empty");
  EXPECT_THAT(refusal_of("PK\3\4 a zip"), HasSubstr("is no pickle of protocol 2 or later, and no JSON"));
  EXPECT_THAT(refusal_of("cos\nsystem\n(S'true'\ntR."), HasSubstr("is no pickle of protocol 2"));
  EXPECT_THAT(refusal_of("\x80\x09N."), HasSubstr("pickle protocol 9; 2 to 5 are read"));
  EXPECT_THAT(refusal_of("\x80\x02\xff."), HasSubstr("opcode 0xff"));
  EXPECT_THAT(refusal_of("{\"segments\": ["), HasSubstr("is not JSON, or truncated"));
}

TEST(Reader, PicklesThatContradictThemselves) {
  for (const auto& [bytes, part] :
       {std::pair(bytes_of("\x80\x02."), "takes a value where there is none"),
        {bytes_of("\x80\x02]e."), "ends a list that was not begun"},
        {bytes_of("\x80\x02N(Ne."), "appends to what is no list"},
        {bytes_of("\x80\x02]Ns."), "adds to nothing"},
        {bytes_of("\x80\x02}(Nu."), "a key without a value"},
        {bytes_of("\x80\x02(N."), "in the middle"},
        {bytes_of("\x80\x02(0."), "takes a value"},
        {bytes_of("\x80\x02NN."), "in the middle"},
        {bytes_of("\x80\x02N\x87."), "takes a value"},
        {bytes_of("\x80\x02h\x05."), "recalls what was not memorised"},
        {bytes_of("\x80\x02Nr\xff\xff\xff\x7f."), "a memo out of order"},
        {bytes_of("\x80\x02X\xff\xff\xff\xff."), "is truncated"},
        {bytes_of("\x80\x05\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "a text of more than 4 GiB"},
        {bytes_of("\x80\x02\x8b\xff\xff\xff\xff."), "is truncated"}})
    EXPECT_THAT(refusal_of(bytes), HasSubstr(part));
  EXPECT_THAT(refusal_of(std::string("\x80\x02") + std::string(1 << 20, 'N')), HasSubstr("more values than"));
  EXPECT_THAT(refusal_of(std::string("\x80\x02") + std::string(1 << 20, ']')), HasSubstr("more values than"));
  EXPECT_THAT(refusal_of(std::string(1 << 20, '[')), HasSubstr("is no pickle"));
}

// A list that holds itself is a tree of endless depth; nobody climbs it.
TEST(Reader, AListInItself) {
  EXPECT_THAT(refusal_of(bytes_of("\x80\x02]q\x00h\x00\x61.")), HasSubstr("holds no dict"));
  EXPECT_THAT(refusal_of(bytes_of("\x80\x02}q\x00X\x08\x00\x00\x00segments]q\x01h\x01\x61s.")),
              HasSubstr("segments[0]: is no dict"));
}

TEST(Reader, TreesThatAreNoSnapshot) {
  EXPECT_THAT(refusal_of("\x80\x02]."), HasSubstr("holds no dict; a snapshot is what torch.cuda.memory"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("has no segments"));
  EXPECT_THAT(refusal_of(R"({"segments": 3})"), HasSubstr("segments: is no list"));
  const auto refused = [](const std::string& pointer, const Json& value) {
    test::Story story = test::rising_lengths();
    story.json[Json::json_pointer(pointer)] = value;
    return refusal_of(story.json.dump());
  };
  EXPECT_EQ(refused("/segments/3/blocks/0/size", "big"), "segments[3].blocks[0].size: is no whole number");
  EXPECT_EQ(refused("/segments/3/total_size", 1.5), "segments[3].total_size: is no whole number");
  EXPECT_EQ(refused("/segments/3/total_size", -5), "segments[3].total_size: -5 bytes, which no card holds");
  EXPECT_EQ(refused("/segments/3/total_size", 5), "segments[3]: its blocks are larger than it is");
  EXPECT_EQ(refused("/segments/3/blocks", Json::object()), "segments[3].blocks: is no list");
  EXPECT_EQ(refused("/segments/3", 7), "segments[3]: is no dict");
  EXPECT_EQ(refused("/segments/3/device", -1), "segments[3].device: is no index of a device");
  EXPECT_EQ(refused("/segments/3/address", -1), "segments[3].address: is no address");
  EXPECT_EQ(refused("/segments/3/blocks/0/address", -1), "segments[3].blocks[0].address: is no address");
  EXPECT_EQ(refused("/device_traces", "x"), "device_traces: is no list");
  EXPECT_EQ(refused("/device_traces/0", "x"), "device_traces[0]: is no list");
  EXPECT_EQ(refused("/device_traces/0/2/action", 3), "device_traces[0][2].action: is no text");
  EXPECT_EQ(refused("/device_traces/0/2/action", "later"), "") << "a later version's";
  EXPECT_EQ(refused("/device_traces/0/0/size", uint64_t{1} << 63), "device_traces[0][0].size: is no whole number");
  EXPECT_EQ(refused("/device_traces/0/0/time_us", -1), "device_traces[0][0].time_us: is no time");
  EXPECT_EQ(refused("/allocator_settings", 3), "");
}

TEST(Reader, AFileThatIsNone) {
  EXPECT_THAT(test::message_of<FileError>([] { read_snapshot("/no/such/file"); }),
              HasSubstr("/no/such/file: No such file or directory"));
  EXPECT_THAT(test::message_of<FileError>([] { read_snapshot("/"); }), HasSubstr("/: is no file"));
}

}  // namespace
}  // namespace tenfold
