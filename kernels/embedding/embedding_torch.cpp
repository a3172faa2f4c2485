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
    const Tensor table = weight.contiguous(), tokens = ids.contiguous();
    std::vector<int64_t> shape = tokens.sizes().vec();
    shape.push_back(table.size(1));
    const Tensor out = torch::empty(shape, table.options());
    launch_where_they_are({{"weight", table, part_of(table, tokens)}, {"ids", tokens}, {"out", out}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::embedding(stream, data_of<T>(out), data_of<T>(table), data_of<int64_t>(tokens),
                                               tokens.numel(), table.size(1), table.size(0));
                          });
    context->save_for_backward({tokens});
    context->saved_data["vocabulary"] = table.size(0);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const Tensor ids = context->get_saved_variables()[0].view(-1), grad = gradients[0].contiguous();
    const int64_t vocabulary = context->saved_data["vocabulary"].toInt(), width = grad.size(-1);
    const Tensor grad_weight = torch::zeros({vocabulary, width}, grad.options());
    const Tensor workspace =
        torch::empty({kernels::embedding_workspace_bytes(ids.numel(), width) / 4}, grad.options().dtype(torch::kFloat));
    const auto [sorted_ids, order] = torch::sort(ids, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    launch_where_they_are({{"grad_out", grad},
                           {"sorted_ids", sorted_ids},
                           {"order", order},
                           {"grad_weight", grad_weight, part_of(grad_weight, ids)},
                           {"workspace", workspace}},
                          [&, sorted_ids = sorted_ids, order = order](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::embedding_backward(stream, data_of<T>(grad_weight), data_of<float>(workspace),
                                                        data_of<T>(grad), data_of<int64_t>(sorted_ids),
                                                        data_of<int64_t>(order), ids.numel(), width, vocabulary);
                          });
    return {grad_weight, Tensor()};
  }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  shape_of(kName, weight);
  TORCH_CHECK(weight.dim() == 2, kName, ": the weight must have shape (V, D); it has ", weight.sizes());
  TORCH_CHECK(ids.defined() && ids.numel() > 0, kName, ": there must be an id");
  TORCH_CHECK(ids.scalar_type() == at::kLong && ids.device() == weight.device(), kName, ": the ids are ",
              ids.scalar_type(), " on ", ids.device(), "; they must be Long on ", weight.device());
  return Embedding::apply(weight, ids);
}

Tensor reference::embedding(const Tensor& weight, const Tensor& ids) { return at::embedding(weight, ids); }

}  // namespace tenfold::fused
