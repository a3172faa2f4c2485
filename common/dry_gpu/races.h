#pragma once
// The order of a dry GPU's streams, followed while arithmetic is on (order.h): what each call orders, who uses which
// bytes, and what is said of two uses that nothing orders. Functions that take a Stream want the state's lock held.

#include <optional>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {

/// Whether order is followed: it needs the operators.
inline bool follows_order() { return state().ordering != nullptr; }

/// While alive, what this thread hands over is the work of this user; the outermost one counts.
class Using {
 public:
  explicit Using(std::shared_ptr<const User> user);
  ~Using();
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;

 private:
  bool outermost_;
};
/// Whether there is one.
bool is_using();
/// That user, or a call of the runtime by this name from here.
std::shared_ptr<const User> user_here(const char* call);

void note_item(Stream& stream, const Item& item);
void note_record(Stream& stream, Recording& recording);
void note_wait(Stream& stream, const Recording& recording, Without without);
Clocks known_by(Stream& stream);
/// The host has waited for all that the stream was handed over.
void note_host_waits(Stream& stream, Without without = 0);
void note_host_waits_for_device(int device, Without without = 0);  ///< -1: for all of them
/// Memory of the card is handed out by LibTorch's allocator, in the order of a stream of a device.
void note_hand_out(void* address, size_t bytes, cudaStream_t handle, int device);

/// A checksum of pinned memory that an asynchronous copy is to read; none where a stream may still be writing there.
std::optional<uint64_t> checksum_of_source(const void* from, size_t bytes);
void check_source(const void* from, size_t bytes, uint64_t checksum, const std::shared_ptr<const User>& user);

/// Of a race, in one line. The caller need not hold the lock.
std::string text_of(const Race& race);
/// Gives those that were found a text, while their places can be named: a Python program's cannot when it ends. Nobody
/// may hold a lock.
void name_races();
/// Those found since the last call, each pair of places once.
std::vector<std::string> take_races();

// --- leaving synchronisations out ------------------------------------------------------------------------------------

/// A synchronisation that the program asks for, by its place. TENFOLD_DRY_FORGET=list numbers them and says which
/// order something; with a number, or a part of its text, one of them is left out.
struct Synchronisation {
  std::string place;
  Without without = 0;             ///< 0: it cannot be followed what would be without it
  std::optional<Race> without_it;  ///< a race that only it prevents
};

struct LeftOut {
  bool now = false;     ///< the call does nothing
  Without without = 0;  ///< what is followed, too
};
/// For a call that begins here. Costs nothing unless TENFOLD_DRY_FORGET is set; LibTorch's own calls are never left
/// out. An operator comes by way of LibTorch, and what would be without record_stream() is not followed: memory would
/// be handed out otherwise.
LeftOut leaves_out_call(const char* name, bool is_operator = false);

}  // namespace tenfold::dry
