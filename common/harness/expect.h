#pragma once
// What a lesson states of its techniques before they are measured. Each part has a type of its own, so a claim about
// memory cannot stand where speed belongs:
//
//   using namespace tenfold::expect;
//   {"accumulate", {SLOWER, SMALLER}}      {"bf16", SMALLER}      {"packed", {}}
//   {"no division", TRAP}                  {"pinned in the loop", mistake(SLOWER)}
//   {"bf16", SMALLER, on_cuda({FASTER, SMALLER})}          on a GPU both, elsewhere the first
//   {"bf16", train_in_bf16, NOT_WORSE}     {"rounded", train_rounded, {WORSE, SLOWER}}     of a training

#include <optional>
#include <string>

namespace tenfold {

namespace expect {
enum class Speed { any, faster, slower, same };
enum class Memory { any, smaller, larger, same };
enum class Kind {
  technique,  ///< computes the same
  mistake,    ///< computes the same, and is worse
  trap,       ///< wrong: the agreement check must find it out, whatever else happens to it
  exceeds     ///< needs more memory than the case's budget: it must run out of memory
};
enum class Quality { any, not_worse, worse };
inline constexpr Speed FASTER = Speed::faster, SLOWER = Speed::slower, SAME_SPEED = Speed::same;
inline constexpr Memory SMALLER = Memory::smaller, LARGER = Memory::larger, SAME_MEMORY = Memory::same;
inline constexpr Quality NOT_WORSE = Quality::not_worse, WORSE = Quality::worse;
inline constexpr Kind TRAP = Kind::trap, EXCEEDS = Kind::exceeds;
}  // namespace expect

/// Empty: valid, and nothing stated of speed and memory.
struct Expect {
  expect::Speed speed = expect::Speed::any;
  expect::Memory memory = expect::Memory::any;
  expect::Kind kind = expect::Kind::technique;

  // NOLINTBEGIN(google-explicit-constructor): one claim alone is an expectation.
  constexpr Expect() = default;
  constexpr Expect(expect::Speed speed) : speed(speed) {}
  constexpr Expect(expect::Memory memory) : memory(memory) {}
  constexpr Expect(expect::Speed speed, expect::Memory memory) : speed(speed), memory(memory) {}
  /// TRAP or EXCEEDS: what must fail is not measured.
  constexpr Expect(expect::Kind kind) : kind(kind) {}
  // NOLINTEND(google-explicit-constructor)
};

namespace expect {
/// Right, but worse: it says in what.
constexpr Expect mistake(Expect worse) {
  worse.kind = Kind::mistake;
  return worse;
}
}  // namespace expect

/// What one way to train should come to, compared with the baseline's.
struct ExpectTrained {
  expect::Quality quality = expect::Quality::any;  ///< at the end
  expect::Speed speed = expect::Speed::any;        ///< to an equal quality
  expect::Memory memory = expect::Memory::any;     ///< the peak of its first seed

  // NOLINTBEGIN(google-explicit-constructor): one claim alone is an expectation.
  constexpr ExpectTrained() = default;
  constexpr ExpectTrained(expect::Quality quality) : quality(quality) {}
  constexpr ExpectTrained(expect::Quality quality, expect::Speed speed, expect::Memory memory = expect::Memory::any)
      : quality(quality), speed(speed), memory(memory) {}
  constexpr ExpectTrained(expect::Quality quality, expect::Memory memory) : quality(quality), memory(memory) {}
  // NOLINTEND(google-explicit-constructor)
};

namespace expect {
/// What stands instead on a GPU, where hardware decides. A type of its own, since `{"bf16", SLOWER, SMALLER}` would
/// look like one claim.
template <class Claim>
struct OnCuda {
  Claim claim;
};
constexpr OnCuda<Expect> on_cuda(Expect claim = {}) { return {claim}; }
constexpr OnCuda<ExpectTrained> on_cuda(ExpectTrained claim) { return {claim}; }
}  // namespace expect

/// What a technique should do in a case.
struct Expectation {
  std::string technique;
  Expect expect = {};
  std::optional<expect::OnCuda<Expect>> on_cuda = std::nullopt;
};

std::string to_string(expect::Speed speed);      ///< as result files have it: "FASTER"
std::string to_string(expect::Memory memory);    ///< "SMALLER"
std::string to_string(expect::Quality quality);  ///< "NOT WORSE"
std::string to_string(expect::Kind kind);        ///< "technique"

}  // namespace tenfold
