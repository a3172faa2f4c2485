#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "common/base/number_in.h"
#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
thread_local int answering = 0;

[[noreturn]] void give_up(const std::string& problem) {
  // A program that asked for a dry card must not go on with another one, nor with none.
  std::fprintf(stderr, "tenfold: dry GPU: %s\n", problem.c_str());
  _exit(2);
}

std::string from_environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int number_from(const char* name, int least, int most, int otherwise) {
  const std::string text = from_environment(name, std::to_string(otherwise).c_str());
  const auto number = number_in<int>(text);
  if (!number || *number < least || *number > most)
    give_up(std::string(name) + " is '" + text + "', not a number from " + std::to_string(least) + " to " +
            std::to_string(most));
  return *number;
}

/// Which of the cards CUDA_VISIBLE_DEVICES leaves, and in which order: numbers until the first that is none of them.
std::vector<int> visible(int count) {
  std::vector<int> all;
  const char* const wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (wanted == nullptr) {
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
  }
  for (const char* at = wanted; *at != '\0';) {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end == at || number < 0 || number >= count) break;
    all.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
  }
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

/// `, "refused": ["...", "..."]`
template <class Names>
void write_names(std::ostream& out, const char* key, const Names& names) {
  out << ", \"" << key << "\": [";
  for (const char* separator = ""; const std::string& name : names) {
    out << separator << '"' << escaped(name) << '"';
    separator = ", ";
  }
  out << "]";
}

/// A line each, for whoever asks across the libraries' border; valid until this thread's next call.
const char* lines_of(const std::set<std::string>& names) {
  static thread_local std::string lines;
  lines.clear();
  for (const std::string& name : names) lines += name + "\n";
  return lines.c_str();
}

/// The same, and they are forgotten.
const char* take_lines_of(std::set<std::string>& names) { return lines_of(std::exchange(names, {})); }

/// What happened, as JSON, where TENFOLD_DRY_REPORT names a file. By hand: these libraries use none that a program
/// might bring in another version.
void write_report() {
  const std::string file = from_environment("TENFOLD_DRY_REPORT", "");
  if (file.empty()) return;
  const State& all = state();
  const std::vector<std::string> races = take_races();
  const bool lists = from_environment("TENFOLD_DRY_FORGET", "") == "list";
  const std::vector<Synchronisation> listed = lists ? all.synchronisations : std::vector<Synchronisation>();
  std::vector<std::string> prevented;  // named before the lock is held, as races are: Python has one of its own
  for (const Synchronisation& of : listed) prevented.push_back(of.without_it ? text_of(*of.without_it) : "");
  const std::lock_guard guard(state().lock);  // other threads may still launch
  // The programs that a program starts have LibTorch in them where arithmetic is asked for, and most want no GPU. Who
  // only reads what a card is has asked for one.
  if (!all.announced && all.counts.launches + all.counts.copies + all.counts.allocations == 0) return;
  std::ostringstream out;
  out << "{\"process\": " << getpid() << ", \"devices\": [";
  for (size_t i = 0; i < all.devices.size(); ++i) {
    const Device& device = all.devices[i];
    out << (i > 0 ? ", " : "") << "{\"card\": \"" << device.card->key << "\", \"memory\": " << device.card->memory_bytes
        << ", \"peak\": " << device.peak << ", \"left\": " << device.used << "}";
  }
  const Counts& counts = all.counts;
  out << "], \"launches\": " << counts.launches << ", \"graph launches\": " << counts.graph_launches
      << ", \"copies\": " << counts.copies << ", \"bytes to the device\": " << counts.bytes_to_device
      << ", \"bytes to the host\": " << counts.bytes_to_host << ", \"bytes pageable\": " << counts.bytes_pageable
      << ", \"memsets\": " << counts.memsets << ", \"waits\": " << counts.waits
      << ", \"allocations\": " << counts.allocations << ", \"frees\": " << counts.frees;
  write_names(out, "refused", counts.refused);
  write_names(out, "without price", counts.without_price);
  write_names(out, "without arithmetic", counts.without_arithmetic);
  write_names(out, "races", races);
  if (all.time != nullptr) {
    const DryTimes times = all.time->times();
    out << ", \"modelled\": {\"seconds\": " << all.time->now() << ", \"kernels\": " << times.kernels
        << ", \"busy\": " << times.busy << "}";
  }
  out << ", \"collectives\": {";
  for (const char* separator = ""; const auto& [name, asked] : counts.collectives) {
    out << separator << '"' << name << "\": {\"calls\": " << asked.calls << ", \"bytes\": " << asked.bytes << "}";
    separator = ", ";
  }
  out << "}, \"synchronisations\": [";
  for (size_t i = 0; i < listed.size(); ++i) {
    out << (i > 0 ? ", " : "") << "{\"place\": \"" << escaped(listed[i].place)
        << "\", \"followed\": " << (listed[i].without > 0 ? "true" : "false") << ", \"prevents\": \""
        << escaped(prevented[i]) << "\"}";
  }
  out << "], \"kernels\": {";
  for (const char* separator = ""; const auto& [name, count] : counts.kernels) {
    out << separator << '"' << escaped(name) << "\": " << count;
    separator = ", ";
  }
  out << "}}\n";
  // Each process of a program writes its line, at once: between two pieces of it another one's would come.
  const std::string line = out.str();
  const int to = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (to < 0 || write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::fprintf(stderr, "tenfold: dry GPU: %s cannot be written\n", file.c_str());
  if (to >= 0) close(to);
}

}  // namespace

State::State() {
  const std::string key = from_environment("TENFOLD_DRY_GPU", "H100");
  const Card* card = nullptr;
  try {
    card = &card_named(key);
  } catch (const std::exception& error) {
    give_up(std::string("TENFOLD_DRY_GPU: ") + error.what());
  }
  const std::string when = from_environment("TENFOLD_DRY_ARITHMETIC", "");
  if (when == "late" || when == "early") {
    order = when == "late" ? Order::late : Order::early;
  } else if (!when.empty()) {
    give_up("TENFOLD_DRY_ARITHMETIC is '" + when + "', not late or early");
  }
  const std::vector<int> numbers = visible(number_from("TENFOLD_DRY_GPUS", 1, 64, 1));
  for (size_t i = 0; i < numbers.size(); ++i) {
    Device device;
    device.card = card;
    device.number = numbers[i];
    device.memory_bytes = card->memory_bytes;
    device.legacy = std::make_unique<Stream>();
    device.legacy->device = static_cast<int>(i);
    device.legacy->legacy = true;
    devices.push_back(std::move(device));
  }
  if (order != Order::at_once) ordering = std::make_unique<Ordering>(note_race);
  if (from_environment("TENFOLD_DRY_TIME", "").empty() || order != Order::at_once) return;
  const std::optional<Rates> rates = rates_of(*card);
  if (!rates) give_up("no time is modelled for " + key + ": nobody has entered its ceilings");
  time = std::make_unique<CardTime>(*rates, /*of_processor=*/number_from("WORLD_SIZE", 1, 1 << 20, 1) > 1);
}

State::~State() = default;

void announce() {
  static const bool once = [] {
    State& all = state();
    all.announced = true;
    if (!all.devices.empty() && std::getenv("TENFOLD_DRY_QUIET") == nullptr)
      std::fprintf(stderr, "tenfold: dry GPU %s: no such card is here, %s, and %s\n",
                   all.devices.front().card->name.c_str(),
                   all.order == Order::at_once ? "nothing is computed" : "the CPU does its arithmetic",
                   all.time == nullptr ? "no time is measured" : "its time is modelled");
    return true;
  }();
  (void)once;
}

State& state() {
  // Never destroyed: LibTorch's own globals give streams and memory back after ours would be gone.
  static State* const all = [] {
    auto* const made = new State;
    std::atexit(write_report);  // behind what State has made, so that it runs before that goes
    return made;
  }();
  return *all;
}

int current_device() { return device_of_thread; }

cudaError_t set_current_device(int device) {
  if (device < 0 || device >= static_cast<int>(state().devices.size())) return fail(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

void refuse(const char* function) {
  const std::lock_guard guard(state().lock);
  if (state().counts.refused.insert(function).second)
    std::fprintf(stderr, "tenfold: dry GPU: %s is not stood in for\n", function);
}

/// What has no results: at::cuda::sleep() lets time pass.
bool computes_nothing(const std::string& kernel) { return kernel == "at::cuda::(anonymous namespace)::spin_kernel"; }

Answering::Answering() { ++answering; }
Answering::~Answering() { --answering; }

cudaError_t launched(const std::string& kernel, cudaStream_t stream, std::vector<Access> accesses, Work work) {
  Stream* const on = stream_of(stream);
  if (on == nullptr) return fail(cudaErrorInvalidResourceHandle);
  Item item{.kind = "kernel", .name = kernel, .work = std::move(work), .accesses = std::move(accesses)};
  {
    const std::lock_guard guard(state().lock);
    Counts& counts = state().counts;
    ++counts.launches;
    ++counts.kernels[kernel];
    const bool computes = !computes_nothing(kernel);
    if (state().order != Order::at_once && answering == 0 && computes) counts.without_arithmetic.insert(kernel);
    if (const auto& time = state().time) {
      // An operator's own work comes on top, once it is known (Pricing).
      item.seconds = lasting(0, time->rates().least, time->rates()).seconds();
      if (!note_price(*on) && computes) counts.without_price.insert(kernel);
    }
  }
  if (!item.accesses.empty()) item.user = user_here(kernel.c_str());
  return hand_over(*on, std::move(item));
}

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

// For a harness that may or may not have been started with these libraries: common/measure/dry.h.
const char* tenfold_dry_card() { return state().devices.empty() ? "none" : state().devices.front().card->key.c_str(); }

const char* tenfold_dry_order() {
  return state().order == Order::late ? "late" : state().order == Order::early ? "early" : "";
}

void tenfold_dry_limit_memory(int64_t bytes) {
  const std::lock_guard guard(state().lock);
  for (Device& device : state().devices) device.memory_bytes = bytes;
}

void tenfold_dry_counts(DryCounts* counts) {
  const std::lock_guard guard(state().lock);
  *counts = state().counts;
}

void tenfold_dry_times(DryTimes* times) {
  const std::lock_guard guard(state().lock);
  if (state().time == nullptr) return;
  *times = state().time->times();
  times->modelled = true;
}

void tenfold_dry_wait_until(double time) {
  const std::lock_guard guard(state().lock);
  if (state().time != nullptr) state().time->wait_until(time);
}

const char* tenfold_dry_take_without_price() {
  const std::lock_guard guard(state().lock);
  return take_lines_of(state().counts.without_price);
}

const char* tenfold_dry_refused() {
  const std::lock_guard guard(state().lock);
  return lines_of(state().counts.refused);
}

int tenfold_dry_begin_body(cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (state().order == Order::at_once || stream == nullptr || stream->capture != nullptr) return 0;
  // An operator of the dispatcher: the CPU's, whose body is the same, is kept with the stream.
  if (answering > 0) return 0;
  ++answering;
  run_all(*stream);
  return 1;
}

void tenfold_dry_end_body() { --answering; }

// For a kernel that belongs to no operator of LibTorch, and says itself what it needs: kernels/dry_launch.h.
void* tenfold_dry_begin_price() { return state().time == nullptr ? nullptr : new Pricing; }

void tenfold_dry_end_price(void* pricing, double bytes, double flops, int sixteen_bits) {
  const std::unique_ptr<Pricing> ours(static_cast<Pricing*>(pricing));
  const Rates& rates = state().time->rates();
  // bfloat16's rate: where a card has no tensor cores for both types, our kernels use none.
  const double products = sixteen_bits != 0 ? rates.bfloat16 : rates.fp32;
  ours->settle(seconds_of(bytes, flops, products, rates));
}

const char* tenfold_dry_take_without_arithmetic() {
  const std::lock_guard guard(state().lock);
  return take_lines_of(state().counts.without_arithmetic);
}
}

}  // namespace tenfold::dry
