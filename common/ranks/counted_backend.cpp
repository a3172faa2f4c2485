#include "common/ranks/counted_backend.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <utility>

#include "common/ranks/process_group.h"

namespace tenfold {
namespace {

using c10::intrusive_ptr;
using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  if (tensor.is_sparse()) return bytes_of(tensor._indices()) + bytes_of(tensor._values());
  return static_cast<int64_t>(tensor.nbytes());
}

int64_t bytes_of(const Tensors& tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += bytes_of(tensor);
  return sum;
}

/// Hands everything on; a method that c10d::Backend gains must be added here, or it reads as "not supported".
class CountedBackend final : public c10d::Backend {
 public:
  CountedBackend(intrusive_ptr<c10d::Backend> backend, std::shared_ptr<RequestCounter> counter, std::string name)
      : Backend(backend->getRank(), backend->getSize()),
        backend_(std::move(backend)),
        counter_(std::move(counter)),
        name_(std::move(name)) {}

  // --- collectives, counted ---
  intrusive_ptr<Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    count("broadcast", bytes_of(tensors));
    return backend_->broadcast(tensors, options);
  }
  intrusive_ptr<Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    count("all_reduce", bytes_of(tensors));
    return backend_->allreduce(tensors, options);
  }
  intrusive_ptr<Work> allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    count("all_reduce", bytes_of(tensors));
    return backend_->allreduce_sparse(tensors, options);
  }
  intrusive_ptr<Work> allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    count("all_reduce", bytes_of(tensors));
    return backend_->allreduce_coalesced(tensors, options);
  }
  intrusive_ptr<Work> reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    count("reduce", bytes_of(tensors));
    return backend_->reduce(tensors, options);
  }
  intrusive_ptr<Work> allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    count("all_gather", of_all_ranks(inputs));
    return backend_->allgather(outputs, inputs, options);
  }
  intrusive_ptr<Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::AllgatherOptions& options) override {
    count("all_gather", of_all_ranks({input}));
    return backend_->_allgather_base(output, input, options);
  }
  intrusive_ptr<Work> allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    count("all_gather", of_all_ranks(inputs));
    return backend_->allgather_coalesced(outputs, inputs, options);
  }
  intrusive_ptr<Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) override {
    count("all_gather", of_all_ranks(inputs));
    return backend_->allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  intrusive_ptr<Work> gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    count("gather", of_all_ranks(inputs));
    return backend_->gather(outputs, inputs, options);
  }
  intrusive_ptr<Work> scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override {
    count("scatter", of_all_ranks(outputs));
    return backend_->scatter(outputs, inputs, options);
  }
  intrusive_ptr<Work> reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                     const c10d::ReduceScatterOptions& options) override {
    count("reduce_scatter", of_all_ranks(outputs));
    return backend_->reduce_scatter(outputs, inputs, options);
  }
  intrusive_ptr<Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& options) override {
    count("reduce_scatter", of_all_ranks({output}));
    return backend_->_reduce_scatter_base(output, input, options);
  }
  intrusive_ptr<Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& options) override {
    count("reduce_scatter", of_all_ranks(outputs));
    return backend_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  intrusive_ptr<Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                                    std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    count("all_to_all", bytes_of(input));
    return backend_->alltoall_base(output, input, output_sizes, input_sizes, options);
  }
  intrusive_ptr<Work> alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    count("all_to_all", bytes_of(inputs));
    return backend_->alltoall(outputs, inputs, options);
  }
  intrusive_ptr<Work> send(Tensors& tensors, int to, int tag) override {
    count("send", bytes_of(tensors));
    return backend_->send(tensors, to, tag);
  }
  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& options) override {
    count("barrier", 0);
    return backend_->barrier(options);
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override {
    count("barrier", 0);
    backend_->monitoredBarrier(options, wait_for_all);
  }

  // --- handed on ---
  intrusive_ptr<Work> recv(Tensors& tensors, int from, int tag) override { return backend_->recv(tensors, from, tag); }
  intrusive_ptr<Work> recvAnysource(Tensors& tensors, int tag) override {
    return backend_->recvAnysource(tensors, tag);
  }
  bool supportsSplitting() const override { return backend_->supportsSplitting(); }
  bool supportsCoalescing() const override { return backend_->supportsCoalescing(); }
  bool supportsTimeEstimation() const override { return backend_->supportsTimeEstimation(); }
  bool supportsShrinking() const override { return backend_->supportsShrinking(); }
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return backend_->supportsTensorAlloc(device); }
  void startCoalescing() override { backend_->startCoalescing(); }
  intrusive_ptr<Work> endCoalescing() override { return backend_->endCoalescing(); }
  const std::string getBackendName() const override { return backend_->getBackendName(); }
  intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { backend_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { backend_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return backend_->getSequenceNumberForGroup(); }
  void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override {
    backend_->registerOnCompletionHook(std::move(hook));
  }
  void waitForPendingWorks() override { backend_->waitForPendingWorks(); }
  void enableCollectivesTiming() override { backend_->enableCollectivesTiming(); }
  void setGroupUid(const std::string& uid) override {
    Backend::setGroupUid(uid);
    backend_->setGroupUid(uid);
  }
  void eagerConnectSingleDevice(at::Device device) override { backend_->eagerConnectSingleDevice(device); }
  c10d::ErrorType getError() override { return backend_->getError(); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return backend_->getMemAllocator(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return backend_->allocateTensor(size, options);
  }
  void abort() override { backend_->abort(); }
  void shutdown() override { backend_->shutdown(); }

  // A group made from this one counts as well.
  intrusive_ptr<Backend> split(const intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                               const intrusive_ptr<Options>& options) override {
    return counted(backend_->split(store, ranks, options));
  }
  intrusive_ptr<Backend> merge(const intrusive_ptr<c10d::Store>& store, const intrusive_ptr<Options>& options,
                               const int& rank, const int& size) override {
    return counted(backend_->merge(store, options, rank, size));
  }
  intrusive_ptr<Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                                const intrusive_ptr<Options>& options) override {
    return counted(backend_->shrink(excluded, flags, options));
  }

 private:
  void count(const char* collective, int64_t bytes) {
    counter_->add(name_.empty() ? collective : collective + (" over " + name_), bytes);
  }
  int64_t of_all_ranks(const Tensors& parts) const { return bytes_of(parts) * getSize(); }
  intrusive_ptr<Backend> counted(intrusive_ptr<Backend> backend) const {
    if (!backend) return backend;
    return c10::make_intrusive<CountedBackend>(std::move(backend), counter_, name_);
  }

  intrusive_ptr<Backend> backend_;
  std::shared_ptr<RequestCounter> counter_;
  std::string name_;
};

}  // namespace

void RequestCounter::add(const std::string& collective, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Requests& of = requests_[collective];
  ++of.calls;
  of.bytes += bytes;
}

std::map<std::string, Requests> RequestCounter::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(requests_, {});
}

const std::vector<std::string>& counted_collectives() {
  static const std::vector<std::string> kNames = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                                  "gather",     "scatter",    "all_to_all",     "send",      "barrier"};
  return kNames;
}

intrusive_ptr<c10d::ProcessGroup> counted_group(const intrusive_ptr<c10d::ProcessGroup>& group,
                                                std::shared_ptr<RequestCounter> counter, const std::string& name) {
  using Type = c10d::ProcessGroup::BackendType;
  auto counted = c10::make_intrusive<c10d::ProcessGroup>(group->getStore(), group->getRank(), group->getSize());
  for (const c10::Device& device : group->getDeviceTypes()) {
    counted->setBackend(device.type(), device.is_cuda() ? Type::NCCL : Type::GLOO,
                        c10::make_intrusive<CountedBackend>(group->getBackend(device.type()), counter, name));
  }
  counted->setDefaultBackend(group->getBackendType());
  return counted;
}

CountedGroups::CountedGroups(const World& world) : world_(world) {
  if (world.group) all_ranks_ = counted_group(world.group, counter_);
}

const Mesh& CountedGroups::mesh(const MeshShape& shape) {
  const auto known = meshes_.find(shape);
  if (known != meshes_.end()) return known->second;
  const Mesh plain = make_mesh(world_, shape);
  std::vector<Mesh::Dimension> dimensions;
  for (Mesh::Dimension dimension : plain.dimensions()) {
    // Of several dimensions each is counted for itself: their groups differ in size, and so in what a ring sends.
    if (dimension.group)
      dimension.group = counted_group(dimension.group, counter_, shape.size() > 1 ? dimension.name : "");
    dimensions.push_back(std::move(dimension));
  }
  return meshes_.emplace(shape, Mesh(std::move(dimensions))).first->second;
}

std::map<std::string, Requests> CountedGroups::most_requests(const Mesh& mesh) {
  auto mine = counter_->take();
  if (!world_.group) return {};
  // The same names in the same order on every rank: a rank may not have asked for what another did.
  std::vector<std::string> suffixes = {""};
  for (const Mesh::Dimension& dimension : mesh.dimensions()) suffixes.push_back(" over " + dimension.name);
  std::map<std::string, Requests> most;
  for (const std::string& collective : counted_collectives()) {
    for (const std::string& suffix : suffixes) {
      const std::string name = collective + suffix;
      const Requests of = mine[name];
      const Requests largest{static_cast<int64_t>(world_.max(static_cast<double>(of.calls))),
                             static_cast<int64_t>(world_.max(static_cast<double>(of.bytes)))};
      if (largest.calls > 0) most[name] = largest;
    }
  }
  return most;
}

}  // namespace tenfold
