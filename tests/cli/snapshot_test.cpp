// snapshot: a file that PyTorch wrote, in words or as JSON; and files that it did not write.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sandbox.h"

namespace tenfold {
namespace {

class SnapshotCommand : public Sandbox {
 protected:
  SnapshotCommand() {
    write("snapshot.json", R"({"segments": [{"device": 0, "address": 4096, "total_size": 20971520, "blocks": [
      {"address": 4096, "size": 10485760, "requested_size": 10485000, "state": "active_allocated", "frames": []},
      {"address": 10489856, "size": 10485760, "requested_size": 0, "state": "inactive", "frames": []}]}]})");
  }
};

TEST_F(SnapshotCommand, TellsWhatTheFileSays) {
  const Ran ran = tenfold("snapshot snapshot.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(has(ran.out, "snapshot.json, GPU 0: no trace")) << ran.out;
  EXPECT_TRUE(has(ran.out, "stranded             10.0 MiB")) << ran.out;
  const auto json = nlohmann::json::parse(tenfold("snapshot --json snapshot.json").out);
  EXPECT_EQ(json.at("devices").at(0).at("memory").at("requested"), 10485000);
}

TEST_F(SnapshotCommand, BadInputIsOneLine) {
  write("half.pickle", "\x80\x02}X");
  write("text", "segments\n");
  write("half.json", read("snapshot.json").substr(0, 100));
  write("other.json", R"({"schema": "tenfold.result/2"})");
  for (const auto& [arguments, part] : {std::pair("", "file is required"),
                                        {"nothing.pickle", "nothing.pickle: No such file or directory"},
                                        {"io", "io: is no file"},
                                        {"text", "text: is no pickle of protocol 2 or later, and no JSON"},
                                        {"half.pickle", "half.pickle: is truncated"},
                                        {"half.json", "half.json: at byte "},
                                        {"other.json", "other.json: has no segments"},
                                        {"snapshot.json --jsn", "did you mean '--json'?"},
                                        {"snapshot.json other.json", "unknown argument 'other.json'"}}) {
    const Ran ran = tenfold(std::string("snapshot ") + arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_TRUE(has(ran.err, part)) << arguments << ": " << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
  }
}

}  // namespace
}  // namespace tenfold
