// Which line a stack is named by.
#include <gtest/gtest.h>

#include "story.h"

namespace tenfold {
namespace {

using test::frame;
using test::Json;

std::string place_of_value(const Json& frames) {
  test::Story story;
  story.segment(0, {{1, 1}});
  story.json["segments"][0]["blocks"][0]["frames"] = frames;
  const MemorySnapshot snapshot = story.read();
  return snapshot.places.at(snapshot.segments.at(0).blocks.at(0).place).name;
}

std::string place_of(const std::vector<Json>& frames) { return place_of_value(frames); }

const Json kPackage = frame("/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134, "forward");
const Json kTorch = frame("??", 0, "at::_ops::linear::call(at::Tensor const&)");
const Json kPython = frame("/tmp/build/Python-3.11.7/Objects/call.c", 214, "_PyObject_MakeTpCall");
const Json kStart = frame("./csu/../csu/libc-start.c", 360, "__libc_start_main_impl");

TEST(Places, TheInnermostLineOfThePrograms) {
  EXPECT_EQ(
      place_of({kTorch, kPython, kPackage, frame("/w/nets/gpt.py", 12, "block"), frame("/w/train.py", 5, "main")}),
      "nets/gpt.py:12 block");
}

TEST(Places, APackagesOwnWhereThereIsNoOther) {
  EXPECT_EQ(place_of({kTorch, kPackage, kStart}), "modules/linear.py:134 forward");
}

TEST(Places, OfCpp) {
  const Json symbols = frame("??", 0, "train_on(Work&, long)"), main = frame("??", 0, "main");
  EXPECT_EQ(place_of({kTorch, symbols, main, kStart}), "train_on");
  const Json line = frame("/w/src/train.cpp", 40, "train_on(Work&, long)");
  EXPECT_EQ(place_of({kTorch, line, main, kStart}), "src/train.cpp:40 train_on") << "compiled with -g";
}

TEST(Places, TheBackwardPassHasAThreadOfItsOwn) {
  EXPECT_EQ(place_of({kTorch, frame("??", 0, "torch::autograd::Engine::thread_init(int)"),
                      frame("??", 0, "execute_native_thread_routine"), frame("??", 0, "start_thread"),
                      frame("??", 0, "clone3")}),
            "backward pass");
}

TEST(Places, None) {
  EXPECT_EQ(place_of({}), "(no stack recorded)");
  EXPECT_EQ(place_of({kTorch, kStart}), "(no stack recorded)");
  EXPECT_EQ(place_of_value("frames"), "(no stack recorded)");
  EXPECT_EQ(place_of({Json(1), Json::object(), Json::object({{"name", 3}})}), "(no stack recorded)");
}

TEST(Places, LineBreaksAreNoTable) { EXPECT_EQ(place_of({frame("/w/a.py", 1, "x\ny")}), "w/a.py:1 x y"); }

}  // namespace
}  // namespace tenfold
