// The runtime of a card that is not there: what CUDA's documents say of memory, streams, events and captures.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

void* memory_of(size_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  return memory;
}

int64_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<int64_t>(free);
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  statm >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Cards, SayWhatTheyAre) {
  for (const Card& card : cards()) {
    EXPECT_EQ(&card_named(card.key), &card);
    EXPECT_GT(card.memory_bytes, 14 * (int64_t{1} << 30)) << card.key;
    EXPECT_EQ(card.memory_bytes % 65536, 0) << card.key << ": a driver hands out whole pages";
    EXPECT_GE(card.shared_bytes_of_block(), 64 << 10) << card.key;
  }
  EXPECT_EQ(card_named("h100").sms, 132);
  EXPECT_EQ(card_named("A100-40").minor, 0);
  EXPECT_THROW(card_named("H101"), std::invalid_argument);
}

TEST(Memory, TheCardsLimitIsKeptAndCostsNoRam) {
  const int64_t before = resident_bytes(), free = free_bytes();
  std::vector<void*> taken;
  const size_t chunk = size_t{4} << 30;
  while (free_bytes() >= static_cast<int64_t>(chunk)) taken.push_back(memory_of(chunk));
  EXPECT_EQ(static_cast<int64_t>(taken.size()), free / static_cast<int64_t>(chunk));
  void* too_much = &taken;
  EXPECT_EQ(cudaMalloc(&too_much, chunk), cudaErrorMemoryAllocation);
  EXPECT_EQ(too_much, nullptr);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it was taken";
  for (void* memory : taken) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(free_bytes(), free);
  EXPECT_LT(resident_bytes() - before, 8 << 20) << "of bookkeeping, for 79 GiB";
}

TEST(Memory, KnowsItsAddresses) {
  auto* const memory = static_cast<char*>(memory_of(3 * kMiB));
  cudaPointerAttributes of;
  ASSERT_EQ(cudaPointerGetAttributes(&of, memory + 3 * kMiB - 1), cudaSuccess);
  EXPECT_EQ(of.type, cudaMemoryTypeDevice);
  EXPECT_EQ(of.device, 0);
  ASSERT_EQ(cudaPointerGetAttributes(&of, &of), cudaSuccess);
  EXPECT_EQ(of.type, cudaMemoryTypeUnregistered);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 100, 0), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&of, pinned), cudaSuccess);
  EXPECT_EQ(of.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory + 512), cudaErrorInvalidValue) << "not where a block begins";
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(Memory, ACopyIsOfTheKindThatItsPointersAre) {
  int host = 0, other = 0;
  auto* const memory = static_cast<int*>(memory_of(512));
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 512, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, &host, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, &host, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(&host, memory, 4, cudaMemcpyHostToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(memory, &host, 4, cudaMemcpyDeviceToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory, memory + 1, 4, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(&host, &other, 4, cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, pinned, 4, cudaMemcpyDeviceToDevice), cudaSuccess) << "page-locked";
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  cudaGetLastError();
}

TEST(Devices, BadOnesAreRefused) {
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  cudaDeviceProp of;
  EXPECT_EQ(cudaGetDeviceProperties(&of, -1), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaGetDeviceProperties(&of, 0), cudaSuccess);
  EXPECT_EQ(of.multiProcessorCount, 132);
  EXPECT_EQ(of.sharedMemPerBlockOptin, 232448U);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorSymbolNotFound), "cudaErrorSymbolNotFound");
  cudaGetLastError();
}

TEST(Devices, HaveClocks) {
  int khz = 0, memory_khz = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0), cudaSuccess);
  EXPECT_EQ(khz, 1'980'000);
  EXPECT_EQ(memory_khz, 2'619'000);
  for (const Card& card : cards()) {
    // Two transfers a clock: TB/s, of which a T4 has 0.32 and a B200 7.7.
    const double rate = 2e3 * card.memory_clock_khz * card.bus_bits / 8 / 1e12;
    EXPECT_GT(card.clock_khz, 1'000'000) << card.key;
    EXPECT_TRUE(rate > 0.3 && rate < 8) << card.key << ": " << rate;
  }
}

TEST(Devices, WhatIsNotStoodInForIsRefusedByName) {
  cudaIpcMemHandle_t handle;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, nullptr), cudaErrorNotSupported);
  EXPECT_TRUE(state().counts.refused.contains("cudaIpcGetMemHandle"));
}

// Of programs that end together each has a line of its own.
TEST(Reports, OfSeveralProcessesDoNotMix) {
  const std::string file = testing::TempDir() + "dry_reports." + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int k = 0; k < 5000; ++k) launched(std::string(100, 'k') + std::to_string(k), nullptr);
    setenv("TENFOLD_DRY_REPORT", file.c_str(), 1);
    std::exit(0);
  }
  for (const pid_t child : children) EXPECT_EQ(waitpid(child, nullptr, 0), child);
  std::ifstream lines(file);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(line.starts_with("{\"process\"") && line.ends_with("}}"));
    EXPECT_EQ(line.find("\"process\"", 3), std::string::npos);
  }
  EXPECT_EQ(count, children.size());
  std::remove(file.c_str());
}

/// Streams in an order in which a GPU might run them.
class Streams : public testing::TestWithParam<Order> {
 protected:
  Streams() {
    state().order = GetParam();
    device_ = static_cast<int*>(memory_of(4096));
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), 4096, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    *pinned_ = 0;
    cudaMemset(device_, 0, 4096);
    cudaDeviceSynchronize();
  }
  ~Streams() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaEventDestroy(event_);
    cudaStreamDestroy(side_);
    cudaStreamDestroy(other_);
    cudaFreeHost(pinned_);
    cudaFree(device_);
    state().order = Order::at_once;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  bool late() const { return GetParam() == Order::late; }
  bool at_once() const { return GetParam() == Order::at_once; }
  int on_device() {
    int value = -1;
    EXPECT_EQ(cudaMemcpy(&value, device_, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  int *device_ = nullptr, *pinned_ = nullptr;
  cudaStream_t side_ = nullptr, other_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_P(Streams, AMissingWaitBeforeAReadIsSeenLate) {
  *pinned_ = 7;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  EXPECT_EQ(on_device(), late() ? 0 : 7) << "nobody has waited for the side stream";
  cudaStreamSynchronize(side_);
  EXPECT_EQ(on_device(), 7);
}

TEST_P(Streams, AMissingWaitBeforeAnOverwriteIsSeenEarly) {
  *pinned_ = 1;
  int* const result = device_ + 8;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, nullptr);
  cudaMemcpyAsync(result, device_, sizeof(int), cudaMemcpyDefault, nullptr);  // the default stream still reads it
  int* const next = pinned_ + 8;
  *next = 2;
  cudaMemcpyAsync(device_, next, sizeof(int), cudaMemcpyDefault, side_);
  cudaDeviceSynchronize();
  int value = 0;
  cudaMemcpy(&value, device_, sizeof value, cudaMemcpyDefault);
  // Late: the default stream is run first, and the side stream overwrites at last.
  EXPECT_EQ(value, GetParam() == Order::early ? 1 : 2);
}

TEST_P(Streams, AWaitOrdersThem) {
  *pinned_ = 5;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  cudaEventRecord(event_, side_);
  cudaStreamWaitEvent(nullptr, event_, 0);
  EXPECT_EQ(on_device(), 5);
  // The other way round: the side stream waits for what the default one has still to do.
  *pinned_ = 6;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, nullptr);
  cudaEventRecord(event_, nullptr);
  cudaStreamWaitEvent(side_, event_, 0);
  cudaMemcpyAsync(device_ + 1, device_, sizeof(int), cudaMemcpyDefault, side_);
  cudaStreamSynchronize(side_);
  int value = 0;
  cudaMemcpy(&value, device_ + 1, sizeof value, cudaMemcpyDefault);
  EXPECT_EQ(value, 6);
}

TEST_P(Streams, PinnedMemoryIsReadWhenItsCopyRunsAndOtherAtTheCall) {
  int pageable = 3;
  cudaMemcpyAsync(device_, &pageable, sizeof(int), cudaMemcpyDefault, nullptr);
  pageable = 4;
  EXPECT_EQ(on_device(), 3);
  *pinned_ = 3;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, nullptr);
  *pinned_ = 4;  // too early
  EXPECT_EQ(on_device(), at_once() ? 3 : 4);
}

TEST_P(Streams, BlockingOnesAndTheDefaultOneWaitForEachOther) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  *pinned_ = 9;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, blocking);
  EXPECT_EQ(on_device(), 9);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(blocking), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_P(Streams, AnEventOfTheDefaultStreamComesBehindBlockingOnes) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  for (const bool by_event : {true, false}) {
    *pinned_ = 0;
    cudaMemset(device_, by_event ? 1 : 2, sizeof(int));
    cudaMemcpyAsync(pinned_, device_, sizeof(int), cudaMemcpyDefault, blocking);
    EXPECT_EQ(cudaEventRecord(event_, nullptr), cudaSuccess);
    EXPECT_EQ(by_event ? cudaEventSynchronize(event_) : cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(*pinned_, by_event ? 0x01010101 : 0x02020202);
  }
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_P(Streams, WhoeverAsksAgainAndAgainSeesItDone) {
  *pinned_ = 8;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  cudaEventRecord(event_, side_);
  int asked = 1;
  while (cudaEventQuery(event_) == cudaErrorNotReady && asked < 1000) ++asked;
  EXPECT_LT(asked, 1000);
  EXPECT_EQ(asked > 1, late());
  EXPECT_EQ(on_device(), 8);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not being ready is no error";
  *pinned_ = 9;
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  asked = 1;
  while (cudaStreamQuery(side_) == cudaErrorNotReady && asked < 1000) ++asked;
  EXPECT_LT(asked, 1000);
  EXPECT_EQ(asked > 1, late());
  EXPECT_EQ(on_device(), 9);
}

TEST_P(Streams, CallbacksComeInOrder) {
  static std::vector<int> seen;
  seen.clear();
  static constexpr int kNumbers[] = {0, 1, 2};
  const auto add = [](void* number) { seen.push_back(*static_cast<int*>(number)); };
  for (const int& number : kNumbers) cudaLaunchHostFunc(side_, add, const_cast<int*>(&number));
  cudaStreamSynchronize(side_);
  EXPECT_EQ(seen, (std::vector{0, 1, 2}));
}

// An item's own work may call the runtime: what page-locked memory that goes records must not let a stream overtake
// itself.
TEST_P(Streams, WorkThatRecordsAnEventDoesNotOvertakeAWait) {
  static std::vector<int> seen;
  seen.clear();
  static cudaEvent_t inside = event_;
  inside = event_;
  cudaEvent_t ready = nullptr;
  cudaEventCreate(&ready);
  cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        cudaEventRecord(inside, nullptr);
        seen.push_back(0);
      },
      nullptr);
  cudaEventRecord(ready, nullptr);
  cudaStreamWaitEvent(side_, ready, 0);
  cudaLaunchHostFunc(side_, [](void*) { seen.push_back(1); }, nullptr);
  cudaStreamSynchronize(side_);
  EXPECT_EQ(seen, (std::vector{0, 1}));
  cudaEventDestroy(ready);
}

TEST_P(Streams, AQueueThatGrowsIsWorkedOff) {
  for (int i = 0; i < 30'000; ++i) cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  EXPECT_LE(reinterpret_cast<Stream*>(side_)->queue.size(), 10'000U);
}

TEST_P(Streams, AGraphIsRecordedAndReplayed) {
  *pinned_ = 1;
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, side_);
  cudaEventRecord(event_, side_);
  cudaStreamWaitEvent(other_, event_, 0);  // joins
  cudaMemcpyAsync(device_ + 1, device_, sizeof(int), cudaMemcpyDefault, other_);
  cudaEventRecord(event_, other_);
  cudaStreamWaitEvent(side_, event_, 0);
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing(other_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side_, &graph), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2U);
  EXPECT_EQ(on_device(), 0) << "nothing ran while it was captured";
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 1; i < 4; ++i) {
    *pinned_ = i;
    ASSERT_EQ(cudaGraphLaunch(executable, side_), cudaSuccess);
    cudaStreamSynchronize(side_);
    int both[2] = {};
    cudaMemcpy(both, device_, sizeof both, cudaMemcpyDefault);
    EXPECT_EQ(both[0], i);
    EXPECT_EQ(both[1], i);
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaErrorInvalidValue);
  cudaGetLastError();
}

// Memory that is not pinned is read when the graph is launched: nothing waits for it while it is captured.
TEST_P(Streams, ACopyFromPageableMemoryCanBeCaptured) {
  int pageable = 1;
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device_, &pageable, sizeof(int), cudaMemcpyDefault, side_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side_, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  pageable = 2;
  cudaGraphLaunch(executable, side_);
  cudaStreamSynchronize(side_);
  EXPECT_EQ(on_device(), 2);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_P(Streams, WhatACaptureForbidsMakesItInvalid) {
  const auto end_after = [&](const std::function<cudaError_t()>& call, cudaError_t expected, const char* what) {
    EXPECT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(call(), expected) << what;
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(side_, &graph);
    EXPECT_EQ(graph == nullptr, end != cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return end;
  };
  void* memory = nullptr;
  const auto synchronise = [&] { return cudaStreamSynchronize(side_); };
  EXPECT_EQ(end_after(synchronise, cudaErrorStreamCaptureUnsupported, "waits"), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_after([] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported, "waits for all"),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_after([&] { return cudaMalloc(&memory, 512); }, cudaErrorStreamCaptureUnsupported, "allocates"),
            cudaErrorStreamCaptureInvalidated);
  cudaEventRecord(event_, other_);
  const auto wait = [&] { return cudaStreamWaitEvent(side_, event_, 0); };
  EXPECT_EQ(end_after(wait, cudaErrorStreamCaptureIsolation, "waits for what is not captured"),
            cudaErrorStreamCaptureInvalidated);
  const auto fork = [&] {
    cudaEventRecord(event_, side_);
    cudaStreamWaitEvent(other_, event_, 0);
    return cudaMemsetAsync(device_, 0, 4, other_);
  };
  EXPECT_EQ(end_after(fork, cudaSuccess, "forks"), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(end_after([] { return cudaSuccess; }, cudaSuccess, "does nothing"), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(side_, nullptr), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  // Another thread may not end it, and may allocate meanwhile unless the capture is global.
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([&] {
    EXPECT_EQ(cudaMalloc(&memory, 512), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(side_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(side_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_P(Streams, AnEventOfACaptureThatHasEndedIsNotWaitedFor) {
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(event_, side_);
  EXPECT_EQ(cudaEventRecordWithFlags(event_, side_, cudaEventRecordExternal), cudaErrorNotSupported);
  EXPECT_EQ(cudaStreamWaitEvent(side_, event_, cudaEventWaitExternal), cudaErrorNotSupported);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side_, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, sizeof(int), other_), cudaSuccess) << "it captures nothing";
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_TRUE(state().counts.refused.contains("cudaStreamWaitEvent(cudaEventWaitExternal)"));
  cudaGetLastError();
}

TEST_P(Streams, OfAThreadGoWithIt) {
  const size_t before = state().streams.size();
  *pinned_ = 4;
  std::thread([&] {
    cudaMemcpyAsync(device_, pinned_, sizeof(int), cudaMemcpyDefault, cudaStreamPerThread);
    EXPECT_EQ(state().streams.size(), before + 1);
  }).join();
  EXPECT_EQ(state().streams.size(), before);
  EXPECT_EQ(on_device(), 4) << "its work is done first";
}

TEST_P(Streams, ThatAreDestroyedCaptureNoMore) {
  cudaStream_t captures = nullptr;
  ASSERT_EQ(cudaStreamCreate(&captures), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(captures, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(captures), cudaSuccess);
  EXPECT_TRUE(state().captures.empty());
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 512), cudaSuccess) << "nobody captures";
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

// Its own item is not over while it asks.
TEST_P(Streams, WorkThatAsksForItselfIsNotDone) {
  static cudaError_t answer = cudaSuccess;
  static cudaEvent_t behind = nullptr;
  behind = event_;
  cudaLaunchHostFunc(
      side_,
      [](void*) {
        for (int i = 0; i < 100; ++i) answer = cudaEventQuery(behind);
      },
      nullptr);
  cudaEventRecord(event_, side_);
  cudaStreamSynchronize(side_);
  EXPECT_EQ(answer, late() ? cudaErrorNotReady : cudaSuccess) << "else it ran before the event was recorded";
}

TEST_P(Streams, AnEventThatWasDestroyedIsNone) {
  cudaEvent_t gone = nullptr;
  cudaEventCreate(&gone);
  cudaEventRecord(gone, side_);
  EXPECT_EQ(cudaEventDestroy(gone), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(gone, side_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(gone), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

std::string name_of(const testing::TestParamInfo<Order>& order) {
  return order.param == Order::at_once ? "at_once" : order.param == Order::late ? "late" : "early";
}
INSTANTIATE_TEST_SUITE_P(Orders, Streams, testing::Values(Order::at_once, Order::late, Order::early), name_of);

}  // namespace
}  // namespace tenfold::dry
