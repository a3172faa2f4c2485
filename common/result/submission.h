#pragma once
// The file `tenfold.send/1`: what is sent of the results of a machine, and nothing else. docs/sending_results.md is its
// page.

#include <string>
#include <vector>

#include "common/result/result.h"
#include "common/result/self_test.h"

namespace tenfold {

inline constexpr const char* kSendSchema = "tenfold.send/1";

struct Submission {
  std::string commit, preset, machine;  ///< of all results
  SelfTest self_test;                   ///< of their rounds
  std::vector<Result> results;          ///< as sendable() leaves them
};

/// The fields of a result that are sent, as "cases[].variants[].blocks[].wall_ns"; "settings.*" stands for whatever the
/// lesson calls its settings. A field that is added to the schema is not sent before it stands here.
const std::vector<std::string>& sendable_fields();

/// The result with nothing in it but those fields. In their texts a path becomes "(path)"; the text of an error, which
/// may hold anything, is left out; of the operating system only its name and the kernel's number are kept. What was
/// taken out is added to `left_out`, a line each, unless that is null.
Result sendable(const Result& result, std::vector<std::string>* left_out = nullptr);

std::string format_submission(const Submission& submission);

/// Reads strictly. Throws FileError on another schema, an unknown field, a result that holds more than sendable()
/// leaves, and a self-test that does not follow from the rounds.
Submission parse_submission(const std::string& text, const std::string& name);

}  // namespace tenfold
