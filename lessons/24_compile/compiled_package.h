// installs as <tenfold/compiled_package.h>
#pragma once
// A forward pass that Inductor compiled ahead of time in Python (AOTInductor), run in C++ without any Python. The
// package's own loader checks next to nothing: a batch of two rows for a package of eight reads six rows behind its
// end, and a weight of another shape gives numbers. Here both are refused.
//
// The package says what it takes in its metadata: package() in python.py writes it,
//   "inputs"        "int64 8 64; float32 8 3", type and sizes of each
//   "weight NAME"   "float32 128 64"
// What is not said is not checked.

#include <torch/torch.h>

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenfold {

/// "float32 128 64": as PyTorch names the type, then the sizes.
inline std::string type_and_sizes(const torch::Tensor& tensor) {
  static const std::unordered_map<torch::ScalarType, std::string> kNames = {
      {torch::kFloat, "float32"},     {torch::kDouble, "float64"}, {torch::kHalf, "float16"},
      {torch::kBFloat16, "bfloat16"}, {torch::kInt, "int32"},      {torch::kLong, "int64"},
      {torch::kByte, "uint8"},        {torch::kBool, "bool"}};
  const auto name = kNames.find(tensor.scalar_type());
  std::string text = name == kNames.end() ? torch::toString(tensor.scalar_type()) : name->second;
  for (const int64_t size : tensor.sizes()) text += " " + std::to_string(size);
  return text;
}

/// What a package says of its inputs, "int64 8 64; float32 8 3", one by one.
inline std::vector<std::string> stated_inputs(const std::string& text) {
  std::vector<std::string> inputs;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) inputs.push_back(part.substr(part.find_first_not_of(' ')));
  return inputs;
}

/// A package's library asks for libtorch.so, which has no symbols of its own; a linker with --as-needed, most
/// distributions' default, leaves it out of a C++ program, and then no package loads. It lies beside libtorch_cpu.so.
inline void load_libtorch() {
  Dl_info loaded{};
  void* const known = dlsym(RTLD_DEFAULT, "aoti_torch_delete_tensor_object");
  if (known == nullptr || dladdr(known, &loaded) == 0) return;
  const auto library = std::filesystem::path(loaded.dli_fname).parent_path() / "libtorch.so";
  dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);  // where there is none the package may not need it
}

/// A loaded package. Calls need not wait for each other only if one thread makes them.
class CompiledPackage {
 public:
  using Weights = torch::OrderedDict<std::string, torch::Tensor>;

  /// Throws c10::ValueError for a file that is missing, and c10::Error for one that is no package of this platform. The
  /// library in it is unpacked into a temporary folder.
  explicit CompiledPackage(const std::filesystem::path& file) {
    TORCH_CHECK_VALUE(std::filesystem::is_regular_file(file), "CompiledPackage: there is no file ", file.string());
    load_libtorch();
    loader_ = std::make_unique<torch::inductor::AOTIModelPackageLoader>(file.string());
    metadata_ = loader_->get_metadata();
    if (const auto said = metadata_.find("inputs"); said != metadata_.end()) inputs_ = stated_inputs(said->second);
  }

  /// From here on the compiled code reads these tensors and no longer the weights that the package was made with: no
  /// copy, so what an optimizer changes in place is seen, and a tensor that replaces one of them is not. Throws
  /// c10::ValueError for weights of other names, types or sizes, and for one that is not contiguous.
  void share_weights(const Weights& weights) {
    std::unordered_map<std::string, torch::Tensor> shared;
    for (const auto& weight : weights) {
      const auto said = metadata_.find("weight " + weight.key());
      TORCH_CHECK_VALUE(said == metadata_.end() || said->second == type_and_sizes(weight.value()),
                        "CompiledPackage: the package's ", weight.key(), " is ", said->second, ", this one is ",
                        type_and_sizes(weight.value()));
      TORCH_CHECK_VALUE(weight.value().is_contiguous(), "CompiledPackage: ", weight.key(), " is not contiguous");
      shared.emplace(weight.key(), weight.value().detach());
    }
    for (const std::string& name : loader_->get_constant_fqns())
      TORCH_CHECK_VALUE(shared.contains(name), "CompiledPackage: the package needs a weight ", name);
    TORCH_CHECK_VALUE(shared.size() == loader_->get_constant_fqns().size(), "CompiledPackage: the package has ",
                      loader_->get_constant_fqns().size(), " weights, and not ", shared.size());
    loader_->load_constants(shared, /*use_inactive=*/false, /*check_full_update=*/true, /*user_managed=*/true);
    weights_ = std::move(shared);  // the compiled code keeps addresses alone
  }

  /// The outputs for these inputs. Without a graph: compiled ahead of time there is no backward pass. Throws
  /// c10::ValueError for inputs of other types, sizes or number than the package was made for.
  std::vector<torch::Tensor> operator()(std::vector<torch::Tensor> inputs) {
    TORCH_CHECK_VALUE(!torch::GradMode::is_enabled(),
                      "CompiledPackage: has no backward pass; call it under NoGradGuard");
    if (!inputs_.empty()) {
      TORCH_CHECK_VALUE(inputs.size() == inputs_.size(), "CompiledPackage: takes ", inputs_.size(), " inputs, not ",
                        inputs.size());
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      TORCH_CHECK_VALUE(type_and_sizes(inputs[i]) == inputs_[i], "CompiledPackage: input ", i, " is ",
                        type_and_sizes(inputs[i]), ", the package was made for ", inputs_[i]);
      inputs[i] = inputs[i].contiguous();
    }
    return loader_->run(inputs);
  }

  const std::unordered_map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> loader_;
  std::unordered_map<std::string, std::string> metadata_;
  std::unordered_map<std::string, torch::Tensor> weights_;
  std::vector<std::string> inputs_;
};

}  // namespace tenfold
