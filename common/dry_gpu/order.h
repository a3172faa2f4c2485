#pragma once
// What comes before what, on the streams of a card. A program orders them by events, waits and by waiting itself; here
// each stream has a vector clock that follows them. Every use of memory is remembered until a later one takes its
// place, and two uses of the same bytes by two streams, of which at least one writes, are a race unless one comes
// before the other. It knows nothing of CUDA.
//
// Source: Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI 2009.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenfold::dry {

/// Bytes of memory: all from begin to end, or where `period` is not 0 the first `width` of each period, as a column of
/// a matrix.
struct Bytes {
  uintptr_t begin = 0, end = 0;
  uint64_t period = 0, width = 0;
};

/// Whether they have a byte in common.
bool overlap(const Bytes& a, const Bytes& b);

struct Access {
  Bytes bytes;
  bool writes = false;
};

/// A place in a program. To name it costs time.
struct Where {
  virtual ~Where() = default;
  virtual std::string text() const = 0;
};

/// Who uses memory: an operator or a call, and where the program asks for it.
struct User {
  std::string name;
  std::shared_ptr<const Where> where;
};

/// For each stream how many of its items come before. With synchronisations that are taken out in turn (`Without`),
/// there is a clock for the program as it is, and one without each.
using Clock = std::vector<uint64_t>;
using Clocks = std::vector<Clock>;

/// A synchronisation of the program that might be left out; 0 is none of them.
using Without = size_t;
constexpr Without kMostWithout = 63;

/// Two uses of the same bytes that nothing orders.
struct Race {
  enum class Kind {
    unordered,   ///< both are uses of the same tensor, or of what it shares its memory with
    freed,       ///< the memory was given back between the two, and handed out again
    handed_out,  ///< the later use is on another stream than the one for which the memory was handed out
    changed,     ///< pinned memory was not the same when its copy ran: somebody wrote to it meanwhile
  };
  Kind kind = Kind::unordered;
  size_t earlier = 0, later = 0;  ///< streams; kHost: the CPU
  bool earlier_writes = false, later_writes = false;
  std::shared_ptr<const User> earlier_user, later_user;
  uint64_t bytes = 0;
  uint64_t without = 0;  ///< a bit for each Without that it appears for; bit 0: for the program as it is
};

constexpr size_t kHost = SIZE_MAX;

class Ordering {
 public:
  using Report = std::function<void(const Race&)>;
  explicit Ordering(Report report) : report_(std::move(report)) {}

  /// From now on there is a clock for the program without one more of its synchronisations, too.
  void add_without(Without without);

  // --- what orders ---
  /// What comes before a place behind all that the stream was handed over.
  Clocks known_by(size_t stream);
  /// The stream's next item waits for what is known, except in the program without the wait.
  void waits(size_t stream, const Clocks& known, Without without = 0);
  /// The host has waited. All its threads share one clock: how they hand over to each other is not seen.
  void host_waits(const Clocks& known, Without without = 0);
  /// Who hands out memory has learnt that something is over, which the program has not asked for.
  void allocator_learns(const Clocks& known);
  /// Of a record that is left out: what the event knew before it.
  static Clocks without_record(Clocks now, const Clocks* before, Without without);

  // --- what is ordered ---
  /// The stream's next item, and what it uses.
  void uses(size_t stream, const std::vector<Access>& accesses, const std::shared_ptr<const User>& user);
  /// The races of the host with streams when it reads or writes there; they are not reported.
  std::vector<Race> host_uses(const Access& access);
  /// Memory is handed out: in the stream's order it is free, in others whoever used it must have been waited for.
  void hand_out(size_t stream, const Bytes& bytes, const std::shared_ptr<const User>& user);
  /// The memory is gone: no later use is one of the same bytes.
  void gone(const Bytes& bytes);
  /// Whether a stream may still be writing there.
  bool may_be_written(const Bytes& bytes);

 private:
  struct Use {
    size_t stream = 0;
    uint64_t item = 0;
    Bytes bytes;
    bool writes = false, handed_out = false;
    bool freed = false;    ///< of a tensor that is no more
    uint64_t settled = 0;  ///< a bit for each Without in which it was over when its memory was handed out again
    std::shared_ptr<const User> user;
  };
  struct Range {
    uintptr_t end = 0;
    std::vector<Use> uses;
  };
  using Ranges = std::map<uintptr_t, Range>;

  Clock& clock_of(size_t stream, Without without);
  void next_item(size_t stream);
  uint64_t unordered(const Use& use, size_t stream);
  uint64_t unordered(const Use& use, const Clocks& known) const;
  /// So that ranges begin and end there; returns the first of them.
  Ranges::iterator split(const Bytes& bytes);
  void split_at(uintptr_t address);
  void check(const Range& range, uintptr_t begin, const Use& later, std::vector<Race>& races,
             const std::function<uint64_t(const Use&)>& unordered_with) const;
  void tell(std::vector<Race>& races);

  Report report_;
  std::vector<std::vector<Clock>> streams_{1};  // by Without, by stream
  Clocks host_{1}, allocator_{1};
  uint64_t host_version_ = 0;
  std::vector<uint64_t> known_host_;  // by stream: the version of the host's clock that it has joined
  Ranges ranges_;
};

}  // namespace tenfold::dry
