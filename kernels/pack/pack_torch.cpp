#include "pack_torch.h"

#include "pack.h"

#include <algorithm>

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Both directions need a first dimension that is rows, and offsets that lie beside them.
void check_arguments(const char* name, const Tensor& rows, const Tensor& cu_seqlens) {
  TORCH_CHECK(rows.defined() && cu_seqlens.defined(), name,
              ": the input and cu_seqlens must be on the CPU or on CUDA; one is undefined");
  check_type_and_device(name, rows);
  TORCH_CHECK(cu_seqlens.scalar_type() == at::kInt || cu_seqlens.scalar_type() == at::kLong, name,
              ": cu_seqlens must be int32 or int64, not ", cu_seqlens.scalar_type());
  TORCH_CHECK(cu_seqlens.dim() == 1 && cu_seqlens.size(0) >= 2, name, ": cu_seqlens must have shape (batch + 1), not ",
              cu_seqlens.sym_sizes());
  TORCH_CHECK(cu_seqlens.device() == rows.device(), name, ": cu_seqlens is on ", cu_seqlens.device(),
              " and the input on ", rows.device());
}

/// A row is what the dimensions from `first` on hold.
void check_row(const char* name, const Tensor& tensor, int64_t first) {
  for (const c10::SymInt& size : tensor.sym_sizes().slice(static_cast<size_t>(first)))
    TORCH_CHECK(size > 0, name, ": a row of ", tensor.sym_sizes(), " has no element");
}

std::vector<c10::SymInt> with_rows(std::vector<c10::SymInt> rows, const Tensor& like, int64_t first) {
  const auto rest = like.sym_sizes().slice(static_cast<size_t>(first));
  rows.insert(rows.end(), rest.begin(), rest.end());
  return rows;
}

/// Calls launch(stream, T(), offsets) with the offsets as a pointer of their type. Of padding nothing is read.
template <class Launch>
void launch_with_offsets(const Tensor& to, const Tensor& from, const Tensor& cu_seqlens, const Launch& launch) {
  const double part = std::min(1.0, static_cast<double>(to.nbytes()) / static_cast<double>(from.nbytes()));
  launch_where_they_are({{"to", to}, {"from", from, part}, {"cu_seqlens", cu_seqlens}}, [&](auto stream, auto value) {
    if (cu_seqlens.scalar_type() == at::kInt) return launch(stream, value, data_of<const int32_t>(cu_seqlens));
    launch(stream, value, data_of<const int64_t>(cu_seqlens));
  });
}

Tensor packed_of(const Tensor& padded, const Tensor& cu_seqlens, const c10::SymInt& rows) {
  const Tensor out = at::empty_symint(with_rows({rows}, padded, 2), padded.options());
  if (out.is_meta() || rows == 0) return out;
  const Tensor from = padded.contiguous(), offsets = cu_seqlens.contiguous();
  const int64_t total = out.size(0);
  launch_with_offsets(out, from, offsets, [&](auto stream, auto value, const auto* begin) {
    using T = decltype(value);
    kernels::pack(stream, data_of<T>(out), data_of<const T>(from), begin, from.size(0), from.size(1),
                  out.numel() / total, total);
  });
  return out;
}

Tensor padded_of(const Tensor& packed, const Tensor& cu_seqlens, const c10::SymInt& width, double padding) {
  const Tensor out = at::empty_symint(with_rows({cu_seqlens.sym_size(0) - 1, width}, packed, 1), packed.options());
  if (out.is_meta()) return out;
  const Tensor from = packed.contiguous(), offsets = cu_seqlens.contiguous();
  const int64_t batch = out.size(0), length = out.size(1), total = packed.size(0);
  if (total == 0) return out.fill_(padding);  // no memory to give to a kernel
  launch_with_offsets(out, from, offsets, [&](auto stream, auto value, const auto* begin) {
    using T = decltype(value);
    kernels::unpack(stream, data_of<T>(out), data_of<const T>(from), begin, batch, length, from.numel() / total, total,
                    static_cast<float>(padding));
  });
  return out;
}

struct Pack : torch::autograd::Function<Pack> {
  static Tensor forward(AutogradContext* context, const Tensor& padded, const Tensor& cu_seqlens, int64_t total) {
    const Tensor out = packed_of(padded, cu_seqlens, total);
    context->save_for_backward({cu_seqlens});
    context->saved_data["length"] = padded.size(1);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order("fused::pack");
    return {padded_of(gradients[0], context->get_saved_variables()[0], context->saved_data["length"].toInt(), 0),
            Tensor(), Tensor()};
  }
};

struct Unpack : torch::autograd::Function<Unpack> {
  static Tensor forward(AutogradContext* context, const Tensor& packed, const Tensor& cu_seqlens, int64_t length,
                        double padding) {
    const Tensor out = padded_of(packed, cu_seqlens, length, padding);
    context->save_for_backward({cu_seqlens});
    context->saved_data["total"] = packed.size(0);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order("fused::unpack");
    return {packed_of(gradients[0], context->get_saved_variables()[0], context->saved_data["total"].toInt()), Tensor(),
            Tensor(), Tensor()};
  }
};

/// (batch, length): where the padded batch holds a row of a sequence.
Tensor is_row(const Tensor& cu_seqlens, int64_t length) {
  const Tensor lengths = cu_seqlens.diff().unsqueeze(1);
  return torch::arange(length, lengths.options()).unsqueeze(0) < lengths;
}

void check_padded(const Tensor& padded, const Tensor& cu_seqlens, const c10::SymInt& total) {
  constexpr const char* kName = "fused::pack";
  check_arguments(kName, padded, cu_seqlens);
  const bool fits = padded.dim() >= 2 && padded.sym_size(1) >= 1 && padded.sym_size(0) + 1 == cu_seqlens.sym_size(0);
  TORCH_CHECK(fits, kName,
              ": the input must have shape (batch, length, ...) for cu_seqlens of batch + 1 = ", cu_seqlens.sym_size(0),
              "; it has ", padded.sym_sizes());
  TORCH_CHECK(total >= 0, kName, ": a total of ", total, " rows");
  check_row(kName, padded, 2);
}

void check_packed(const Tensor& packed, const Tensor& cu_seqlens, const c10::SymInt& length) {
  constexpr const char* kName = "fused::unpack";
  check_arguments(kName, packed, cu_seqlens);
  TORCH_CHECK(packed.dim() >= 1 && length >= 1, kName,
              ": the input must have shape (total, ...) and the length be at least 1, not ", packed.sym_sizes(),
              " and ", length);
  check_row(kName, packed, 1);
}

}  // namespace

Tensor pack_forward(const Tensor& padded, const Tensor& cu_seqlens, const c10::SymInt& total) {
  check_padded(padded, cu_seqlens, total);
  return packed_of(padded, cu_seqlens, total);
}

Tensor unpack_forward(const Tensor& packed, const Tensor& cu_seqlens, const c10::SymInt& length, double padding) {
  check_packed(packed, cu_seqlens, length);
  return padded_of(packed, cu_seqlens, length, padding);
}

Tensor pack(const Tensor& padded, const Tensor& cu_seqlens, int64_t total) {
  check_padded(padded, cu_seqlens, total);
  return Pack::apply(padded, cu_seqlens, total);
}

Tensor unpack(const Tensor& packed, const Tensor& cu_seqlens, int64_t length, double padding) {
  check_packed(packed, cu_seqlens, length);
  return Unpack::apply(packed, cu_seqlens, length, padding);
}

Tensor reference::pack(const Tensor& padded, const Tensor& cu_seqlens, int64_t total) {
  const Tensor packed = padded.index({is_row(cu_seqlens, padded.size(1))});
  TORCH_CHECK(packed.size(0) == total, "cu_seqlens has ", packed.size(0), " rows, not ", total);
  return packed;
}

Tensor reference::unpack(const Tensor& packed, const Tensor& cu_seqlens, int64_t length, double padding) {
  const Tensor padded = at::full_symint(with_rows({cu_seqlens.size(0) - 1, length}, packed, 1), padding,
                                        packed.options().requires_grad(false));
  return padded.index_put({is_row(cu_seqlens, length)}, packed);
}

}  // namespace tenfold::fused
