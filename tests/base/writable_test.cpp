// Files that are to be written later: tried, and nothing of that is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <tuple>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Writable : public testing::Test {
 protected:
  Writable() { test::write_text(root_ / "file", "kept"); }

  std::string complaint(const fs::path& file) const {
    const auto before = snapshot();
    const std::string said = test::message_of<UsageError>([&] { require_writable(file, "WHAT", "ADVICE"); });
    EXPECT_EQ(snapshot(), before) << file << ": something was left behind";
    return said;
  }
  /// Every path below the root with its content, and when it was changed.
  std::map<std::string, std::pair<std::string, fs::file_time_type>> snapshot() const {
    std::map<std::string, std::pair<std::string, fs::file_time_type>> all;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      std::error_code round;
      const bool file = entry.is_regular_file(round);
      all[entry.path()] = {file ? test::read_text(entry.path()) : "",
                           file ? entry.last_write_time() : fs::file_time_type()};
    }
    return all;
  }

  test::Scratch scratch_;
  fs::path root_ = scratch_.path();
};

TEST_F(Writable, WhatCanBeWrittenIsNotTouched) {
  for (const fs::path& file : {root_ / "file", root_ / "new.json", root_ / "a" / "b" / "new.json"}) {
    EXPECT_EQ(complaint(file), "");
    EXPECT_NO_THROW(write_atomically(file, "text")) << file << ": the trial promised it";
  }
  const fs::path here = fs::current_path();
  fs::current_path(root_);
  EXPECT_EQ(complaint("relative.json") + complaint("c/relative.json"), "");
  fs::current_path(here);
}

TEST_F(Writable, WhatCannotIsRefusedInWords) {
  const std::string file = (root_ / "file").string(), folder = (root_ / "folder").string();
  fs::create_directories(folder);
  fs::create_symlink(root_ / "nowhere", root_ / "link");
  const auto said = [](const std::string& why) { return "WHAT: cannot be written: " + why + "; ADVICE"; };
  EXPECT_EQ(complaint(file + "/x.json"), said(file + " is not a folder"));
  EXPECT_EQ(complaint(file + "/deep/x.json"), said(file + " is not a folder"));
  EXPECT_EQ(complaint(folder), said("it names a folder"));
  EXPECT_EQ(complaint(folder + "/new/"), said("it names a folder"));
  EXPECT_EQ(complaint(root_ / "link" / "x.json"), said((root_ / "link").string() + " is not a folder"));
  EXPECT_EQ(complaint("/dev/null"), said("it is not a regular file"))
      << "a rename would put a file in the device's place";
  EXPECT_EQ(complaint("/proc/none/x.json"), said("No such file or directory"));
  const std::string long_name(300, 'x');
  EXPECT_EQ(complaint(root_ / long_name), said("File name too long"));
  EXPECT_EQ(complaint(root_ / long_name / "x.json"), said((root_ / long_name).string() + ": File name too long"));
}

// With links of its own: as root, what goes wrong here would replace the machine's /dev/stdout.
TEST_F(Writable, ALinkStaysALink) {
  test::write_text(root_ / "a" / "target", "old");
  fs::permissions(root_ / "a" / "target", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a/target", root_ / "relative");
  fs::create_symlink(root_ / "relative", root_ / "absolute");
  fs::create_symlink("a/new", root_ / "dangling");
  for (const auto& [link, target] :
       {std::pair("relative", "a/target"), {"absolute", "a/target"}, {"dangling", "a/new"}}) {
    EXPECT_EQ(complaint(root_ / link), "");
    write_atomically(root_ / link, link);
    EXPECT_TRUE(fs::is_symlink(root_ / link)) << link;
    EXPECT_EQ(test::read_text(root_ / target), link);
  }
  EXPECT_EQ(fs::status(root_ / "a" / "target").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Writable, StreamsDevicesAndLoopsAreRefused) {
  // As /dev/stdout is when the shell has redirected it: a link to a link of /proc to a regular file.
  const int opened = open((root_ / "file").c_str(), O_WRONLY | O_APPEND);
  const std::string stream = "/proc/self/fd/" + std::to_string(opened);
  fs::create_symlink(stream, root_ / "stdout");
  fs::create_symlink("stdout", root_ / "further");
  fs::create_symlink("/proc/self/fd", root_ / "fd");
  fs::create_symlink("/dev/null", root_ / "nothing");
  fs::create_symlink("round", root_ / "round");
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  const std::string open_stream = "it is an open stream and no file", no_file = "it is not a regular file";
  for (const auto& [path, why] : std::map<fs::path, std::string>{
           {root_ / "stdout", open_stream},
           {root_ / "further", open_stream},
           {stream, open_stream},
           {root_ / "fd" / std::to_string(opened), open_stream},
           {root_ / "nothing", no_file},
           {root_ / "pipe", no_file},
           {root_ / "round", "its links go round"},
           {"-", "'-' is no file here: the table goes to standard output, this to a file"}}) {
    EXPECT_EQ(complaint(path), "WHAT: cannot be written: " + why + "; ADVICE");
    EXPECT_EQ(test::message_of<FileError>([&] { write_atomically(path, "text"); }),
              path.string() + ": cannot be written: " + why + "; nothing was changed");
  }
  close(opened);
  for (const char* link : {"stdout", "further", "nothing", "round"}) EXPECT_TRUE(fs::is_symlink(root_ / link)) << link;
  EXPECT_EQ(test::read_text(root_ / "file"), "kept");
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(Writable, AFolderWithoutTheRight) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::create_directories(root_ / "closed");
  fs::permissions(root_ / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(complaint(root_ / "closed" / "x.json"), "WHAT: cannot be written: Permission denied; ADVICE");
  EXPECT_EQ(complaint(root_ / "closed" / "new" / "x.json"), "WHAT: cannot be written: Permission denied; ADVICE");
}

TEST_F(Writable, AFullDisk) {
  const fs::path disk = root_ / "disk";
  fs::create_directories(disk);
  if (std::system(("mount -t tmpfs -o size=64k tmpfs '" + disk.string() + "' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no right to mount a small file system";
  std::ignore = std::system(("head -c 65536 /dev/zero > '" + (disk / "rest").string() + "' 2>/dev/null").c_str());
  EXPECT_EQ(complaint(disk / "x.json"), "WHAT: cannot be written: No space left on device; ADVICE");
  EXPECT_EQ(complaint(disk / "new" / "x.json"), "WHAT: cannot be written: No space left on device; ADVICE");
  std::ignore = std::system(("umount '" + disk.string() + "'").c_str());
}

}  // namespace
}  // namespace tenfold
