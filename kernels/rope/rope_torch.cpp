#include "rope_torch.h"

#include "rope.h"

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using kernels::Rotation;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::rope";

/// A contiguous copy of `from`, turned in place.
Tensor turned(const Tensor& from, const Tensor& cosines, const Tensor& sines, Rotation rotation) {
  const Tensor values = from.clone(at::MemoryFormat::Contiguous);
  if (values.is_meta()) return values;
  const int64_t positions = values.size(-3), heads = values.size(-2), head_dim = values.size(-1);
  launch_where_they_are({{"values", values, 2}, {"cosines", cosines}, {"sines", sines}}, [&](auto stream, auto value) {
    using T = decltype(value);
    kernels::rope(stream, data_of<T>(values), data_of<float>(cosines), data_of<float>(sines),
                  values.numel() / (heads * head_dim), heads, head_dim, positions, rotation);
  });
  return values;
}

struct Rope : torch::autograd::Function<Rope> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& cosines, const Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return turned(input, cosines, sines, Rotation::forward);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list tables = context->get_saved_variables();
    return {turned(gradients[0], tables[0], tables[1], Rotation::backward), Tensor(), Tensor()};
  }
};

void check_table(const char* what, const Tensor& table, const Tensor& input) {
  const c10::SymInt positions = input.sym_size(-3), pairs = input.sym_size(-1) / 2;
  TORCH_CHECK(table.defined() && table.dim() == 2 && table.sym_size(0) >= positions && table.sym_size(1) == pairs,
              kName, ": the ", what, " must have shape (", positions, " or more, ", pairs, ")",
              table.defined() ? "; they have " + c10::str(table.sym_sizes()) : "");
  TORCH_CHECK(table.scalar_type() == at::kFloat && table.device() == input.device(), kName, ": the ", what, " are ",
              table.scalar_type(), " on ", table.device(), "; they must be Float on ", input.device());
}

void check(const Tensor& input, const RopeAngles& angles) {
  check_input(kName, input);
  TORCH_CHECK(input.dim() >= 3 && input.sym_size(-1) % 2 == 0, kName,
              ": the input must have shape (..., T, H, even head_dim); it has ", input.sym_sizes());
  check_table("cosines", angles.cosines, input);
  check_table("sines", angles.sines, input);
}

/// The first rows of a longer table, which lie together: no copy.
Tensor rows_for(const Tensor& input, const Tensor& table) {
  return table.narrow_symint(0, 0, input.sym_size(-3)).contiguous();
}

}  // namespace

RopeAngles rope_angles(int64_t positions, int64_t head_dim, double base, torch::Device device) {
  TORCH_CHECK(positions >= 1 && head_dim >= 2 && head_dim % 2 == 0, "fused::rope_angles: ", positions,
              " positions and a head_dim of ", head_dim, "; both must be positive, and head_dim even");
  const auto wide = torch::dtype(torch::kDouble);
  const Tensor slowness =
      torch::pow(base, torch::arange(0, head_dim, 2, wide) / static_cast<double>(head_dim));  // (head_dim / 2)
  const Tensor angle = torch::arange(positions, wide).unsqueeze(1) / slowness;  // (positions, head_dim / 2)
  return {angle.cos().to(device, torch::kFloat), angle.sin().to(device, torch::kFloat)};
}

Tensor rope_forward(const Tensor& input, const RopeAngles& angles, bool inverse) {
  check(input, angles);
  return turned(input, rows_for(input, angles.cosines), rows_for(input, angles.sines),
                inverse ? Rotation::backward : Rotation::forward);
}

Tensor rope(const Tensor& input, const RopeAngles& angles) {
  check(input, angles);
  return Rope::apply(input, rows_for(input, angles.cosines), rows_for(input, angles.sines));
}

Tensor reference::rope(const Tensor& input, const RopeAngles& angles) {
  const auto rows = [&](const Tensor& table) {
    return table.narrow(0, 0, input.size(-3)).unsqueeze(1).to(input.scalar_type());
  };
  const Tensor cosines = rows(angles.cosines), sines = rows(angles.sines);  // (T, 1, head_dim / 2)
  const auto halves = input.chunk(2, -1);
  return torch::cat({halves[0] * cosines - halves[1] * sines, halves[1] * cosines + halves[0] * sines}, -1);
}

}  // namespace tenfold::fused
