#include <gtest/gtest.h>

#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "safetensors.h"
#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
using namespace tenfold;
using namespace std::string_literals;
using tenfold::test::message_of;
using tenfold::test::read_text;
using tenfold::test::write_text;

// What safetensors 0.8.0 (PyPI) writes for the tensors of written_by_python(), by safetensors.torch.save(tensors,
// {"format": "pt"}) with torch 2.11: 565 bytes.
const std::string kPythonHeader =
    R"({"__metadata__":{"format":"pt"},"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
    R"("one":{"dtype":"F64","shape":[],"data_offsets":[16,24]},)"
    R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[24,24]},)"
    R"("weights":{"dtype":"F32","shape":[2,2],"data_offsets":[24,40]},"brain":{"dtype":"BF16","shape":[1,1],)"
    R"("data_offsets":[40,42]},"half":{"dtype":"F16","shape":[3],"data_offsets":[42,48]},)"
    R"("u8":{"dtype":"U8","shape":[3],"data_offsets":[48,51]},"a\")"
    "\xc3\xa9"
    R"(":{"dtype":"BOOL","shape":[2],"data_offsets":[51,53]}}  )";
const std::string kPythonData =
    "\x07\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\x04@\0\0\xc0?\0\0\0\xc0\0\0\x80>\0\0@@"
    "@@\0<\0\xb8\0@\x01\x02\xff\x01\0"s;

NamedTensors written_by_python() {
  return {{"weights", torch::tensor({1.5F, -2.0F, 0.25F, 3.0F}).view({2, 2})},
          {"half", torch::tensor({1.0F, -0.5F, 2.0F}).to(torch::kHalf)},
          {"brain", torch::tensor({3.0F}).to(torch::kBFloat16).view({1, 1})},
          {"ids", torch::tensor({int64_t{7}, int64_t{-1}})},
          {"a\"\xc3\xa9", torch::tensor({1, 0}).to(torch::kBool)},
          {"none", torch::zeros({0, 3})},
          {"one", torch::tensor(2.5, torch::kDouble)},
          {"u8", torch::tensor({1, 2, 255}).to(torch::kByte)}};
}

std::string with_length(const std::string& header, uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header;
}
std::string file_of(const std::string& header, const std::string& data = "") {
  return with_length(header, header.size()) + data;
}

class SafetensorsFile : public testing::Test {
 protected:
  /// What read_safetensors() says of a file with these bytes.
  std::string refusal(const std::string& bytes) {
    write_text(path_, bytes);
    const std::string message = message_of<std::runtime_error>([&] { read_safetensors(path_); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line: " << message;
    return message;
  }
  void expect_refused(const std::string& bytes, const std::string& words) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(words), std::string::npos) << message << "\n  lacks: " << words;
    EXPECT_EQ(message.rfind(path_.string(), 0), 0U) << message << "\n  does not begin with the file";
  }

  test::Scratch scratch_;
  fs::path path_ = scratch_.path() / "file.safetensors";
};

TEST_F(SafetensorsFile, IsByteForByteThatOfTheFormatsOwnWriter) {
  const std::string expected = file_of(kPythonHeader, kPythonData);
  ASSERT_EQ(expected.size(), 565U);
  EXPECT_EQ(safetensors_bytes(written_by_python(), {{"format", "pt"}}), expected);
}

TEST_F(SafetensorsFile, OfTheFormatsOwnWriterIsRead) {
  write_text(path_, file_of(kPythonHeader, kPythonData));
  const Safetensors file = read_safetensors(path_);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const NamedTensors expected = written_by_python();
  ASSERT_EQ(file.tensors.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(file.tensors.contains(name)) << name;
    EXPECT_EQ(file.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(file.tensors.at(name), tensor)) << name;
  }
}

TEST_F(SafetensorsFile, EveryTypeComesBack) {
  NamedTensors tensors;
  for (const at::ScalarType type : safetensors_detail::kTorchTypes)
    tensors[toString(type)] = torch::arange(6).to(torch::kFloat).to(type).view({2, 3});
  write_safetensors(path_, tensors);
  const Safetensors file = read_safetensors(path_);
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(file.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(file.tensors.at(name).view(torch::kByte), tensor.view(torch::kByte))) << name;
  }
  EXPECT_THROW(safetensors_bytes({{"complex", torch::empty({2}, torch::kComplexDouble)}}), std::runtime_error);
}

TEST_F(SafetensorsFile, ViewsAreWrittenAsTheyLook) {
  const torch::Tensor matrix = torch::arange(6.0).view({2, 3});
  write_safetensors(path_, {{"transposed", matrix.t()}, {"column", matrix.narrow(1, 1, 1)}});
  const NamedTensors tensors = read_safetensors(path_).tensors;
  EXPECT_TRUE(torch::equal(tensors.at("transposed"), matrix.t()));
  EXPECT_TRUE(torch::equal(tensors.at("column"), matrix.narrow(1, 1, 1)));
}

TEST_F(SafetensorsFile, NamesAndMetadataAreEscaped) {
  const std::string name = "a \"quoted\" \\ name\n\x01 of \xf0\x9f\x98\x80";
  write_safetensors(path_, {{name, torch::ones({1})}}, {{"a key\t", "and its \"value\""}});
  const Safetensors file = read_safetensors(path_);
  EXPECT_TRUE(file.tensors.contains(name));
  EXPECT_EQ(file.metadata.at("a key\t"), "and its \"value\"");
  const auto header = parse_safetensors_header(
      R"({"\u0041\u00e9\u20ac\ud83d\ude00" : {"dtype":"U8", "shape":[ ], "data_offsets":[0 , 1]} } )");
  EXPECT_EQ(header.entries.at(0).name, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST_F(SafetensorsFile, TruncatedIsRefused) {
  const std::string whole = file_of(kPythonHeader, kPythonData);
  for (size_t size = 0; size < whole.size(); size += size < 600 ? 7 : 1) refusal(whole.substr(0, size));
  expect_refused("", "it has 0 bytes");
  expect_refused(whole.substr(0, 100), "truncated");
  expect_refused(whole.substr(0, whole.size() - 1), "the file has only 52 bytes of data");
  EXPECT_NE(
      message_of<std::runtime_error>([&] { read_safetensors(scratch_.path() / "absent"); }).find("cannot be read"),
      std::string::npos);
}

TEST_F(SafetensorsFile, HeaderOfAWrongLengthIsRefused) {
  expect_refused(with_length("{}", ~uint64_t{0}), "too long");
  expect_refused(with_length("{}", kMostSafetensorsHeader + 1), "too long");
  expect_refused(with_length("{}      ", 9), "truncated");
}

TEST_F(SafetensorsFile, WrongOffsetsAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}",
                   std::string(16, '\0'));
  };
  write_text(path_, two("[0,8]", "[8,16]"));
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 2U);
  expect_refused(two("[0,8]", "[4,12]"), "overlaps");
  expect_refused(two("[0,8]", "[0,8]"), "overlaps");
  expect_refused(two("[0,8]", "[9,17]"), "only 16 bytes of data");
  expect_refused(two("[0,8]", "[16,8]"), "the end is before the begin");
  expect_refused(two("[0,8]", "[8,12]"), "ask for another number of bytes");
  expect_refused(two("[0,8]", "[8,9223372036854775807]"), "only 16 bytes of data");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "1234"), "belong to no tensor");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "1234"), "2 bytes at the end");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})"),
                 "ask for another number of bytes");  // 2^64 bytes, which are 0 in 64 bits
}

TEST_F(SafetensorsFile, WrongHeadersAreRefused) {
  const std::string entry = R"({"dtype":"U8","shape":[],"data_offsets":[0,1]})";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "expected {"},
      {"[]", "expected {"},
      {" {}", "expected {"},
      {"{", "expected \""},
      {"{}}", "something follows"},
      {R"({"a":)" + entry, "expected }"},
      {R"({"a":)" + entry + R"(,"a":)" + entry + "}", "'a' comes twice"},
      {R"({"a":{"dtype":"F7","shape":[],"data_offsets":[0,1]}})", "dtype 'F7' is not known"},
      {R"({"a":{"dtype":"U8","shape":[]}})", "needs dtype, shape and two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0]}})", "needs dtype, shape and two data_offsets"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", "'dtype' comes twice"},
      {R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":1}})", "unknown key 'more'"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "whole number"},
      {R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "expected ]"},
      {R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})", "begins with 0"},
      {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", "whole number"},
      {R"({"\x":)" + entry + "}", "an escape that JSON does not have"},
      {R"({"\ud83d":)" + entry + "}", "surrogate"},
      {R"({"\u12":)" + entry + "}", "hexadecimal"},
      {"{\"a\n\":" + entry + "}", "control character"},
      {R"({"__metadata__":{"format":1}})", "expected \""}};
  for (const auto& [header, words] : wrong) expect_refused(file_of(header, "1"), words);
}

TEST_F(SafetensorsFile, AWriteThatFailsLeavesTheOldFile) {
  write_safetensors(path_, {{"old", torch::ones({2})}});
  const std::string before = read_text(path_);
  fs::create_directory(path_.string() + ".part");  // where the new bytes would be written first
  EXPECT_THROW(write_safetensors(path_, {{"new", torch::ones({2})}}), std::runtime_error);
  EXPECT_EQ(read_text(path_), before);
  fs::remove(path_.string() + ".part");
  write_safetensors(path_, {{"new", torch::ones({2})}});
  EXPECT_TRUE(read_safetensors(path_).tensors.contains("new"));
}

}  // namespace
