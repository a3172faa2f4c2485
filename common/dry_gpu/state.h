#pragma once
// What a process knows of its dry GPUs. CUDA's runtime, its driver and its libraries, as LibTorch sees them, are thin
// layers over this: address space that nobody touches, limits, streams, events and graphs are really kept; kernels do
// nothing.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/dry_counts.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/card_time.h"
#include "common/dry_gpu/order.h"

namespace tenfold::dry {

/// When the work of a stream is done. All three are orders in which a GPU might do it.
enum class Order {
  at_once,  ///< when it is handed over: nothing but copies, memsets and callbacks has an effect
  late,     ///< when somebody waits for it: whoever reads before has forgotten to wait
  early,    ///< on other streams than the default one as soon as their waits allow: whoever overwrites must have waited
};

/// An effect on the host's view of memory; empty where nothing is known or wanted of it.
using Work = std::function<void()>;

struct Stream;
struct Capture;

/// A place in a stream, which an event names from its record to its next one.
struct Recording {
  Stream* stream = nullptr;
  uint64_t position = 0;  ///< of the stream's work, counted from its beginning
  bool done = false;
  double time = 0;                   ///< at which it is done, by State::time
  int queries = 0;                   ///< how often somebody has asked in vain
  std::shared_ptr<Capture> capture;  ///< of a record that was captured, and what it stands behind
  std::vector<size_t> behind;
  Clocks known;  ///< what comes before it
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<Recording> recording;
};

/// What a stream does next.
struct Item {
  const char* kind = "";  ///< "kernel", "copy", "memset", "callback", "record", "wait"
  std::string name;       ///< of a kernel
  double seconds = 0;     ///< that it lasts at least, by State::time
  double exclusive = 0;   ///< seconds besides, in which it has the card to itself
  Engine engine = Engine::kernels;
  Work work;
  std::shared_ptr<Recording> waits, records;
  std::vector<Access> accesses;  ///< and who makes them
  std::shared_ptr<const User> user;
};

struct Node {
  Item item;
  std::vector<size_t> after;  ///< nodes that come before it
};

struct Graph {
  std::vector<Node> nodes;
  std::shared_ptr<Recording> launched;  ///< of an executable one: behind its last launch, which the next one waits for
};

struct Capture {
  Stream* origin = nullptr;
  std::unique_ptr<Graph> graph;
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  unsigned long thread = 0;
  bool invalid = false;
  std::unique_ptr<Ordering> ordering;  ///< of its streams among themselves
};

constexpr size_t kNoNumber = SIZE_MAX;

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;  ///< the default stream, which waits for blocking streams and they for it
  bool used = false;    ///< it was handed work
  std::deque<Item> queue;
  uint64_t handed_over = 0, done = 0;
  bool busy = false;  ///< an item of it is being done
  std::shared_ptr<Capture> capture;
  std::vector<size_t> behind;        ///< while capturing: the nodes that its next one comes after
  size_t number = kNoNumber;         ///< in the order of streams, once it has a place there
  std::shared_ptr<Recording> asked;  ///< by queries
  double ends = 0;                   ///< when all that it was handed over is done, by State::time
};

struct Device {
  const Card* card = nullptr;
  int number = 0;              ///< among all of the machine, whatever CUDA_VISIBLE_DEVICES leaves
  int64_t memory_bytes = 0;    ///< the card's, unless limit_memory says otherwise
  int64_t used = 0, peak = 0;  ///< bytes of the card
  double copies_end[2] = {};   ///< of the engine to the card, and of the one to the host, by State::time
  std::unique_ptr<Stream> legacy;
};

/// Where device memory lies in this process. Nothing has been touched: it costs no RAM until somebody writes there.
struct Block {
  int device = 0;
  size_t bytes = 0;   ///< that were asked for
  size_t mapped = 0;  ///< of address space
};

/// Calls of one of NCCL's collectives, and the bytes that they were asked for: as nccl-tests counts them, see
/// common/ranks/counted_backend.h.
struct Collectives {
  int64_t calls = 0, bytes = 0;
};

/// Counted from the start of the process.
struct Counts : DryCounts {
  int64_t memsets = 0, allocations = 0, frees = 0;
  std::map<std::string, int64_t> kernels;  ///< launches by name
  std::map<std::string, Collectives> collectives;
  std::set<std::string> refused;             ///< functions that are not stood in for, and were called
  std::set<std::string> without_arithmetic;  ///< operators and kernels that nobody computed, though it was asked for
  std::set<std::string> without_price;  ///< kernels of which nobody said how long they last, though it was asked for
};

struct Synchronisation;

/// Everything; guarded by `lock`, which nobody holds while work is done.
struct State {
  State();
  ~State();

  std::recursive_mutex lock;
  std::recursive_mutex running;  ///< whoever does the work of streams: one thread at a time
  Order order = Order::at_once;
  std::atomic<bool> announced = false;
  std::unique_ptr<CardTime> time;  ///< where a card's time is modelled
  std::vector<Device> devices;
  std::map<char*, Block> blocks;
  std::map<char*, size_t> pinned;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, executables;
  std::set<std::shared_ptr<Capture>> captures;
  unsigned long long next_capture = 1;
  std::unordered_map<const void*, const char*> kernels;     ///< mangled names, by the host's address of a kernel
  std::map<const void*, int> most_dynamic_shared;           ///< bytes, where a program has raised them
  std::map<const void*, std::pair<size_t, char*>> symbols;  ///< bytes, and where they lie once asked for
  Counts counts;

  // What races.h knows.
  std::unique_ptr<Ordering> ordering;  ///< of all streams
  std::vector<std::string> stream_names;
  std::vector<Race> races;              ///< that have no text yet
  std::vector<std::string> race_texts;  ///< of the others, each once
  std::vector<Synchronisation> synchronisations;
  std::map<std::pair<std::string, std::vector<uintptr_t>>, size_t> known_synchronisations;
};

/// The process's own; made at the first call, from TENFOLD_DRY_GPU and its companions.
State& state();
/// Says once, in one line, that this is no card, and remembers that a process asked for one: LibTorch's kernels are
/// known in others, too.
void announce();

// --- memory --------------------------------------------------------------------------------------------------------

/// Of a device; cudaErrorMemoryAllocation when the card is full.
cudaError_t allocate(void** address, size_t bytes, int device);
cudaError_t release(void* address);
/// The block that holds the address; nullptr if there is none.
const std::pair<char* const, Block>* block_of(const void* address);
bool is_pinned(const void* address);
/// What an allocation takes of the card: pages of 2 MiB, which small ones share.
int64_t bytes_on_card(size_t bytes);
/// Takes pages of the card, or gives them back. False when there are not enough.
bool take(int device, int64_t bytes);

// --- streams -------------------------------------------------------------------------------------------------------

/// The stream behind a handle, of the current device where it is a default one; nullptr if it is none.
Stream* stream_of(cudaStream_t handle);
/// Whether it and the default stream wait for each other.
inline bool blocking(const Stream& stream) { return !stream.legacy && (stream.flags & cudaStreamNonBlocking) == 0; }
/// What a race is remembered by.
void note_race(const Race& race);
/// Hands work over to a stream, or to the graph that it captures.
cudaError_t hand_over(Stream& stream, Item item);
/// Does what its stream was handed over before it. False where that is being done by this very thread.
bool run_until(const Recording& recording);
/// The host would wait until all of the stream, of the device, or the recording is done.
void wait_by_the_clock(const Stream& stream);
void wait_by_the_clock(int device);
void wait_by_the_clock(const Recording& recording);
/// Does all that the stream was handed over, and of the streams for which a default stream waits.
void run_all(Stream& stream);
/// The host waits for all that the stream was handed over.
void synchronize(Stream& stream, Without without = 0);
/// Of every stream of a device, or of all of them (-1).
void run_device(int device);
std::shared_ptr<Recording> record(Stream& stream);
/// What a query of the stream asks for, the same one until the stream is handed over more; nullptr when all is done.
std::shared_ptr<Recording> asked_of(Stream& stream);
/// Where the order is early, does what can be done; a no-op in the others. Nobody may hold the lock.
void run_what_is_ready();

/// cudaErrorStreamCaptureUnsupported, and what is captured becomes invalid, when this thread must not wait or allocate
/// now.
cudaError_t forbidden_while_capturing();

// --- what is told ---------------------------------------------------------------------------------------------------

int current_device();
cudaError_t set_current_device(int device);
/// Sets this thread's last error, and returns it.
cudaError_t fail(cudaError_t error);
/// While alive, what this thread launches belongs to an operator whose arithmetic is done. With arithmetic, any other
/// launch is remembered by its name: its results are no numbers.
class Answering {
 public:
  Answering();
  ~Answering();
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
};
/// Says once, in one line, that a function is not stood in for, and remembers it.
void refuse(const char* function);
/// A library's kernel: counted, and handed over to the stream, with its work where that is known.
cudaError_t launched(const std::string& kernel, cudaStream_t stream, std::vector<Access> accesses = {},
                     Work work = nullptr);

}  // namespace tenfold::dry
