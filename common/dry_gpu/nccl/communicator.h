#pragma once
// A communicator of NCCL among dry GPUs: what its ranks call is compared, what they send is moved where the CPU does
// the card's arithmetic, and each call is work of its stream.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/dry_gpu/nccl/calls.h"
#include "common/dry_gpu/nccl/peers.h"
#include "common/dry_gpu/state.h"

namespace tenfold::dry {

/// What a stream does next, and when it is done with that.
struct Begun {
  Work work;                    ///< empty where nothing is computed
  std::function<double()> end;  ///< where a time is modelled: waits until the others have called it, too
  double seconds = 0;           ///< that it lasts once all are there
};

/// In words, whatever thread and communicator it came from.
void set_last_error(const std::string& text);
std::string get_last_error();

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// Begins to connect. Throws std::runtime_error.
  Communicator(const std::string& name, int rank, int size, int device);

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  ncclResult_t error() const { return error_; }

  /// ncclInvalidUsage where two ranks have one GPU.
  ncclResult_t wait_for_all();
  /// What is wrong with a call by itself, or with the communicator.
  ncclResult_t check(const Call& call);
  /// Tells the other ranks of the call, and where there is arithmetic sends them what its stream has computed by now.
  Begun begin(const Call& call);
  /// The communicator that the ranks of this colour get, in the order of their keys; empty: this rank has none.
  ncclResult_t split(int color, int key, std::shared_ptr<Communicator>& made);
  /// An operation that first multiplies what this rank gives.
  ncclRedOp_t add_scaled_sum(double factor);

  /// Says good-bye: calls of others that are still to come are then errors.
  void leave();
  void abort();

 private:
  using Key = std::pair<int, uint64_t>;  ///< of a message: the other rank, and its number

  void heard(int rank, const Header& header);
  void compare(int rank, const Header& own, const Header& other);
  void note_own(const Header& header);
  void note_receive(int from, const Header& header);
  ncclResult_t fail_with(ncclResult_t error, const std::string& text);
  using Arrived = std::map<int, Message>;  ///< by the rank that sent it

  Message take(int peer, const Header& own);
  Begun begin_message(const Call& call);
  std::function<double()> end_behind(std::vector<int> peers, const Header& header, double seconds,
                                     std::shared_ptr<Arrived> arrived);
  /// The bytes of a rank's share in a collective, as this rank has them, and those that it hands to `peer`.
  std::vector<char> own_part(const Call& call, int peer) const;
  void finish(const Call& call, const Header& header, const std::vector<char>& own, Arrived& arrived);

  const std::string name_;
  const int rank_, size_, device_;
  mutable std::mutex lock_;  ///< of all below but peers_
  uint64_t calls_ = 0;
  std::vector<uint64_t> sent_, received_;
  struct Compared {
    Header own;
    int others = 0;  ///< that have been compared
  };
  std::map<uint64_t, Compared> own_calls_;                         ///< until all others have called them, too
  std::map<uint64_t, std::vector<std::pair<int, Header>>> early_;  ///< of others, that this rank has not called yet
  std::map<Key, Header> own_receives_, early_sends_;               ///< that have not met
  std::map<int, uint64_t> left_;                                   ///< ranks that have, and after how many calls
  std::vector<double> factors_;
  std::atomic<ncclResult_t> error_ = ncclSuccess;
  std::unique_ptr<Peers> peers_;  ///< its thread ends before the rest goes
};

}  // namespace tenfold::dry
