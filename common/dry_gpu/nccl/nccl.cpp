// NCCL: communicators, groups and calls. What LibTorch asks for beyond these says that it is not stood in for.

#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>

#include "common/dry_gpu/nccl/communicator.h"
#include "common/dry_gpu/nccl/reduction.h"
#include "common/dry_gpu/races.h"

struct ncclComm {
  std::shared_ptr<tenfold::dry::Communicator> communicator;
};

namespace tenfold::dry {
namespace {

using Shared = std::shared_ptr<Communicator>;

/// What a thread has called since its outermost ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<std::pair<Shared, Call>> calls;
  std::vector<Shared> made;  ///< that are not connected yet
};
thread_local Group group;

ncclResult_t wrong(ncclResult_t error, const std::string& text) {
  set_last_error(text);
  std::fprintf(stderr, "tenfold: dry GPU: NCCL: %s\n", text.c_str());
  return error;
}

const char* kernel_of(Collective kind) {
  switch (kind) {
    case Collective::all_reduce:
      return "ncclDevKernel_AllReduce";
    case Collective::broadcast:
      return "ncclDevKernel_Broadcast";
    case Collective::reduce:
      return "ncclDevKernel_Reduce";
    case Collective::all_gather:
      return "ncclDevKernel_AllGather";
    case Collective::reduce_scatter:
      return "ncclDevKernel_ReduceScatter";
    case Collective::all_to_all:
      return "ncclDevKernel_AlltoAll";
    default:
      return "ncclDevKernel_SendRecv";
  }
}

/// What a call reads and writes on its own card.
std::vector<Access> accesses_of(const Call& call, int size, int rank) {
  const size_t bytes = call.count * bytes_of(call.type), all = bytes * static_cast<size_t>(size);
  const bool gives_all = call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all;
  const bool gets_all = call.kind == Collective::all_gather || call.kind == Collective::all_to_all;
  const bool gives = call.kind == Collective::broadcast ? rank == call.root : call.kind != Collective::receive;
  const bool gets = call.kind == Collective::reduce ? rank == call.root : call.kind != Collective::send;
  std::vector<Access> accesses;
  const auto add = [&](const void* address, size_t count, bool writes) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (count > 0) accesses.push_back({{.begin = begin, .end = begin + count}, writes});
  };
  if (gives) add(call.send, gives_all ? all : bytes, false);
  if (gets) add(call.receive, gets_all ? all : bytes, true);
  return accesses;
}

ncclResult_t checked(const Shared& communicator, const Call& call) {
  if (const ncclResult_t error = communicator->check(call); error != ncclSuccess) return error;
  Stream* const stream = stream_of(call.stream);
  if (stream == nullptr) return ncclInvalidArgument;
  if (stream->capture != nullptr) return wrong(ncclInvalidUsage, "a collective in a graph is not stood in for");
  if (state().order != Order::at_once && !has_arithmetic(call.type))
    return wrong(ncclInvalidUsage, std::string("nothing is computed with ") + name_of(call.type));
  return ncclSuccess;
}

/// All calls of a group: first each tells and sends, so that no rank waits for itself, then each stream gets one
/// kernel, which ends with the last of its calls.
ncclResult_t run(const std::vector<std::pair<Shared, Call>>& calls) {
  struct Launch {
    Stream* stream;
    const char* kernel;
    cudaStream_t handle;
    std::vector<Begun> begun;
    std::vector<Access> accesses;
  };
  std::vector<Launch> launches;
  const Answering answering;
  for (const auto& [communicator, call] : calls) {
    if (const ncclResult_t error = checked(communicator, call); error != ncclSuccess) return error;
    Stream* const stream = stream_of(call.stream);
    if (state().order != Order::at_once) run_all(*stream);
    Begun begun = communicator->begin(call);
    auto launch = std::ranges::find(launches, stream, &Launch::stream);
    if (launch == launches.end()) {
      launches.push_back({stream, kernel_of(call.kind), call.stream, {}, {}});
      launch = launches.end() - 1;
    }
    launch->begun.push_back(std::move(begun));
    if (!follows_order()) continue;
    for (const Access& access : accesses_of(call, communicator->size(), communicator->rank()))
      launch->accesses.push_back(access);
  }
  for (Launch& launch : launches) {
    double end = 0, seconds = 0;
    std::vector<Work> works;
    for (Begun& begun : launch.begun) {
      if (begun.end) end = std::max(end, begun.end());
      seconds = std::max(seconds, begun.seconds);
      if (begun.work) works.push_back(std::move(begun.work));
    }
    Work all = [works = std::move(works)] {
      for (const Work& work : works) work();
    };
    const Pricing its_own;
    if (launched(launch.kernel, launch.handle, std::move(launch.accesses), std::move(all)) != cudaSuccess)
      return ncclUnhandledCudaError;
    const std::lock_guard guard(state().lock);
    if (state().time != nullptr) state().time->end_at(*launch.stream, end, seconds);
  }
  return ncclSuccess;
}

/// A call now, or with its group.
ncclResult_t call(ncclComm_t comm, Collective kind, const void* send, void* receive, size_t count, ncclDataType_t type,
                  cudaStream_t stream, int root = 0, ncclRedOp_t operation = ncclSum) {
  if (comm == nullptr) return ncclInvalidArgument;
  std::vector<std::pair<Shared, Call>> alone;
  auto& calls = group.depth > 0 ? group.calls : alone;
  calls.emplace_back(comm->communicator, Call{kind, send, receive, count, type, operation, root, stream});
  return group.depth > 0 ? ncclSuccess : run(calls);
}

ncclResult_t make(ncclComm_t* handle, const std::string& name, int size, int rank, int device) {
  if (handle == nullptr || size < 1 || rank < 0 || rank >= size)
    return wrong(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size));
  announce();
  try {
    auto communicator = std::make_shared<Communicator>(name, rank, size, device);
    if (group.depth > 0) {
      group.made.push_back(communicator);
    } else if (const ncclResult_t error = communicator->wait_for_all(); error != ncclSuccess) {
      return error;
    }
    *handle = new ncclComm{std::move(communicator)};
    return ncclSuccess;
  } catch (const std::runtime_error& error) {
    return wrong(ncclSystemError, error.what());
  }
}

std::string name_of(const ncclUniqueId& id) {
  return {id.internal, std::find(id.internal, id.internal + sizeof id.internal, '\0')};
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t error) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return error >= ncclSuccess && error < ncclNumResults ? kTexts[error] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  static thread_local std::string text;  // valid until this thread's next call
  text = get_last_error();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%08x%08x", random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return make(comm, name_of(id), size, rank, current_device());
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, size, id, rank);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int ids, ncclUniqueId* id, ncclConfig_t*) {
  return ids < 1 ? ncclInvalidArgument : ncclCommInitRank(comm, size, id[0], rank);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int size, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclGroupStart();
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < size && result == ncclSuccess; ++rank)
    result = make(&comms[rank], name_of(id), size, rank, devices == nullptr ? rank : devices[rank]);
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (comm == nullptr || made == nullptr) return ncclInvalidArgument;
  Shared part;
  const ncclResult_t result = comm->communicator->split(color, key, part);
  *made = part == nullptr || result != ncclSuccess ? nullptr : new ncclComm{std::move(part)};
  return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm == nullptr ? ncclInvalidArgument : ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->communicator->leave();
  delete comm;
  return ncclSuccess;
}

// Another thread may still wait in the communicator, which what it was handed keeps.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->communicator->abort();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = comm->communicator->error();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr) return ncclInvalidArgument;
  *count = comm->communicator->size();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (comm == nullptr) return ncclInvalidArgument;
  *device = comm->communicator->device();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (comm == nullptr) return ncclInvalidArgument;
  *rank = comm->communicator->rank();
  return ncclSuccess;
}

// Memory that a card would map for others: nothing moves otherwise here.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t, void** handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  return allocate(address, bytes, current_device()) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* address) {
  return address == nullptr || release(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t comm) {
  if (comm == nullptr || operation == nullptr || scalar == nullptr) return ncclInvalidArgument;
  if (!has_arithmetic(type)) return ncclInvalidArgument;
  // Memory of a card is read here, too: what it holds may be late, as all that nobody has waited for.
  *operation = comm->communicator->add_scaled_sum(number_at(scalar, type));
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t comm) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, Collective::all_reduce, send, receive, count, type, stream, /*root=*/0, operation);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, Collective::broadcast, send, receive, count, type, stream, root);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, Collective::reduce, send, receive, count, type, stream, root, operation);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, Collective::all_gather, send, receive, count, type, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, Collective::reduce_scatter, send, receive, count, type, stream, /*root=*/0, operation);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return call(comm, Collective::all_to_all, send, receive, count, type, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, Collective::send, send, /*receive=*/nullptr, count, type, stream, peer);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, Collective::receive, /*send=*/nullptr, receive, count, type, stream, peer);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return wrong(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  const auto made = std::exchange(group.made, {});
  const auto calls = std::exchange(group.calls, {});
  for (const Shared& communicator : made) {
    if (const ncclResult_t error = communicator->wait_for_all(); error != ncclSuccess) return error;
  }
  return calls.empty() ? ncclSuccess : run(calls);
}
}

}  // namespace tenfold::dry
