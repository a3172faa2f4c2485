#include "common/dry_gpu/nccl/calls.h"

#include <algorithm>

#include "common/dry_gpu/nccl/reduction.h"
#include "common/dry_gpu/state.h"

namespace tenfold::dry {

bool moves(const Call& call) {
  constexpr size_t kFew = 4096;
  return state().order != Order::at_once || (call.count * bytes_of(call.type) <= kFew && has_arithmetic(call.type));
}

const char* call_name(Collective kind) {
  constexpr const char* kNames[] = {"all_reduce", "broadcast", "reduce",  "all_gather", "reduce_scatter",
                                    "all_to_all", "send",      "receive", "split"};
  return kNames[static_cast<int32_t>(kind)];
}

bool reduces(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::reduce_scatter;
}

std::string words_for(const Header& header) {
  const auto kind = static_cast<Collective>(header.call);
  std::string text = call_name(kind);
  if (kind == Collective::split) return text;
  text += " of " + std::to_string(header.count) + " " + name_of(static_cast<ncclDataType_t>(header.type));
  if (reduces(kind)) text += " (" + std::string(name_of(static_cast<ncclRedOp_t>(header.operation))) + ")";
  if (kind == Collective::broadcast || kind == Collective::reduce) text += " with root " + std::to_string(header.root);
  return text;
}

Header header_of(const Call& call, Channel channel) {
  // Ranks number the operations that they have made each for itself.
  const auto operation =
      reduces(call.kind) ? std::min(static_cast<int>(call.operation), static_cast<int>(ncclNumOps)) : 0;
  const bool rooted = call.kind == Collective::broadcast || call.kind == Collective::reduce;
  return {.channel = channel,
          .call = static_cast<int32_t>(call.kind),
          .type = static_cast<int32_t>(call.type),
          .operation = operation,
          .root = rooted ? call.root : 0,
          .count = call.count};
}

int64_t bytes_of_all(const Call& call, int size) {
  const bool parts_of_all = call.kind == Collective::all_gather || call.kind == Collective::reduce_scatter ||
                            call.kind == Collective::all_to_all;
  return static_cast<int64_t>(call.count * bytes_of(call.type)) * (parts_of_all ? size : 1);
}

double ring_seconds(const Call& call, int size, const Rates& rates) {
  if (size == 1) return 0;
  const double part = static_cast<double>(size - 1) / size;
  auto sent = static_cast<double>(bytes_of_all(call, size));
  if (call.kind == Collective::all_reduce) sent *= 2 * part;
  if (call.kind == Collective::all_gather || call.kind == Collective::reduce_scatter ||
      call.kind == Collective::all_to_all)
    sent *= part;
  return rates.peer_latency + sent / rates.peer_bytes_per_s;
}

}  // namespace tenfold::dry
