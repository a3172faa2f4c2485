#pragma once
// Time on a card that is not there. The host's part passes as it is, on this machine; a kernel lasts what its rates
// say. Where the host would wait for the card it does not: the clock jumps to the moment at which it would go on.
// Of several ranks, which may be more than this machine has cores, each has its own processor's time for the host's.

#include <chrono>
#include <map>
#include <vector>

#include "common/base/dry_counts.h"
#include "common/dry_gpu/rates.h"

namespace tenfold::dry {

struct Item;
struct Stream;

/// What a stream's next work uses.
enum class Engine { kernels, to_device, to_host };

/// Guarded by State::lock, as all of State is. Seconds since it was made.
class CardTime {
 public:
  /// `of_processor`: the host's part passes with the process's processor time, and not with the wall's.
  CardTime(const Rates& rates, bool of_processor) : rates_(rates), clock_(of_processor) {}

  const Rates& rates() const { return rates_; }
  double now() const;
  /// The host goes on at this time, or now if it is later.
  void wait_until(double time);

  /// The stream does the item behind all that it has, and that it waits for.
  void run(Stream& stream, const Item& item);
  /// Its last item has this work besides, in seconds.
  void add_work(Stream& stream, double seconds);
  /// Its last item ends at this time, or later, and does something in the last of these seconds.
  void end_at(Stream& stream, double time, double seconds);
  /// When the stream has done all that it has now.
  double end_of(const Stream& stream) const;
  /// Of every stream of a device, or of all (-1).
  double end_of_device(int device) const;

  DryTimes times() const;

 private:
  /// The host's part, in seconds.
  class HostClock {
   public:
    explicit HostClock(bool of_processor) : of_processor_(of_processor), begin_(processor()) {}
    double wall() const;
    double now() const { return of_processor_ ? processor() - begin_ : wall(); }

   private:
    static double processor();
    const bool of_processor_;
    const double begin_;
    const std::chrono::steady_clock::time_point wall_begin_ = std::chrono::steady_clock::now();
  };

  /// Seconds in which something was under way; works are added in about the order in which they begin.
  struct Busy {
    double seconds = 0, until = 0;
    void add(double begin, double end);
  };

  /// From when on, at the earliest, a card has so many seconds for a stream that comes there at this time: two streams
  /// share its memory and its arithmetic, and not the time until a kernel has begun.
  double free_from(int device, double time, double seconds);

  const Rates rates_;
  const HostClock clock_;
  double jumped_ = 0;
  std::vector<std::map<double, double>> working_;  ///< of each device: beginnings and ends of what still lies ahead
  Busy kernels_, busy_;
};

/// While alive, what this thread launches is of one operator.
class Pricing {
 public:
  Pricing();
  ~Pricing();
  Pricing(const Pricing&) = delete;
  Pricing& operator=(const Pricing&) = delete;
  /// All its launches together keep the card's memory or its arithmetic busy for so many seconds. Each is behind a gap
  /// and lasts what the shortest kernel lasts, and the last one what is left of the work.
  void settle(double work);
  bool launched() const { return stream_ != nullptr; }

 private:
  friend bool note_price(Stream& stream);
  Pricing* const outer_;
  Stream* stream_ = nullptr;  ///< of the last launch
  int launches_ = 0;          ///< until now
};

/// Of a launch: to whom it belongs. False where nobody will say how long it lasts.
bool note_price(Stream& stream);

}  // namespace tenfold::dry
