#include "common/dry_gpu/nccl/peers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace tenfold::dry {
namespace {

/// What a rank says when it connects.
struct Hello {
  int32_t rank = 0;
  GpuId gpu = {};
};

/// An address without a file: it begins with a zero, and goes with its socket.
struct Address {
  sockaddr_un address = {};
  socklen_t length = 0;

  Address(const std::string& name, int rank) {
    const std::string text = "tenfold-dry-nccl-" + name + "-" + std::to_string(rank);
    address.sun_family = AF_UNIX;
    const size_t letters = std::min(text.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, text.data(), letters);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + letters);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool send_all(int socket, const void* bytes, size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* bytes, size_t count) {
  char* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t received = ::recv(socket, at, count, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    count -= static_cast<size_t>(received);
  }
  return true;
}

}  // namespace

Peers::Peers(const std::string& name, int rank, int size, const GpuId& gpu, Heard heard)
    : name_(name), rank_(rank), size_(size), gpu_(gpu), heard_(std::move(heard)) {
  for (int i = 0; i < size; ++i) peers_.push_back(std::make_unique<Peer>());
  peers_[static_cast<size_t>(rank)]->gpu = gpu;
  const Address own(name, rank);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  waker_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener_ < 0 || waker_ < 0 || bind(listener_, own.get(), own.length) != 0 || listen(listener_, size) != 0) {
    const std::string why = std::strerror(errno);
    close(listener_);
    close(waker_);
    throw std::runtime_error("rank " + std::to_string(rank) + " cannot be reached: " + why);
  }
  thread_ = std::thread([this] { take_in(); });
}

Peers::~Peers() {
  {
    const std::lock_guard guard(lock_);
    ends_ = true;
  }
  wake();
  thread_.join();
  for (const auto& peer : peers_) {
    if (peer->socket >= 0) close(peer->socket);
  }
  close(listener_);
  close(waker_);
}

void Peers::wake() {
  const uint64_t count = 1;
  [[maybe_unused]] const ssize_t written = write(waker_, &count, sizeof count);
}

void Peers::add(int rank, int socket, const GpuId& gpu) {
  const std::lock_guard guard(lock_);
  Peer& peer = *peers_[static_cast<size_t>(rank)];
  peer.socket = socket;
  peer.gpu = gpu;
  changed_.notify_all();
}

void Peers::connect_to_lower() {
  for (int lower = 0; lower < rank_; ++lower) {
    if (peers_[static_cast<size_t>(lower)]->socket >= 0) continue;
    const Address address(name_, lower);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const Hello own{rank_, gpu_};
    Hello other;
    if (socket >= 0 && connect(socket, address.get(), address.length) == 0 && send_all(socket, &own, sizeof own) &&
        receive_all(socket, &other, sizeof other)) {
      add(lower, socket, other.gpu);
    } else if (socket >= 0) {
      close(socket);
    }
  }
}

void Peers::welcome() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  const Hello own{rank_, gpu_};
  Hello other;
  if (socket >= 0 && receive_all(socket, &other, sizeof other) && other.rank > rank_ && other.rank < size_ &&
      send_all(socket, &own, sizeof own)) {
    add(other.rank, socket, other.gpu);
  } else if (socket >= 0) {
    close(socket);
  }
}

bool Peers::receive(int rank) {
  Message message;
  const int socket = peers_[static_cast<size_t>(rank)]->socket;
  if (!receive_all(socket, &message.header, sizeof message.header)) return false;
  message.bytes.resize(message.header.bytes);
  if (!receive_all(socket, message.bytes.data(), message.bytes.size())) return false;
  arrive(rank, std::move(message));
  return true;
}

void Peers::arrive(int rank, Message message) {
  heard_(rank, message.header);
  if (message.bytes.empty() && message.header.ready < 0) return;  // heard, and nothing to take
  const std::lock_guard guard(lock_);
  const auto key = std::make_tuple(rank, message.header.channel, message.header.number);
  arrived_.insert_or_assign(key, std::move(message));
  changed_.notify_all();
}

void Peers::went(int rank) {
  const std::lock_guard guard(lock_);
  peers_[static_cast<size_t>(rank)]->gone = true;
  changed_.notify_all();
}

void Peers::take_in() {
  while (true) {
    std::vector<pollfd> sockets = {{waker_, POLLIN, 0}, {listener_, POLLIN, 0}};
    std::vector<int> ranks = {-1, -1};
    bool all_lower = true;
    {
      const std::lock_guard guard(lock_);
      if (ends_) return;
      for (int rank = 0; rank < size_; ++rank) {
        const Peer& peer = *peers_[static_cast<size_t>(rank)];
        if (rank < rank_ && peer.socket < 0) all_lower = false;
        if (peer.socket < 0 || peer.gone) continue;
        sockets.push_back({peer.socket, POLLIN, 0});
        ranks.push_back(rank);
      }
    }
    constexpr int kMilliseconds = 5;  // until a rank that is not there yet is looked for again
    poll(sockets.data(), sockets.size(), all_lower ? -1 : kMilliseconds);
    if ((sockets[1].revents & POLLIN) != 0) welcome();
    for (size_t i = 2; i < sockets.size(); ++i) {
      if (sockets[i].revents != 0 && !receive(ranks[i])) went(ranks[i]);
    }
    if (!all_lower) connect_to_lower();
  }
}

void Peers::wait_for_all() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] {
    if (!given_up_.empty()) return true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_ && peers_[static_cast<size_t>(rank)]->socket < 0) return false;
    }
    return true;
  });
  if (!given_up_.empty()) throw Lost(given_up_);
  for (int rank = 0; rank < size_; ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (peers_[static_cast<size_t>(rank)]->gpu == peers_[static_cast<size_t>(other)]->gpu)
        throw Lost("ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                   " have the same GPU; give each its own before it starts NCCL");
    }
  }
}

void Peers::send(int peer, const Header& header, const void* bytes) {
  if (peer == rank_) {  // as all-to-alls of parts of unequal sizes do
    const auto* const from = static_cast<const char*>(bytes);
    return arrive(peer, {header, {from, from + header.bytes}});
  }
  Peer& to = *peers_[static_cast<size_t>(peer)];
  {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return to.socket >= 0 || !given_up_.empty(); });
    if (to.socket < 0 || to.gone) return;
  }
  const std::lock_guard sending(to.sending);
  // Where it fails, the peer has closed: but what it sent before, its goodbye too, may still be to be read. Only who
  // reads knows that nothing is left.
  if (send_all(to.socket, &header, sizeof header)) send_all(to.socket, bytes, header.bytes);
}

Message Peers::take(int peer, Channel channel, uint64_t number, const std::function<void()>& waiting) {
  const auto key = std::make_tuple(peer, channel, number);
  auto patient_until = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
  std::unique_lock guard(lock_);
  while (true) {
    if (const auto found = arrived_.find(key); found != arrived_.end()) {
      Message message = std::move(found->second);
      arrived_.erase(found);
      return message;
    }
    if (!given_up_.empty()) throw Lost(given_up_);
    if (peers_[static_cast<size_t>(peer)]->gone) throw Lost("rank " + std::to_string(peer) + " has ended");
    if (changed_.wait_until(guard, patient_until) == std::cv_status::no_timeout) continue;
    patient_until += std::chrono::seconds(kPatience);
    guard.unlock();
    waiting();
    guard.lock();
  }
}

void Peers::give_up(const std::string& why) {
  const std::lock_guard guard(lock_);
  if (given_up_.empty()) given_up_ = why;
  changed_.notify_all();
}

}  // namespace tenfold::dry
