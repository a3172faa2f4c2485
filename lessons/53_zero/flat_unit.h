// installs as <tenfold/flat_unit.h>
#pragma once
// Parameters that lie in one flat tensor, of which each rank has a shard: what all stages of ZeRO are made of.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// Values of a rank's shard. All ranks' shards are of one size, so the last ones may end in zeros that mean nothing. A
/// multiple of 16, so that each begins at a multiple of 32 bytes in 16 bits, too: else kernels that load vectors,
/// NCCL's and a fused optimizer's, go through it in smaller steps.
inline int64_t shard_size(int64_t values, int ranks) {
  const int64_t step = int64_t{16} * ranks;
  return (values + step - 1) / step * 16;
}

/// Where a parameter may begin in a flat tensor that is filled up to `values`: at the next multiple of 16 bytes, since
/// vectorised kernels, fused attention and grouped matmuls want such addresses, and cuBLAS is faster with them.
inline int64_t aligned_begin(int64_t values, int64_t value_bytes) {
  const int64_t step = std::max<int64_t>(1, 16 / value_bytes);
  return (values + step - 1) / step * step;
}

/// Where a unit's next parameter begins: at such an address also where the unit is gathered in 16 bits, so that its
/// layout, and with it a checkpoint, does not depend on that.
inline int64_t begin_in_unit(int64_t values) { return aligned_begin(values, /*value_bytes=*/2); }

/// Values of a unit with parameters of these sizes, with the gaps between them.
inline int64_t flat_values(const std::vector<int64_t>& sizes) {
  int64_t end = 0;
  for (const int64_t size : sizes) end = begin_in_unit(end) + size;
  return end;
}

/// Gives a tensor's memory back; the tensor keeps its shape, and every view of it (autograd saves some) sees the same
/// storage. Nobody may read it before fill_storage(): LibTorch would read from a null pointer.
inline void empty_storage(const torch::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
}

/// Gives a tensor that has a whole storage for itself memory again, with whatever is in it.
inline void fill_storage(const torch::Tensor& tensor) {
  const c10::DeviceGuard guard(tensor.device());
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage->set_nbytes(bytes);
}

using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// Waits, if there is something to wait for.
inline void wait_for(WorkPointer& work) {
  if (!work) return;
  RECORD_USER_SCOPE("communication");
  work->wait();
  work.reset();
}

class FlatUnit {
 public:
  using Named = std::pair<std::string, torch::Tensor>;

  /// Moves the parameters into one flat tensor, with rank 0's values on every rank. `group` is null for one rank.
  /// With `sharded` the rank keeps its shard and the whole is there between gather() and release(); else the shard is a
  /// part of the whole, which stays. Parameters become contiguous: a layout such as channels_last is lost. With
  /// `gathered_as` they are of that type from now on, as is what is gathered; shards and reduced gradients keep theirs.
  /// Throws c10::ValueError unless the parameters have one type and one device and are all trainable, or all frozen,
  /// and for a type to gather in where nothing is gathered.
  FlatUnit(std::string name, const std::vector<Named>& parameters, GroupPointer group, bool sharded,
           std::optional<torch::ScalarType> gathered_as = std::nullopt)
      : name_(std::move(name)), group_(std::move(group)), sharded_(sharded) {
    TORCH_CHECK_VALUE(!parameters.empty(), "unit '", name_, "' has no parameters");
    TORCH_CHECK_VALUE(sharded_ || !gathered_as, "unit '", name_, "' stays whole: it cannot be gathered in a type");
    const torch::Tensor& first = parameters[0].second;
    for (const auto& [of_parameter, parameter] : parameters) {
      TORCH_CHECK_VALUE(parameter.scalar_type() == first.scalar_type() && parameter.device() == first.device() &&
                            parameter.requires_grad() == first.requires_grad(),
                        "parameters ", parameters[0].first, " and ", of_parameter, " of unit '", name_,
                        "' differ in type, device or being frozen: make two units of them");
      const int64_t begin = begin_in_unit(values_);
      members_.push_back({of_parameter, parameter, begin});
      values_ = begin + parameter.numel();
    }
    trainable_ = first.requires_grad();
    const torch::NoGradGuard no_grad;
    whole_ = torch::zeros({shard_size(values_, ranks()) * ranks()}, first.options().requires_grad(false));
    for (Member& member : members_) {
      const torch::Tensor place = part_of(whole_, member);
      place.copy_(member.parameter);
      member.parameter.set_data(place);  // keeps a version of its own: gather() is no change of it
    }
    if (group_) {
      std::vector<torch::Tensor> tensors{whole_};
      group_->broadcast(tensors)->wait();
    }
    shard_ = own_part(whole_);
    if (!sharded_) return;
    shard_ = shard_.clone();
    if (gathered_as) {
      whole_ = torch::empty_like(whole_, whole_.options().dtype(gathered_as));
      for (Member& member : members_) member.parameter.set_data(part_of(whole_, member));
    }
    empty_storage(whole_);
    is_whole_ = false;
  }

  // --- parameters ---

  /// Starts to collect the ranks' shards into the whole parameters, unless they are there.
  void start_gather() {
    if (is_whole_) return;
    fill_storage(whole_);
    is_whole_ = true;
    sent_ = as_gathered(shard_);
    gathering_ = all_gather(whole_, sent_);
  }
  void gather() {
    start_gather();
    finish_gather();
  }
  /// Collects shards that an optimizer has changed into whole parameters that have stayed.
  void gather_again() { all_gather_now(whole_, as_gathered(shard_)); }
  /// Frees the whole parameters; the shards stay.
  void release() {
    if (!is_whole_ || !sharded_) return;
    finish_gather();
    empty_storage(whole_);
    is_whole_ = false;
  }

  // --- gradients ---

  /// Adds a parameter's gradient to the unit's whole gradient, divided by the number of ranks, and frees it. Undefined,
  /// as a Function may leave it, is zero. True: it was the last that was missing.
  bool take_gradient(size_t member) {
    const torch::NoGradGuard no_grad;
    TORCH_CHECK(!taken(member), "parameter ", members_[member].name,
                " got a second gradient in one backward(): each parameter may be used by one recomputed block");
    torch::Tensor& gradient = members_[member].parameter.mutable_grad();
    if (!whole_gradient_.defined()) whole_gradient_ = torch::zeros({whole_.numel()}, shard_.options());
    if (gradient.defined()) part_of(whole_gradient_, members_[member]).add_(gradient, 1.0 / ranks());
    gradient = torch::Tensor();
    members_[member].taken = true;
    if (++number_taken_ < members_.size()) return false;
    forget_taken();
    ++complete_;
    return true;
  }

  /// Starts the sum over the ranks, of which each gets its own shard. With `in_place` the sum becomes a part of the
  /// whole gradient, and that stays; else the whole gradient is freed by finish_reduce().
  void start_reduce(bool in_place) {
    in_place_ = in_place;
    received_ =
        in_place ? own_part(whole_gradient_) : torch::empty({shard_size(values_, ranks())}, whole_gradient_.options());
    reducing_ = reduce_scatter(received_, whole_gradient_);
  }
  /// Leaves the sum in the shard's gradient, added to what earlier micro-batches left there.
  void finish_reduce() {
    const torch::NoGradGuard no_grad;
    wait_for(reducing_);
    if (!in_place_) whole_gradient_ = torch::Tensor();
    if (shard_.grad().defined()) {
      shard_.mutable_grad().add_(received_);
    } else {
      shard_.mutable_grad() = received_;
    }
    received_ = torch::Tensor();
  }
  void zero_grad() {
    shard_.mutable_grad() = torch::Tensor();
    whole_gradient_ = torch::Tensor();
    forget_taken();
    complete_ = 0;
  }

  // --- what is in it ---

  const std::string& name() const { return name_; }
  int64_t values() const { return values_; }  ///< with the gaps between parameters
  /// Where each parameter begins in the flat tensor, and last values(): (size() + 1) int64, on the CPU.
  torch::Tensor layout() const {
    std::vector<int64_t> begins;
    for (const Member& member : members_) begins.push_back(member.begin);
    begins.push_back(values_);
    return torch::tensor(begins, torch::kLong);
  }
  bool trainable() const { return trainable_; }
  bool is_whole() const { return is_whole_; }
  int rank() const { return group_ ? group_->getRank() : 0; }
  int ranks() const { return group_ ? group_->getSize() : 1; }
  const torch::Tensor& shard() const { return shard_; }  ///< (shard_size), for an optimizer; its .grad() too
  const torch::Tensor& parameter(size_t member) const { return members_[member].parameter; }
  size_t size() const { return members_.size(); }
  /// How many backward() since zero_grad() have brought a gradient.
  int64_t backwards() const { return complete_ + (number_taken_ > 0 ? 1 : 0); }
  /// Names of parameters whose gradients are missing after so many: all, where one of them brought none.
  std::string missing(int64_t backwards) const {
    std::string names;
    for (const Member& member : members_) {
      if (complete_ < backwards && !member.taken) names += (names.empty() ? "" : ", ") + member.name;
    }
    return names;
  }

  /// Any tensor of shards, (shard_size) on each rank, as parameters' names with their values; every rank must call it.
  std::vector<Named> whole_of(const torch::Tensor& shard) const {
    const torch::NoGradGuard no_grad;
    const torch::Tensor whole = torch::empty({shard.numel() * ranks()}, shard.options());
    all_gather_now(whole, shard);
    std::vector<Named> named;
    for (const Member& member : members_) named.emplace_back(member.name, part_of(whole, member));
    return named;
  }

 private:
  struct Member {
    std::string name;
    torch::Tensor parameter;
    int64_t begin = 0;   // in the flat tensor
    bool taken = false;  // its gradient, in this backward()
  };

  bool taken(size_t member) const { return members_[member].taken; }
  void forget_taken() {
    for (Member& member : members_) member.taken = false;
    number_taken_ = 0;
  }
  static torch::Tensor part_of(const torch::Tensor& flat, const Member& member) {
    return flat.narrow(0, member.begin, member.parameter.numel()).view(member.parameter.sizes());
  }
  torch::Tensor own_part(const torch::Tensor& flat) const {
    const int64_t size = shard_size(values_, ranks());
    return flat.narrow(0, rank() * size, size);
  }

  /// A shard in the type that is gathered.
  torch::Tensor as_gathered(const torch::Tensor& shard) const {
    const torch::NoGradGuard no_grad;
    return shard.to(whole_.scalar_type());
  }
  void finish_gather() {
    wait_for(gathering_);
    sent_ = torch::Tensor();
  }

  WorkPointer all_gather(torch::Tensor whole, torch::Tensor shard) const {
    if (group_) return group_->_allgather_base(whole, shard);
    if (!whole.is_alias_of(shard)) whole.copy_(shard);
    return {};
  }
  void all_gather_now(const torch::Tensor& whole, const torch::Tensor& shard) const {
    WorkPointer work = all_gather(whole, shard);
    wait_for(work);
  }
  WorkPointer reduce_scatter(torch::Tensor own, torch::Tensor whole) const {
    if (group_) return group_->_reduce_scatter_base(own, whole);
    if (!own.is_alias_of(whole)) own.copy_(whole);
    return {};
  }

  std::string name_;
  GroupPointer group_;
  bool sharded_ = false, trainable_ = false;
  std::vector<Member> members_;
  int64_t values_ = 0, complete_ = 0;
  torch::Tensor whole_, shard_;  // parameters, of two types where they are gathered in one of their own
  torch::Tensor sent_;           // of the shard, while it is gathered
  bool is_whole_ = true;
  torch::Tensor whole_gradient_, received_;
  size_t number_taken_ = 0;
  bool in_place_ = false;
  WorkPointer gathering_, reducing_;
};

}  // namespace tenfold
