#include "common/dry_gpu/nccl/communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/dry_gpu/nccl/reduction.h"

namespace tenfold::dry {
namespace {

GpuId id_of(int device) {
  cudaDeviceProp properties;
  GpuId id = {};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess)
    std::memcpy(id.data(), properties.uuid.bytes, id.size());
  return id;
}

std::mutex last_error_lock;
std::string last_error;

/// What this rank asks for; receiving is not counted.
void count(const Call& call, int size) {
  if (call.kind == Collective::receive) return;
  const std::lock_guard guard(state().lock);
  Collectives& asked = state().counts.collectives[call_name(call.kind)];
  ++asked.calls;
  asked.bytes += bytes_of_all(call, size);
}

/// When the stream comes to what it is handed now; -1 where no time is modelled.
double ready_time(cudaStream_t handle) {
  const std::lock_guard guard(state().lock);
  const Stream* const stream = stream_of(handle);
  if (state().time == nullptr || stream == nullptr) return -1;
  return std::max(state().time->now(), state().time->end_of(*stream));
}

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard guard(last_error_lock);
  last_error = text;
}

std::string get_last_error() {
  const std::lock_guard guard(last_error_lock);
  return last_error;
}

Communicator::Communicator(const std::string& name, int rank, int size, int device)
    : name_(name),
      rank_(rank),
      size_(size),
      device_(device),
      sent_(static_cast<size_t>(size)),
      received_(static_cast<size_t>(size)) {
  const GpuId id = id_of(device);
  // The thread may hear something before peers_ is set: it uses all but that.
  peers_ =
      std::make_unique<Peers>(name, rank, size, id, [this](int other, const Header& header) { heard(other, header); });
}

ncclResult_t Communicator::fail_with(ncclResult_t error, const std::string& text) {
  {
    const std::lock_guard guard(lock_);
    if (error_ != ncclSuccess) return error_;
    error_ = error;
  }
  set_last_error(text);
  std::fprintf(stderr, "tenfold: dry GPU: NCCL, rank %d of %d: %s\n", rank_, size_, text.c_str());
  const std::lock_guard guard(state().lock);
  state().counts.without_arithmetic.insert("NCCL: " + text);
  return error;
}

ncclResult_t Communicator::wait_for_all() {
  try {
    peers_->wait_for_all();
    return ncclSuccess;
  } catch (const Lost& lost) {
    return fail_with(ncclInvalidUsage, lost.what());
  }
}

ncclResult_t Communicator::check(const Call& call) {
  if (error_ != ncclSuccess) return error_;
  if (bytes_of(call.type) == 0 || call.root < 0 || call.root >= size_) return ncclInvalidArgument;
  const auto made = static_cast<size_t>(std::max(0, static_cast<int>(call.operation) - static_cast<int>(ncclNumOps)));
  const std::lock_guard guard(lock_);
  if (reduces(call.kind) && call.operation >= ncclNumOps && made >= factors_.size()) return ncclInvalidArgument;
  return ncclSuccess;
}

ncclRedOp_t Communicator::add_scaled_sum(double factor) {
  const std::lock_guard guard(lock_);
  factors_.push_back(factor);
  return static_cast<ncclRedOp_t>(static_cast<size_t>(ncclNumOps) + factors_.size() - 1);
}

// --- what ranks call ------------------------------------------------------------------------------------------------

void Communicator::compare(int rank, const Header& own, const Header& other) {
  if (own.call == other.call && own.type == other.type && own.operation == other.operation && own.root == other.root &&
      own.count == other.count)
    return;
  const std::string text = "ranks call different collectives: number " + std::to_string(own.number) + " is " +
                           words_for(own) + " on rank " + std::to_string(rank_) + ", and " + words_for(other) +
                           " on rank " + std::to_string(rank);
  fail_with(ncclInvalidUsage, text);
  if (peers_ != nullptr) peers_->give_up(text);
}

void Communicator::heard(int rank, const Header& header) {
  std::unique_lock guard(lock_);
  if (header.channel == Channel::bye) {
    left_[rank] = header.number;
    if (calls_ <= header.number) return;
    guard.unlock();
    const std::string text = "rank " + std::to_string(rank) + " has left after " + std::to_string(header.number) +
                             " collectives, and this rank calls more";
    fail_with(ncclInvalidUsage, text);
    if (peers_ != nullptr) peers_->give_up(text);
    return;
  }
  if (header.channel == Channel::message) {
    const Key key{rank, header.number};
    const auto own = own_receives_.find(key);
    if (own == own_receives_.end()) {
      early_sends_[key] = header;
      return;
    }
    const Header met = own->second;
    own_receives_.erase(own);
    guard.unlock();
    return compare(rank, met, header);
  }
  const auto own = own_calls_.find(header.number);
  if (own == own_calls_.end()) {
    early_[header.number].emplace_back(rank, header);
    return;
  }
  const Header met = own->second.own;
  if (++own->second.others == size_ - 1) own_calls_.erase(own);
  guard.unlock();
  compare(rank, met, header);
}

void Communicator::note_own(const Header& header) {
  std::vector<std::pair<int, Header>> others;
  std::string gone;
  {
    const std::lock_guard guard(lock_);
    if (const auto early = early_.find(header.number); early != early_.end()) {
      others = std::move(early->second);
      early_.erase(early);
    }
    if (static_cast<int>(others.size()) < size_ - 1)
      own_calls_[header.number] = {header, static_cast<int>(others.size())};
    for (const auto& [rank, after] : left_) {
      if (after < header.number)
        gone = "rank " + std::to_string(rank) + " has left after " + std::to_string(after) +
               " collectives, and this rank calls " + words_for(header);
    }
  }
  if (!gone.empty()) {
    fail_with(ncclInvalidUsage, gone);
    peers_->give_up(gone);
  }
  for (const auto& [rank, other] : others) compare(rank, header, other);
}

void Communicator::note_receive(int from, const Header& header) {
  const Key key{from, header.number};
  std::unique_lock guard(lock_);
  const auto early = early_sends_.find(key);
  if (early == early_sends_.end()) {
    own_receives_[key] = header;
    return;
  }
  const Header met = early->second;
  early_sends_.erase(early);
  guard.unlock();
  compare(from, header, met);
}

Message Communicator::take(int peer, const Header& own) {
  return peers_->take(peer, own.channel, own.number, [&] {
    std::fprintf(
        stderr,
        "tenfold: dry GPU: NCCL, rank %d of %d: still waits for rank %d in %s, number %llu; all ranks must call the "
        "same collectives in the same order\n",
        rank_, size_, peer, words_for(own).c_str(), static_cast<unsigned long long>(own.number));
  });
}

// --- what is moved --------------------------------------------------------------------------------------------------

std::vector<char> Communicator::own_part(const Call& call, int peer) const {
  const size_t bytes = call.count * bytes_of(call.type);
  const char* from = static_cast<const char*>(call.send);
  const bool sliced = call.kind == Collective::reduce_scatter || call.kind == Collective::all_to_all;
  if (sliced) from += bytes * static_cast<size_t>(peer);
  if (call.kind == Collective::broadcast && rank_ != call.root) return {};
  if (call.kind == Collective::reduce && peer != call.root) return {};
  std::vector<char> part(from, from + bytes);
  if (reduces(call.kind) && call.operation >= ncclNumOps) {
    const std::lock_guard guard(lock_);
    scale(part.data(), call.count, call.type,
          factors_[static_cast<size_t>(call.operation) - static_cast<size_t>(ncclNumOps)]);
  }
  return part;
}

/// From when on the call is done, which lasts so long once this rank and these are there. What they sent is kept.
std::function<double()> Communicator::end_behind(std::vector<int> peers, const Header& header, double seconds,
                                                 std::shared_ptr<Arrived> arrived) {
  if (header.ready < 0) return nullptr;
  return [self = shared_from_this(), peers = std::move(peers), header, seconds, arrived = std::move(arrived)] {
    double begin = header.ready;
    try {
      for (const int peer : peers) {
        Message message = self->take(peer, header);
        begin = std::max(begin, message.header.ready);
        arrived->insert_or_assign(peer, std::move(message));
      }
    } catch (const Lost& lost) {
      self->fail_with(ncclRemoteError, lost.what());
    }
    return begin + seconds;
  };
}

/// `own`: what this rank hands to itself. `arrived`: what was taken before.
void Communicator::finish(const Call& call, const Header& header, const std::vector<char>& own, Arrived& arrived) {
  const size_t bytes = call.count * bytes_of(call.type);
  auto* const to = static_cast<char*>(call.receive);
  if (bytes == 0) return;
  const auto part_of = [&](int rank) {
    if (rank == rank_) return own;
    const auto taken = arrived.find(rank);
    return taken != arrived.end() ? taken->second.bytes : take(rank, header).bytes;
  };
  switch (call.kind) {
    case Collective::broadcast: {
      const std::vector<char> part = part_of(call.root);
      std::memcpy(to, part.data(), bytes);
      return;
    }
    case Collective::all_gather:
    case Collective::all_to_all:
      for (int rank = 0; rank < size_; ++rank) {
        const std::vector<char> part = part_of(rank);
        std::memcpy(to + bytes * static_cast<size_t>(rank), part.data(), bytes);
      }
      return;
    case Collective::reduce:
      if (rank_ != call.root) return;
      [[fallthrough]];
    default: {
      // In the order of ranks, on every rank: all get the same bits.
      std::vector<char> sum = part_of(0);
      for (int rank = 1; rank < size_; ++rank) {
        const std::vector<char> part = part_of(rank);
        combine(sum.data(), part.data(), call.count, call.type, call.operation);
      }
      if (call.operation == ncclAvg) scale(sum.data(), call.count, call.type, 1.0 / size_);
      std::memcpy(to, sum.data(), bytes);
    }
  }
}

Begun Communicator::begin_message(const Call& call) {
  const auto peer = static_cast<size_t>(call.root);
  const size_t bytes = call.count * bytes_of(call.type);
  Header header = header_of(call, Channel::message);
  header.call = static_cast<int32_t>(Collective::send);  // of both sides
  header.ready = ready_time(call.stream);
  const double seconds = state().time == nullptr ? 0 : ring_seconds(call, size_, state().time->rates());
  if (call.kind == Collective::send) {
    {
      const std::lock_guard guard(lock_);
      header.number = ++sent_[peer];
    }
    header.bytes = moves(call) ? bytes : 0;
    peers_->send(call.root, header, call.send);
    // NCCL has buffers on the way: whoever sends goes on.
    return {.work = nullptr, .end = end_behind({}, header, seconds, nullptr), .seconds = seconds};
  }
  {
    const std::lock_guard guard(lock_);
    header.number = ++received_[peer];
  }
  note_receive(call.root, header);
  const auto arrived = std::make_shared<Arrived>();
  Begun begun{.work = nullptr, .end = end_behind({call.root}, header, seconds, arrived), .seconds = seconds};
  if (!moves(call) || bytes == 0) return begun;
  begun.work = [self = shared_from_this(), call, header, bytes, arrived] {
    try {
      const auto taken = arrived->find(call.root);
      const Message message = taken != arrived->end() ? std::move(taken->second) : self->take(call.root, header);
      if (message.bytes.size() == bytes) std::memcpy(call.receive, message.bytes.data(), bytes);
    } catch (const Lost& lost) {
      self->fail_with(ncclRemoteError, lost.what());
    }
  };
  return begun;
}

Begun Communicator::begin(const Call& call) {
  count(call, size_);
  if (call.kind == Collective::send || call.kind == Collective::receive) return begin_message(call);
  Header header = header_of(call, Channel::collective);
  header.ready = ready_time(call.stream);
  {
    const std::lock_guard guard(lock_);
    header.number = ++calls_;
  }
  note_own(header);
  std::vector<int> others;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    others.push_back(peer);
    const std::vector<char> part = moves(call) ? own_part(call, peer) : std::vector<char>();
    header.bytes = part.size();
    peers_->send(peer, header, part.data());
  }
  const auto arrived = std::make_shared<Arrived>();
  const double seconds = state().time == nullptr ? 0 : ring_seconds(call, size_, state().time->rates());
  Begun begun{.work = nullptr, .end = end_behind(std::move(others), header, seconds, arrived), .seconds = seconds};
  if (!moves(call)) return begun;
  begun.work = [self = shared_from_this(), call, header, own = own_part(call, rank_), arrived] {
    try {
      self->finish(call, header, own, *arrived);
    } catch (const Lost& lost) {
      self->fail_with(ncclRemoteError, lost.what());
    }
  };
  return begun;
}

ncclResult_t Communicator::split(int color, int key, std::shared_ptr<Communicator>& made) {
  struct Choice {
    int color, key, rank;
  };
  const Choice own{color, key, rank_};
  Header header{.channel = Channel::collective, .call = static_cast<int32_t>(Collective::split), .bytes = sizeof own};
  {
    const std::lock_guard guard(lock_);
    header.number = ++calls_;
  }
  note_own(header);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) peers_->send(peer, header, &own);
  }
  std::vector<Choice> members;
  try {
    for (int rank = 0; rank < size_; ++rank) {
      Choice choice = own;
      if (rank != rank_) {
        const Message message = take(rank, header);
        std::memcpy(&choice, message.bytes.data(), sizeof choice);
      }
      if (choice.color == color) members.push_back(choice);
    }
  } catch (const Lost& lost) {
    return fail_with(ncclRemoteError, lost.what());
  }
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::ranges::sort(members, {}, [](const Choice& choice) { return std::pair(choice.key, choice.rank); });
  const auto place = std::ranges::find(members, rank_, &Choice::rank) - members.begin();
  made = std::make_shared<Communicator>(name_ + "." + std::to_string(header.number) + "." + std::to_string(color),
                                        static_cast<int>(place), static_cast<int>(members.size()), device_);
  return made->wait_for_all();
}

void Communicator::leave() {
  Header bye{.channel = Channel::bye};
  {
    const std::lock_guard guard(lock_);
    bye.number = calls_;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) peers_->send(peer, bye, nullptr);
  }
}

void Communicator::abort() { peers_->give_up("its communicator was aborted"); }

}  // namespace tenfold::dry
