// `tenfold kernel` on pages of the test's own, which are shell scripts.
#include <algorithm>
#include <filesystem>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Kernel : public Sandbox {
 protected:
  /// A page: describes itself, and does `body` otherwise.
  void add_kernel(const std::string& name, const std::string& body) const {
    write("build/kernels/" + name, "#!/bin/sh\nif [ \"$1\" = --describe ]; then echo '{\"kernel\":\"" + name +
                                       "\",\"title\":\"Title of " + name +
                                       "\",\"shape\":{\"rows\":4},\"rungs\":[{},{}]}'; exit 0; fi\n" + body + "\n");
    fs::permissions(root_ / "build/kernels" / name, fs::perms::owner_all);
  }
  void refused(const std::string& arguments, const std::string& said) const {
    const Ran ran = tenfold(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(ran.err.rfind("tenfold: ", 0), 0u) << ran.err;
    EXPECT_TRUE(has(ran.err, said)) << arguments << ": no '" << said << "' in: " << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
  }
};

TEST_F(Kernel, AloneItListsWhatIsBuilt) {
  add_kernel("transpose", "");
  add_kernel("layer_norm", "");
  write("build/kernels/transpose_simt.cpp", "no program");
  fs::create_directories(root_ / "build/kernels/CMakeFiles");
  const Ran ran = tenfold("kernel");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const size_t first = ran.out.find("Title of layer_norm"), second = ran.out.find("Title of transpose");
  EXPECT_NE(second, std::string::npos) << ran.out;
  EXPECT_LT(first, second) << ran.out;
  EXPECT_FALSE(has(ran.out, "simt") || has(ran.out, "CMakeFiles")) << ran.out;
}

TEST_F(Kernel, HandsItsFlagsOnUnchanged) {
  add_kernel("transpose", "echo \"$# $*\"; echo \"source $TENFOLD_SOURCE_DIR\"");
  const Ran ran = tenfold("kernel transpose --rung 2 --shape rows=3,columns=5 --no-races --pictures 'a b'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "7 ")) << ran.out;
  for (const char* flag : {"--rung 2", "--shape rows=3,columns=5", "--no-races", "--pictures a b"}) {
    EXPECT_TRUE(has(ran.out, flag)) << flag << "\n" << ran.out;
  }
  EXPECT_TRUE(has(ran.out, "source " + root_.string())) << ran.out;
  const Ran bare = tenfold("kernel transpose", "env -u TENFOLD_SOURCE_DIR");  // then the driver's own idea of it
  EXPECT_TRUE(has(bare.out, "source " + test::source_folder().string())) << bare.out;
  EXPECT_EQ(tenfold("kernel transpose").out.rfind("0 \n", 0), 0u) << "no flag, none handed on";
  EXPECT_TRUE(has(tenfold("kernel transpose --describe").out, "Title of transpose"));
}

TEST_F(Kernel, ExitCodeAndErrorsAreThePages) {
  add_kernel("racy", "echo table; exit 1");
  add_kernel("refuses", "echo '--rung 9: no such rung' >&2; exit 2");
  add_kernel("crashes", "kill -SEGV $$");
  const Ran racy = tenfold("kernel racy");
  EXPECT_EQ(racy.code, 1);
  EXPECT_EQ(racy.out, "table\n");
  refused("kernel refuses --rung 9", "tenfold: --rung 9: no such rung");
  const Ran crashed = tenfold("kernel crashes");
  EXPECT_EQ(crashed.code, 128 + 11);
  EXPECT_TRUE(has(crashed.err, "kernel crashes crashed with SIGSEGV")) << crashed.err;
}

TEST_F(Kernel, BadInput) {
  refused("kernel", "no kernel is built");
  refused("kernel transpose", "no kernel is built");
  add_kernel("transpose", "echo must not run");
  add_kernel("softmax", "echo must not run");
  refused("kernel transpos", "unknown kernel 'transpos'; there are: softmax, transpose");
  refused("kernel --rung 1", "--rung needs a kernel");
  refused("kernel transpose --rnug 1", "did you mean '--rung'?");
  refused("kernel transpose softmax", "unknown argument 'softmax'");
  write("build/kernels/softmax", "#!/bin/sh\necho '{'\n");
  refused("kernel", "softmax does not say what it is");
}

}  // namespace
}  // namespace tenfold
