#pragma once
// Trains the same thing in PyTorch's Python front end, from files of raw 32-bit floats: no format that one side could
// read otherwise than the other wrote it.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support.h"

namespace tenfold::parity {

/// The interpreter that `./tenfold` sets up; TENFOLD_PYTHON names another.
inline std::string python() {
  const char* given = std::getenv("TENFOLD_PYTHON");
  return given != nullptr ? given : test::environment_program("python").string();
}

/// Runs the interpreter without warnings; the exit status.
inline int run_python(const std::string& arguments) {
  std::ostringstream command;
  command << "'" << python() << "' -W ignore " << arguments;
  return std::system(command.str().c_str());  // NOLINT(cert-env33-c)
}

/// True when the interpreter exists and has PyTorch.
inline bool python_has_torch() { return run_python("-c 'import torch' > /dev/null 2>&1") == 0; }

/// A folder that both sides write into and read from.
class Exchange {
 public:
  /// Writes the tensors' values one after the other.
  void write(const std::string& name, const std::vector<torch::Tensor>& tensors) const {
    std::ofstream file(path_ / name, std::ios::binary);
    for (const torch::Tensor& tensor : tensors) {
      const torch::Tensor values = tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
      file.write(static_cast<const char*>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    }
    ASSERT_TRUE(file.good()) << "cannot write " << path_ / name;
  }

  /// All values of a file, (N). Empty when there is none.
  torch::Tensor read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    torch::Tensor values = torch::empty({static_cast<int64_t>(bytes.size() / sizeof(float))});
    std::memcpy(values.mutable_data_ptr(), bytes.data(), values.nbytes());
    return values;
  }

  /// Runs tests/parity/SCRIPT with the folder as its argument; the exit status.
  int run(const std::string& script) const {
    std::ostringstream arguments;
    arguments << "'" << (test::source_folder() / "tests/parity" / script).string() << "' '" << path_.string() << "'";
    return run_python(arguments.str());
  }

 private:
  test::Scratch scratch_;
  std::filesystem::path path_ = scratch_.path();
};

/// All values of several tensors, (N).
inline torch::Tensor joined(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& tensor : tensors) flat.push_back(tensor.detach().flatten().to(torch::kFloat));
  return torch::cat(flat);
}

}  // namespace tenfold::parity
