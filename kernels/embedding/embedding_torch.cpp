#include "embedding_torch.h"

#include "embedding.h"

#include <algorithm>

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::embedding";

/// Of a table's rows, those that so many ids touch at most.
double part_of(const Tensor& table, const Tensor& ids) {
  return std::min(1.0, static_cast<double>(ids.numel()) / static_cast<double>(table.size(0)));
}

struct Embedding : torch::autograd::Function<Embedding> {
  static Tensor forward(AutogradContext* context, const Tensor& weight, const Tensor& ids) {
    const Tensor tokens = ids.contiguous();
    context->save_for_backward({tokens});
    context->saved_data["vocabulary"] = weight.size(0);
    return embedding_forward(weight, tokens);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    return {
        embedding_backward(gradients[0], context->get_saved_variables()[0], context->saved_data["vocabulary"].toInt()),
        Tensor()};
  }
};

void check_ids(const Tensor& ids, const Tensor& beside) {
  TORCH_CHECK(ids.defined() && ids.sym_numel() > 0, kName, ": there must be an id");
  TORCH_CHECK(ids.scalar_type() == at::kLong && ids.device() == beside.device(), kName, ": the ids are ",
              ids.scalar_type(), " on ", ids.device(), "; they must be Long on ", beside.device());
}

void check(const Tensor& weight, const Tensor& ids) {
  check_input(kName, weight);
  TORCH_CHECK(weight.dim() == 2, kName, ": the weight must have shape (V, D); it has ", weight.sym_sizes());
  check_ids(ids, weight);
}

std::vector<c10::SymInt> with_width(const Tensor& ids, const c10::SymInt& width) {
  std::vector<c10::SymInt> shape = ids.sym_sizes().vec();
  shape.push_back(width);
  return shape;
}

}  // namespace

Tensor embedding_forward(const Tensor& weight, const Tensor& ids) {
  check(weight, ids);
  const Tensor table = weight.contiguous(), tokens = ids.contiguous();
  const Tensor out = at::empty_symint(with_width(tokens, table.sym_size(1)), table.options());
  if (table.is_meta()) return out;
  launch_where_they_are({{"weight", table, part_of(table, tokens)}, {"ids", tokens}, {"out", out}},
                        [&](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::embedding(stream, data_of<T>(out), data_of<T>(table), data_of<int64_t>(tokens),
                                             tokens.numel(), table.size(1), table.size(0));
                        });
  return out;
}

Tensor embedding_backward(const Tensor& gradient, const Tensor& ids, const c10::SymInt& vocabulary) {
  check_input(kName, gradient);
  check_ids(ids, gradient);
  TORCH_CHECK(vocabulary > 0, kName, ": a vocabulary of ", vocabulary);
  const c10::SymInt each_row = gradient.sym_size(-1);
  check_sizes(kName, "the gradient", gradient, with_width(ids, each_row), gradient.scalar_type(), gradient);
  const Tensor grad_weight = at::zeros_symint({vocabulary, each_row}, gradient.options());
  if (gradient.is_meta()) return grad_weight;
  const Tensor tokens = ids.reshape({-1}), grad = gradient.contiguous();
  const int64_t words = grad_weight.size(0), width = grad_weight.size(1);
  const Tensor workspace = torch::empty({kernels::embedding_workspace_bytes(tokens.numel(), width) / 4},
                                        grad.options().dtype(torch::kFloat));
  const auto [sorted_ids, order] = torch::sort(tokens, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  launch_where_they_are({{"grad_out", grad},
                         {"sorted_ids", sorted_ids},
                         {"order", order},
                         {"grad_weight", grad_weight, part_of(grad_weight, tokens)},
                         {"workspace", workspace}},
                        [&, sorted_ids = sorted_ids, order = order](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::embedding_backward(stream, data_of<T>(grad_weight), data_of<float>(workspace),
                                                      data_of<T>(grad), data_of<int64_t>(sorted_ids),
                                                      data_of<int64_t>(order), tokens.numel(), width, words);
                        });
  return grad_weight;
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  check(weight, ids);
  return Embedding::apply(weight, ids);
}

Tensor reference::embedding(const Tensor& weight, const Tensor& ids) { return at::embedding(weight, ids); }

}  // namespace tenfold::fused
