#pragma once
// What variants ask of c10d, counted by the harness: groups that hand everything on to Gloo or NCCL and count calls and
// payload by collective. What then crosses a wire is the backend's business; docs/method.md names the ring's formula.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/ranks/mesh.h"

namespace tenfold {

struct Requests {
  int64_t calls = 0;
  int64_t bytes = 0;  ///< payload of all calls
};

/// Requests by collective. The payload is that of the whole collective, as nccl-tests count it:
///   all_reduce, broadcast, reduce   the tensor
///   all_gather, gather              the tensors of all ranks together: the output of all_gather
///   reduce_scatter, scatter         the parts of all ranks together: the input of reduce_scatter
///   all_to_all                      what this rank gives to all
///   send                            the tensor; receiving is not counted
///   barrier                         none
/// A coalesced call counts once. Thread-safe: hooks of backward() may run on threads of autograd's own.
class RequestCounter {
 public:
  void add(const std::string& collective, int64_t bytes);
  /// What was counted since the last take(), by collective; of a group with a name of its own "all_reduce over tp".
  std::map<std::string, Requests> take();

 private:
  std::mutex mutex_;
  std::map<std::string, Requests> requests_;
};

/// The collectives that are counted, by name.
const std::vector<std::string>& counted_collectives();

/// The same ranks over the same connections: each of the group's backends behind one that counts. Works of the group's
/// backend are returned as they are, so what waits for them, or c10d::Reducer, sees no difference.
c10::intrusive_ptr<c10d::ProcessGroup> counted_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                     std::shared_ptr<RequestCounter> counter,
                                                     const std::string& name = "");

/// The groups that variants get, each made once in a run. All count into one counter. With one rank all are null.
class CountedGroups {
 public:
  explicit CountedGroups(const World& world);

  const c10::intrusive_ptr<c10d::ProcessGroup>& all_ranks() const { return all_ranks_; }
  /// Every rank must ask for the same shapes in the same order. Throws what make_mesh throws.
  const Mesh& mesh(const MeshShape& shape);
  /// Forgets what was counted so far.
  void restart() { counter_->take(); }
  /// What was counted since, of the rank that asked for most; every rank must call it, with its case's mesh.
  std::map<std::string, Requests> most_requests(const Mesh& mesh);

 private:
  const World& world_;
  std::shared_ptr<RequestCounter> counter_ = std::make_shared<RequestCounter>();
  c10::intrusive_ptr<c10d::ProcessGroup> all_ranks_;
  std::map<MeshShape, Mesh> meshes_;
};

}  // namespace tenfold
