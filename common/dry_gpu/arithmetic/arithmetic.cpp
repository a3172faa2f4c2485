// Arithmetic for a dry GPU. Below autograd every operator runs as a GPU runs it: it allocates, launches and copies.
// What it would compute is then kept with its stream, as the same operator on the CPU over the same bytes, and done
// when the stream is (common/dry_gpu/state.h: late or early). Whoever forgets a wait reads old numbers, as on a GPU.
//
// Preloaded behind the stand-ins.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <set>

#include "common/dry_gpu/arithmetic/cuda_only.h"
#include "common/dry_gpu/arithmetic/draws.h"
#include "common/dry_gpu/arithmetic/uses.h"
#include "common/dry_gpu/below_autograd.h"
#include "common/dry_gpu/races.h"
#include "common/dry_gpu/views.h"

namespace tenfold::dry {
namespace {

/// While a work runs: nothing of it is differentiated, cast, computed once more, or shown to a mode of Python's, which
/// may be on where the host waits.
struct OnlyTheCpu {
  c10::impl::ExcludeDispatchKeyGuard not_here{kFallsBack};
  c10::impl::ExcludeDispatchKeyGuard not_autograd{c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  c10::impl::ExcludeDispatchKeyGuard not_autocast{c10::autocast_dispatch_keyset};
  c10::impl::ExcludeDispatchKeyGuard not_python{c10::python_ks};
};

// --- an operator
// --------------------------------------------------------------------------------------------------------

/// For the CPU's operator: the card's generators are none of its own, see Seed.
Values for_the_cpu(const Values& arguments) {
  Values views;
  for (const c10::IValue& argument : arguments) {
    const bool of_the_card = argument.isGenerator() && argument.toGenerator().defined() &&
                             argument.toGenerator().device().type() == c10::kCUDA;
    views.push_back(of_the_card ? c10::IValue() : cpu_view(argument));
  }
  return views;
}

/// On the CPU, now; `made` are results that LibTorch has prepared. Throws what the operator throws.
Values computed(const c10::OperatorHandle& op, const Values& arguments, const Values& made, const Seed& seed) {
  const std::optional<int> takes = op.schema().argumentIndexWithName("generator");
  const Drawing drawing(takes ? Seed() : seed);
  const OnCpu* own = on_cpu(op.schema().name() + "." + op.schema().overload_name());
  if (own == nullptr) own = on_cpu(op.schema().name());
  if (own != nullptr) return (*own)(arguments, made);
  torch::jit::Stack stack = arguments;
  if (takes && seed.draws) stack[static_cast<size_t>(*takes)] = at::detail::createCPUGenerator(seed.seed);
  op.callBoxed(&stack);
  return stack;
}

void say_without_arithmetic(const std::string& name, const std::string& why) {
  const std::lock_guard guard(state().lock);
  if (state().counts.without_arithmetic.insert(name).second)
    std::fprintf(stderr, "tenfold: dry GPU: %s has no arithmetic: %s\n", name.c_str(),
                 why.substr(0, why.find('\n')).c_str());
}

/// Sparse tensors have none: what they are made of is seen by nobody here.
bool without_storage(const Values& values) {
  for (const c10::IValue& value : values) {
    for (const at::Tensor& tensor : tensors_of(value)) {
      if (tensor.defined() && tensor.is_cuda() && !tensor.has_storage()) return true;
    }
  }
  return false;
}

bool writes(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  });
}

/// Whether the results are parts of the arguments: of that the storage is asked and not the schema, which promises
/// views that are copies where nothing is differentiated.
bool only_views(const Values& arguments, const Values& results) {
  std::set<const void*> storages;
  for (const c10::IValue& argument : arguments) {
    for (const at::Tensor& tensor : tensors_of(argument)) {
      if (tensor.defined() && tensor.has_storage()) storages.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  bool any = false;
  for (const c10::IValue& result : results) {
    for (const at::Tensor& tensor : tensors_of(result)) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      if (!storages.contains(tensor.storage().unsafeGetStorageImpl())) return false;
      any = true;
    }
  }
  return any;
}

/// The current stream of a card, which need not be the program's current one.
Stream& stream_on(c10::Device card) {
  const c10::cuda::CUDAGuard guard(card);
  return *stream_of(c10::cuda::getCurrentCUDAStream().stream());
}

/// Hands the work over to the stream, or does it at once where the host must have its result.
void keep(Stream& stream, Work work, bool host_waits, std::vector<Access> accesses = {}) {
  Item item{.kind = "arithmetic", .work = std::move(work), .accesses = std::move(accesses)};
  if (!item.accesses.empty()) item.user = user_here("an operator");
  hand_over(stream, std::move(item));
  if (host_waits && stream.capture == nullptr) synchronize(stream);
}

/// As LibTorch's copy between two cards ends: on the source's stream, for which the other card's then waits.
void let_wait(Stream& waiting, Stream& on) {
  if (waiting.capture != nullptr || on.capture != nullptr) return;
  const std::shared_ptr<Recording> recording = record(on);
  if (follows_order()) {
    const std::lock_guard guard(state().lock);
    note_wait(waiting, *recording, 0);
  }
  hand_over(waiting, {.kind = "wait", .waits = recording});
}

/// New memory is no number: not zero by chance, and not what was right before.
void poison(const Values& results) {
  for (const c10::IValue& result : results) {
    for (const at::Tensor& tensor : tensors_of(result)) {
      if (!tensor.defined() || !tensor.is_cuda() || tensor.storage().nbytes() == 0) continue;
      void* const bytes = const_cast<void*>(tensor.storage().data());
      const size_t count = tensor.storage().nbytes();
      keep(stream_on(tensor.device()), [=] { std::memset(bytes, 0xFF, count); }, false);
    }
  }
}

bool holds_tensors(const c10::Type& type) {
  return type.kind() == c10::TypeKind::TensorType ||
         std::ranges::any_of(type.containedTypes(), [](const c10::TypePtr& part) { return holds_tensors(*part); });
}

/// What a CUDA kernel would have to tell the host before the operator can go on: sizes and answers that depend on
/// values.
bool depends_on_values(const c10::FunctionSchema& schema) {
  static const auto& names = *new std::set<std::string>{
      "aten::nonzero",           "aten::masked_select",      "aten::_unique",  "aten::_unique2",
      "aten::unique_dim",        "aten::unique_consecutive", "aten::bincount", "aten::histc",
      "aten::repeat_interleave", "aten::multinomial",        "aten::randperm"};
  if (writes(schema)) return false;
  // An answer that is no tensor, as of equal(), was computed from values.
  const bool answers =
      !schema.returns().empty() &&
      std::ranges::none_of(schema.returns(), [](const c10::Argument& result) { return holds_tensors(*result.type()); });
  return answers || names.contains(schema.name());
}

/// Memory and nothing in it, or no memory at all.
const std::set<std::string>& computes_nothing() {
  static const auto& names =
      *new std::set<std::string>{"aten::set_",         "aten::record_stream", "aten::resize_",
                                 "aten::is_pinned",    "aten::_pin_memory",   "aten::_has_compatible_shallow_copy_type",
                                 "aten::is_same_size", "aten::is_set_to",     "aten::_fused_sdp_choice"};
  return names;
}

/// Which of a GPU's libraries LibTorch is to use: the CPU has no such operator.
bool asks_for_library(const std::string& name) { return name.starts_with("aten::_use_"); }

void put(torch::jit::Stack* stack, size_t arguments, const Values& results) {
  stack->resize(stack->size() - arguments);
  stack->insert(stack->end(), results.begin(), results.end());
}

/// The CPU's operator first, whose results then get memory on the card.
void compute_first(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Values& arguments, Seed seed,
                   c10::Device device) {
  const c10::cuda::CUDAGuard on_its_card(device);
  Stream& stream = stream_on(device);
  hand_over(stream,
            {.kind = "arithmetic", .accesses = uses_of(op.schema(), arguments, {}), .user = user_here("an operator")});
  // As LibTorch does to have the answer; while a graph is captured it fails, as on a GPU.
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
  Values results;
  {
    const OnlyTheCpu guard;
    results = computed(op, for_the_cpu(arguments), {}, seed);
  }
  seed.move_on();
  for (c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined()) continue;
    const at::Tensor cpu = result.toTensor();
    const at::Tensor card = at::empty_strided(cpu.sizes(), cpu.strides(), cpu.options().device(device));
    keep(stream,
         [cpu, view = cpu_view(card)]() mutable {
           const OnlyTheCpu guard;
           view.copy_(cpu);
         },
         false, {{bytes_of(card), true}});
    result = card;
  }
  put(stack, arguments.size(), results);
}

c10::Device card_of(const Values& arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isDevice() && argument.toDevice().is_cuda()) return argument.toDevice();
    for (const at::Tensor& tensor : tensors_of(argument)) {
      if (tensor.defined() && tensor.is_cuda()) return tensor.device();
    }
  }
  return {c10::kCUDA, 0};
}

/// A mask as an index is as long as it has ones, which a CUDA kernel would have to count.
bool masks_to_indices(const std::string& name, torch::jit::Stack* stack, size_t count) {
  if (name != "aten::index" && name != "aten::index_put_" && name != "aten::_index_put_impl_" &&
      name != "aten::index_put")
    return false;
  c10::IValue& indices = (*stack)[stack->size() - count + 1];
  bool any = false;
  c10::List<std::optional<at::Tensor>> list;
  for (const std::optional<at::Tensor>& index : indices.toOptionalTensorVector()) {
    const bool mask = index && index->defined() && index->is_cuda() &&
                      (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
    if (!mask) {
      list.push_back(index);
      continue;
    }
    any = true;
    // nonzero() comes by here again, and is computed first.
    for (const at::Tensor& place : index->nonzero().unbind(1)) list.push_back(place);
  }
  if (any) indices = list;
  return any;
}

/// A value that is not on the card is read at the call, as a kernel's argument is; pinned memory when its copy runs.
Values frozen(const std::string& name, const Values& arguments) {
  Values views = for_the_cpu(arguments);
  for (size_t i = 0; i < views.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined() || !arguments[i].toTensor().is_cpu()) continue;
    const at::Tensor tensor = arguments[i].toTensor();
    const bool written = name == "aten::copy_" && i == 0;
    if (!written && !is_pinned(tensor.const_data_ptr())) views[i] = tensor.clone();
  }
  return views;
}

/// Whether the host goes on only when it has the result.
bool host_waits(const Values& results) {
  for (const c10::IValue& result : results) {
    for (const at::Tensor& tensor : tensors_of(result)) {
      if (tensor.defined() && tensor.is_cpu() && !is_pinned(tensor.const_data_ptr())) return true;
    }
  }
  return false;
}

}  // namespace

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  const size_t count = schema.arguments().size();
  const Values before(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  // What others have written in LibTorch's operators may write to its arguments without saying so, as FSDP's gathering
  // does: those operators are computed as they come by. Where it does say so, the CPU's computes it whole.
  const bool in_others = !name.starts_with("aten::") && !writes(schema);
  const auto as_a_gpu_does = [&] { in_others ? run_in_others(op, keys, stack) : run_as_it_is(op, keys, stack); };
  if (std::ranges::none_of(before, on_card)) {
    as_a_gpu_does();
    const Values results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
    if (!computes_nothing().contains(name) && (writes(schema) || !only_views(before, results)))
      check_pinned(schema, before);
    return;
  }
  static const bool followed = (at::globalContext().lazyInitDevice(c10::kCUDA), follow_allocator(), true);
  (void)followed;
  const Answering answering;  // what is launched from here on is answered for
  if (name == "aten::record_stream" && leaves_out_call("record_stream", /*is_operator=*/true).now)
    return put(stack, count, {});
  if (in_python()) name_races();
  const Using as_user(user_of(name));
  // NCCL's stand-in computes, and what c10d puts together before and after it comes by.
  if (name.starts_with("c10d::")) return run_in_others(op, keys, stack);
  if (name == "aten::_local_scalar_dense" || computes_nothing().contains(name) || asks_for_library(name) ||
      op.hasTag(at::Tag::inplace_view))
    return as_a_gpu_does();
  constexpr auto kSparse = "it takes or makes a sparse tensor";
  if (without_storage(before)) {
    as_a_gpu_does();
    return say_without_arithmetic(name, kSparse);
  }
  // A copy between two cards is the source's work.
  const c10::Device card = card_of(name == "aten::copy_" && on_card(before[1]) ? Values{before[1]} : before);
  // A graph's kernels take seed and offset from the card, where each replay moves them on.
  if (draws(op, before) && stream_on(card).capture != nullptr) {
    as_a_gpu_does();
    return say_without_arithmetic(name, "it draws in a graph");
  }
  const Seed seed = Seed::of(op, before, card);
  if (depends_on_values(schema)) return compute_first(op, stack, before, seed, card);
  masks_to_indices(name, stack, count);
  const Values arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  // Before it runs: it may give memory back whose numbers are still to be read.
  Values views;
  {
    const OnlyTheCpu guard;
    views = frozen(name, arguments);
  }
  as_a_gpu_does();
  // What it writes to may have been made larger meanwhile: out=.
  for (size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && on_card(arguments[i])) views[i] = cpu_view(arguments[i]);
  }
  const Values results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
  if (without_storage(results)) return say_without_arithmetic(name, kSparse);
  if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) return poison(results);
  if (!writes(schema) && only_views(arguments, results)) return;
  Values result_views;
  {
    const OnlyTheCpu guard;
    for (const c10::IValue& result : results) result_views.push_back(cpu_view(result));
  }
  Stream& on = stream_on(card);
  keep(
      on,
      [op, name, views = std::move(views), results = std::move(result_views), seed] {
        const OnlyTheCpu guard;
        try {
          if (!write_results(computed(op, views, results, seed), results))
            say_without_arithmetic(name, "the CPU's operator has results of other shapes");
        } catch (const std::exception& error) {
          say_without_arithmetic(name, error.what());
        }
      },
      // Of an attention the host has made what it hands back, see cuda_only.cpp.
      host_waits(results) && on_cpu(name) == nullptr, uses_of(schema, arguments, results));
  for (const c10::IValue& result : results) {
    for (const at::Tensor& tensor : tensors_of(result)) {
      if (tensor.is_cuda() && tensor.device().index() != on.device) let_wait(stream_on(tensor.device()), on);
    }
  }
}

}  // namespace tenfold::dry
