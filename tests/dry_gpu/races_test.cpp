// Races on a card that is not there: two streams and LibTorch's operators, where it is known by construction which
// waits are needed. Started with the stand-ins and the arithmetic preloaded.

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <random>
#include <set>
#include <thread>

#include "common/dry_gpu/races.h"

namespace tenfold {
namespace {

using at::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using dry::take_races;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

const torch::Device kCard(torch::kCUDA, 0);

CUDAStream main_stream() { return c10::cuda::getCurrentCUDAStream(0); }
CUDAStream side_stream() { return c10::cuda::getStreamFromPool(false, 0); }

/// `waiting` waits for all that `on` was handed over.
void wait_for(CUDAStream waiting, CUDAStream on) {
  CUDAEvent event;
  event.record(on);
  event.block(waiting);
}

void begin() {
  c10::cuda::device_synchronize();
  take_races();
}

// --- programs drawn by chance ---------------------------------------------------------------------------------------

struct Operator {
  const char* name;
  size_t sources;
  std::function<void(Tensor&, const Tensors&)> work;
  bool reads_target = false;
};

const std::vector<Operator>& operators() {
  static const auto& all = *new std::vector<Operator>{
      {"aten::mul", 2, [](Tensor& to, const Tensors& from) { torch::mul_out(to, from[0], from[1]); }},
      {"aten::mm", 2, [](Tensor& to, const Tensors& from) { torch::mm_out(to, from[0], from[1]); }},
      {"aten::add_", 1, [](Tensor& to, const Tensors& from) { to.add_(from[0]); }, true},
      {"aten::copy_", 1, [](Tensor& to, const Tensors& from) { to.copy_(from[0]); }},
      {"aten::fill_", 0, [](Tensor& to, const Tensors&) { to.fill_(3); }},
      {"aten::sum", 1,
       [](Tensor& to, const Tensors& from) {
         Tensor row = to[0];
         torch::sum_out(row, from[0], at::IntArrayRef{0});
       }},
      {"aten::_foreach_mul_", 1,
       [](Tensor& to, const Tensors& from) { torch::_foreach_mul_(Tensors{to}, Tensors{from[0]}); }, true},
  };
  return all;
}

struct Call {
  size_t which = 0;  // operator
  bool on_side = false;
  size_t to = 0;
  std::vector<size_t> from;
  bool waits = false;  // for all that the other stream was handed over before
};

bool conflict(const Call& a, const Call& b) {
  const auto touches = [](const Call& call, size_t tensor) {
    return call.to == tensor || std::ranges::find(call.from, tensor) != call.from.end();
  };
  return touches(a, b.to) || touches(b, a.to);
}

/// By steps from the later call backwards, along its stream and its waits.
bool comes_before(const std::vector<Call>& program, size_t earlier, size_t later) {
  std::set<size_t> reached;
  std::vector<size_t> open{later};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (at == earlier) return true;
    if (!reached.insert(at).second) continue;
    for (size_t before = 0; before < at; ++before) {
      if (program[before].on_side == program[at].on_side || program[at].waits) open.push_back(before);
    }
  }
  return false;
}

std::set<std::pair<size_t, size_t>> races_of(const std::vector<Call>& program) {
  std::set<std::pair<size_t, size_t>> races;
  for (size_t later = 0; later < program.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      if (program[earlier].on_side != program[later].on_side && conflict(program[earlier], program[later]) &&
          !comes_before(program, earlier, later))
        races.insert({earlier, later});
    }
  }
  return races;
}

/// Without a race; no wait of it can be left out.
std::vector<Call> drawn_program(uint32_t seed, size_t tensors) {
  std::mt19937 random(seed);
  std::vector<Call> program;
  for (int i = 0; i < 12; ++i) {
    Call call{.which = random() % operators().size(), .on_side = random() % 2 == 0, .to = random() % tensors};
    for (size_t k = 0; k < operators()[call.which].sources; ++k) {
      size_t from = random() % tensors;
      if (from == call.to) from = (from + 1) % tensors;  // out= may not be an input of a matmul
      call.from.push_back(from);
    }
    program.push_back(call);
    program.back().waits = !races_of(program).empty();
  }
  return program;
}

void run(const std::vector<Call>& program) {
  Tensors tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(torch::full({8, 8}, 0.01, kCard));
  begin();
  const CUDAStream main = main_stream(), side = side_stream();
  for (const Call& call : program) {
    const CUDAStream on = call.on_side ? side : main;
    if (call.waits) wait_for(on, call.on_side ? main : side);
    const CUDAStreamGuard guard(on);
    Tensors from;
    for (const size_t i : call.from) from.push_back(tensors[i]);
    operators()[call.which].work(tensors[call.to], from);
  }
  c10::cuda::device_synchronize();
}

TEST(DrawnPrograms, AreClean) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Call> program = drawn_program(seed, 4);
    ASSERT_TRUE(races_of(program).empty());
    run(program);
    EXPECT_THAT(take_races(), IsEmpty()) << "seed " << seed;
  }
}

TEST(DrawnPrograms, HaveTheRacesOfTheWaitThatIsLeftOut) {
  size_t left_out = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Call> whole = drawn_program(seed, 4);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (!whole[i].waits) continue;
      std::vector<Call> program = whole;
      program[i].waits = false;
      const auto expected = races_of(program);
      ASSERT_FALSE(expected.empty());
      ++left_out;
      run(program);
      const std::vector<std::string> found = take_races();
      ASSERT_FALSE(found.empty()) << "seed " << seed << " without the wait of call " << i;
      // Which operators, and on which stream each.
      std::set<std::string> pairs;
      bool first = false;
      for (const auto& [earlier, later] : expected) {
        const Call &a = program[earlier], &b = program[later];
        const std::string pair = std::string(operators()[b.which].name) + (b.on_side ? " side " : " main ") +
                                 operators()[a.which].name + (a.on_side ? " side" : " main");
        pairs.insert(pair);
      }
      for (const std::string& text : found) {
        const bool side_is_later = text.find(" on stream ") < text.find("nothing orders");
        const auto operator_in = [](const std::string& part) { return part.substr(0, part.find(' ')); };
        const std::string pair = operator_in(text) + (side_is_later ? " side " : " main ") +
                                 operator_in(text.substr(text.find("the two: ") + 9)) +
                                 (side_is_later ? " main" : " side");
        EXPECT_TRUE(pairs.contains(pair)) << "seed " << seed << ": " << text;
        first = first || pairs.contains(pair);
      }
      EXPECT_TRUE(first);
    }
  }
  EXPECT_GE(left_out, 40);
}

// --- what is said ----------------------------------------------------------------------------------------------------

// Neither inlined nor left before its call returns.
[[gnu::noinline]] void reader_of_a_race(const Tensor& x) {
  x.sum();
  asm volatile("" ::: "memory");
}
[[gnu::noinline]] void writer_of_a_race(Tensor& x) {
  x.fill_(2);
  asm volatile("" ::: "memory");
}

TEST(Races, NameBothPlaces) {
  Tensor x = torch::ones({1024}, kCard);
  begin();
  const CUDAStream side = side_stream();
  for (int i = 0; i < 3; ++i) {
    {
      const CUDAStreamGuard guard(side);
      writer_of_a_race(x);
    }
    reader_of_a_race(x);
  }
  const std::vector<std::string> races = take_races();
  ASSERT_EQ(races.size(), 2) << "each pair of places once: a read of what is written, a write of what is read";
  EXPECT_THAT(races[0],
              AllOf(HasSubstr("aten::sum in "), HasSubstr("reader_of_a_race"), HasSubstr("reads 4.0 KiB that stream "),
                    HasSubstr("aten::fill_ in "), HasSubstr("writer_of_a_race")));
  EXPECT_THAT(races[1], AllOf(HasSubstr("on stream "), HasSubstr("writes 4.0 KiB that the default stream reads")));
  EXPECT_THAT(take_races(), IsEmpty()) << "they were taken";
}

TEST(Races, OfABackwardPassNameItsForwardPass) {
  Tensor x = torch::ones({1024}, kCard).requires_grad_(), w = torch::ones({1024}, kCard);
  const Tensor y = (x * w).sum();
  begin();
  {
    const CUDAStreamGuard guard(side_stream());
    w.data().mul_(0.5);
  }
  y.backward();
  EXPECT_THAT(take_races(), testing::Contains(AllOf(HasSubstr("backward() of "), HasSubstr("aten::mul_ in "))));
}

TEST(Races, PartsOfATensorAreApart) {
  Tensor x = torch::ones({64, 64}, kCard);
  begin();
  {
    const CUDAStreamGuard guard(side_stream());
    x.slice(1, 0, 32).fill_(2);
    x.slice(0, 0, 1).slice(1, 32, 40).fill_(3);
  }
  x.slice(1, 48).fill_(4);
  EXPECT_THAT(take_races(), IsEmpty());
  x.slice(1, 36, 50).fill_(5);
  EXPECT_THAT(take_races(), testing::SizeIs(1));
}

TEST(Races, WhatTheHostHasWaitedForIsOrderedForAllItsThreads) {
  Tensor x = torch::ones({64}, kCard);
  begin();
  const CUDAStream side = side_stream();
  CUDAEvent done;
  {
    const CUDAStreamGuard guard(side);
    x.fill_(2);
    done.record();
  }
  std::thread([&done] { done.synchronize(); }).join();
  EXPECT_EQ(x.sum().item<float>(), 128);
  EXPECT_THAT(take_races(), IsEmpty());
}

TEST(Races, WhoAsksAStreamUntilItIsDoneHasWaited) {
  Tensor x = torch::ones({64}, kCard);
  begin();
  const CUDAStream side = side_stream();
  {
    const CUDAStreamGuard guard(side);
    x.fill_(2);
  }
  while (!side.query()) continue;
  EXPECT_EQ(x.sum().item<float>(), 128);
  EXPECT_THAT(take_races(), IsEmpty());
}

// Two default streams would be ordered: the legacy one waits for those that are not non-blocking, as LibTorch's are.
TEST(Races, TheDefaultStreamWaitsForBlockingStreams) {
  Tensor x = torch::ones({64}, kCard);
  begin();
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    {
      const CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(stream, 0));
      x.fill_(2);
    }
    x.sum();
    EXPECT_EQ(take_races().size(), flags == cudaStreamDefault ? 0 : 1);
    c10::cuda::device_synchronize();
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

// --- memory that is freed
// ---------------------------------------------------------------------------------------------

enum class Frees { too_early, with_record_stream, behind_a_wait };

std::vector<std::string> races_when_freed(Frees how) {
  Tensor a = torch::ones({1 << 20}, kCard);
  begin();
  const CUDAStream side = side_stream();
  wait_for(side, main_stream());
  {
    const CUDAStreamGuard guard(side);
    a.sum();
  }
  if (how == Frees::with_record_stream) a.record_stream(side);
  if (how == Frees::behind_a_wait) wait_for(main_stream(), side);
  const void* const memory = a.data_ptr();
  a = Tensor();
  Tensors others;
  do others.push_back(torch::full({1 << 20}, 5.0, kCard));
  while (others.back().data_ptr() != memory && others.size() < 8);
  c10::cuda::device_synchronize();
  return take_races();
}

TEST(FreedMemory, IsARaceUnlessTheStreamIsRecordedOrWaitedFor) {
  EXPECT_THAT(
      races_when_freed(Frees::too_early),
      ElementsAre(AllOf(HasSubstr("aten::full in "), HasSubstr("writes 4.0 MiB of memory that was freed while stream "),
                        HasSubstr("may still read it, without record_stream() or a wait: aten::sum in "))));
  // Run again with TENFOLD_DRY_FORGET=record_stream: then the call does nothing.
  EXPECT_EQ(races_when_freed(Frees::with_record_stream).size(), std::getenv("TENFOLD_DRY_FORGET") == nullptr ? 0 : 1);
  EXPECT_THAT(races_when_freed(Frees::behind_a_wait), IsEmpty());
}

// Memory is handed out in the order of one stream; another one must wait for that.
TEST(FreedMemory, IsOnlyFreeForTheStreamThatAskedForIt) {
  const auto with = [](bool waits) {
    Tensor a = torch::ones({1 << 20}, kCard);
    begin();
    const CUDAStream side = side_stream();
    a.mul_(2);  // still to be done when a is freed
    a = Tensor();
    Tensor b = torch::empty({1 << 20}, kCard);
    if (waits) wait_for(side, main_stream());
    const CUDAStreamGuard guard(side);
    b.fill_(1);
    c10::cuda::device_synchronize();
    return take_races();
  };
  EXPECT_THAT(with(true), IsEmpty());
  EXPECT_THAT(with(false), ElementsAre(HasSubstr("handed out in the order of the default stream")));
}

// --- pinned memory ---------------------------------------------------------------------------------------------------

TEST(PinnedMemory, ChangedBeforeItsCopyHasRun) {
  const auto with = [](bool waits) {
    Tensor pinned = torch::ones({1024}).pin_memory();
    begin();
    const Tensor card = pinned.to(kCard, /*non_blocking=*/true);
    CUDAEvent copied;
    copied.record();
    if (waits) copied.synchronize();
    pinned.fill_(2);
    c10::cuda::device_synchronize();
    return take_races();
  };
  EXPECT_THAT(with(true), IsEmpty());
  EXPECT_THAT(with(false), testing::Contains(AllOf(HasSubstr("aten::fill_ in "),
                                                   HasSubstr("on the CPU writes 4.0 KiB of pinned memory"),
                                                   HasSubstr("may still read: aten::"))));
}

// Whoever writes through a pointer is no operator. It shows where the copy runs late.
TEST(PinnedMemory, ChangedThroughAPointer) {
  const auto with = [](bool waits) {
    Tensor pinned = torch::ones({1024}).pin_memory();
    begin();
    const Tensor card = pinned.to(kCard, /*non_blocking=*/true);
    if (waits) main_stream().synchronize();
    pinned.data_ptr<float>()[17] = 3;
    c10::cuda::device_synchronize();
    return take_races();
  };
  EXPECT_THAT(with(true), IsEmpty());
  EXPECT_THAT(with(false), ElementsAre(HasSubstr("pinned memory were changed before they were copied")));
}

TEST(PinnedMemory, ReadBeforeTheCopyHasArrived) {
  const auto with = [](bool waits) {
    const Tensor card = torch::ones({1024}, kCard);
    Tensor pinned = torch::zeros({1024}).pin_memory();
    begin();
    pinned.copy_(card, /*non_blocking=*/true);
    if (waits) main_stream().synchronize();
    const float sum = pinned.sum().item<float>();
    c10::cuda::device_synchronize();
    return std::pair(take_races(), sum);
  };
  EXPECT_THAT(with(true).first, IsEmpty());
  EXPECT_EQ(with(true).second, 1024);
  EXPECT_THAT(with(false).first,
              ElementsAre(AllOf(HasSubstr("aten::sum in "), HasSubstr("on the CPU reads 4.0 KiB of pinned memory"),
                                HasSubstr("may still write: aten::copy_ in "))));
}

// Down into pinned memory and up again in one stream: what goes up is what came down.
TEST(PinnedMemory, BetweenTwoCopiesOfOneStream) {
  const Tensor card = torch::ones({1024}, kCard);
  Tensor pinned = torch::zeros({1024}).pin_memory();
  begin();
  pinned.copy_(card, true);
  EXPECT_EQ(pinned.to(kCard, true).sum().item<float>(), 1024);
  EXPECT_THAT(take_races(), IsEmpty());
}

// cudaHostUnregister waits for whoever uses the memory.
TEST(PinnedMemory, ThatIsRegisteredAgainIsNew) {
  Tensor memory = torch::ones({1024});
  void* const address = memory.data_ptr();
  ASSERT_EQ(cudaHostRegister(address, memory.nbytes(), 0), cudaSuccess);
  Tensor card = torch::zeros({1024}, kCard);
  begin();
  ASSERT_EQ(cudaMemcpyAsync(card.data_ptr(), address, memory.nbytes(), cudaMemcpyHostToDevice, side_stream().stream()),
            cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(address), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(address), cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
  ASSERT_EQ(cudaHostRegister(address, memory.nbytes(), 0), cudaSuccess);
  memory.fill_(2);
  EXPECT_THAT(take_races(), IsEmpty());
  EXPECT_EQ(cudaHostUnregister(address), cudaSuccess);
}

// --- kernels of the program's own ------------------------------------------------------------------------------------

// What a pointer of a kernel is to says its name: const is read, the rest is written.
TEST(OwnKernels, UseWhatTheirPointersPointTo) {
  using Register = void (*)(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
  const auto make_known = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "__cudaRegisterFunction"));
  ASSERT_NE(make_known, nullptr);
  static const char kernel = 0;
  // void scale<float>(float*, float const*, std::function<float (float const*, float*)>, long)
  make_known(nullptr, &kernel, nullptr, "_Z5scaleIfEvPT_PKS0_St8functionIFS0_S3_S1_EEl", -1, nullptr, nullptr, nullptr,
             nullptr, nullptr);
  const Tensor to = torch::zeros({1024}, kCard), from = torch::ones({1024}, kCard);
  begin();
  const CUDAStream side = side_stream();
  void *to_data = to.data_ptr(), *from_data = from.data_ptr(), *not_a_pointer = from_data;
  int64_t count = 1024;
  std::array<void*, 4> arguments{static_cast<void*>(&to_data), static_cast<void*>(&from_data),
                                 static_cast<void*>(&not_a_pointer), &count};
  ASSERT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(32), arguments.data(), 0, side.stream()), cudaSuccess);
  from.sum();
  EXPECT_THAT(take_races(), IsEmpty()) << "both read";
  to.sum();
  EXPECT_THAT(take_races(), ElementsAre(AllOf(HasSubstr("on the default stream reads memory that stream "),
                                              HasSubstr(" writes, and nothing orders the two: scale<float> in "))));
  from.mul_(2);
  EXPECT_THAT(take_races(), ElementsAre(HasSubstr("on the default stream writes memory that stream ")));
  c10::cuda::device_synchronize();
}

// --- graphs ----------------------------------------------------------------------------------------------------------

// CUDA does not run two launches of the same executable graph at once, whatever their streams are.
TEST(Graphs, AreOrderedAmongTheirLaunches) {
  const CUDAStream stream = side_stream(), other = side_stream();
  const CUDAStreamGuard guard(stream);
  Tensor a = torch::zeros({64}, kCard);
  begin();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  a.mul_(2).add_(1);
  graph.capture_end();
  graph.replay();
  {
    const CUDAStreamGuard on_other(other);
    graph.replay();
    EXPECT_EQ(a.sum().item<float>(), 64 * 3);
  }
  EXPECT_THAT(take_races(), IsEmpty());
  c10::cuda::device_synchronize();
}

TEST(Graphs, AreOrderedByTheirEdges) {
  for (const bool joined : {true, false}) {
    const CUDAStream stream = side_stream(), other = side_stream();
    const CUDAStreamGuard guard(stream);
    Tensor a = torch::ones({64}, kCard), b = torch::ones({64}, kCard);
    begin();
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    wait_for(other, stream);
    {
      const CUDAStreamGuard on_other(other);
      b.mul_(2);
    }
    if (joined) wait_for(stream, other);
    a.add_(b);
    if (!joined) wait_for(stream, other);
    graph.capture_end();
    EXPECT_EQ(take_races().size(), joined ? 0 : 1);
    // A replay is one piece of work of its stream.
    graph.replay();
    a.sum();
    EXPECT_THAT(take_races(), IsEmpty());
    {
      const CUDAStreamGuard on_other(other);
      b.fill_(1);
    }
    EXPECT_THAT(take_races(), testing::Not(IsEmpty()));
    c10::cuda::device_synchronize();
  }
}

}  // namespace
}  // namespace tenfold
