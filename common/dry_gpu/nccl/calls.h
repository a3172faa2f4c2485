#pragma once
// The calls of NCCL that a communicator takes, in its own terms.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/dry_gpu/nccl/peers.h"
#include "common/dry_gpu/rates.h"

namespace tenfold::dry {

enum class Collective : int32_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,
  receive,
  split
};

/// A call as NCCL's interface has it.
struct Call {
  Collective kind = Collective::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  ///< elements, as this call counts them
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t operation = ncclSum;
  int root = 0;  ///< or the other rank of a send or receive
  cudaStream_t stream = nullptr;
};

/// Whether bytes are moved. Without arithmetic only a few are, since programs agree that way: DistributedDataParallel
/// compares the number of parameters and their shapes, and lengths are sent before texts.
bool moves(const Call& call);
/// Of arithmetic on the way.
bool reduces(Collective kind);
/// As PyTorch spells it.
const char* call_name(Collective kind);
/// "all_reduce of 1024 float32 (sum)"
std::string words_for(const Header& header);
/// What other ranks hear of a call. Its number, bytes and time are the caller's.
Header header_of(const Call& call, Channel channel);
/// Bytes of the whole collective, as nccl-tests counts them.
int64_t bytes_of_all(const Call& call, int size);
/// How long a ring of so many cards takes: of S bytes each sends and receives (N-1)/N, and twice that where sums go
/// around, too (docs/method.md, "Bytes asked for"); a send or a broadcast passes all of them on.
double ring_seconds(const Call& call, int size, const Rates& rates);

}  // namespace tenfold::dry
