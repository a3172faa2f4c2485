#pragma once
// The ranks of a communicator, connected: processes of this machine. What a rank sends arrives whether or not anybody
// waits for it, since a thread of each communicator takes it in: so nobody's host waits where a GPU would. Sockets
// without a file: of a process that is killed nothing is left behind. It knows nothing of CUDA.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace tenfold::dry {

enum class Channel : int32_t {
  hello,       ///< who connects
  collective,  ///< of all ranks, numbered alike on all of them
  message,     ///< from one rank to another, numbered between these two
  bye,         ///< its communicator is destroyed, after so many collectives
};

/// What a rank says of a call, before its bytes. `call`, `type`, `operation` and `root` are NCCL's numbers.
struct Header {
  Channel channel = Channel::hello;
  int32_t call = 0, type = 0, operation = 0, root = 0;
  uint64_t number = 0;  ///< within its channel, from 1
  uint64_t count = 0;   ///< elements
  uint64_t bytes = 0;   ///< that follow
  double ready = -1;    ///< when the rank's stream comes to the call, by its clock; -1: no time is modelled
};

struct Message {
  Header header;
  std::vector<char> bytes;
};

/// Why what a rank waits for will not come, in one line.
struct Lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A GPU as its maker tells it from others.
using GpuId = std::array<char, 16>;

class Peers {
 public:
  /// Called by the communicator's thread for each header that arrives, before its bytes can be taken.
  using Heard = std::function<void(int rank, const Header& header)>;

  /// Begins to connect with the other ranks of this name. `name` has at most 64 letters. Throws std::runtime_error
  /// where there is such a rank already.
  Peers(const std::string& name, int rank, int size, const GpuId& gpu, Heard heard);
  /// The others see that it has gone.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Until all are connected. Throws Lost after give_up(), and where two ranks have the same GPU, as NCCL does.
  void wait_for_all();
  /// Sends; does not wait until it is taken. To a rank that has gone it sends nothing. A rank may send to itself.
  void send(int peer, const Header& header, const void* bytes);
  /// Waits for the bytes that a rank sends, and takes them away. Throws Lost where they will not come.
  /// `waiting` is called after each `kPatience` seconds in vain.
  Message take(int peer, Channel channel, uint64_t number, const std::function<void()>& waiting);
  /// Whoever waits, now or later, gets Lost with this line.
  void give_up(const std::string& why);

  static constexpr int kPatience = 30;

 private:
  struct Peer {
    int socket = -1;
    bool gone = false;
    std::mutex sending;
    GpuId gpu = {};
  };

  void take_in();
  void connect_to_lower();
  void welcome();
  bool receive(int rank);
  void arrive(int rank, Message message);
  void went(int rank);
  void add(int rank, int socket, const GpuId& gpu);
  void wake();

  const std::string name_;
  const int rank_, size_;
  const GpuId gpu_;
  const Heard heard_;
  int listener_ = -1, waker_ = -1;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::mutex lock_;  ///< of all below, and of the peers' sockets
  std::condition_variable changed_;
  std::map<std::tuple<int, Channel, uint64_t>, Message> arrived_;
  std::string given_up_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tenfold::dry
