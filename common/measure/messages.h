#pragma once
// Messages between this process and one that runs a variant's steps. common/measure/other_process.h says which.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "common/measure/setting.h"
#include "common/measure/step.h"

namespace tenfold {

/// On the socket: the bytes of `head` as a number of 4 bytes, those of `body` as one of 8, both little-endian; then
/// `head`, a JSON object in UTF-8, and `body`.
struct Message {
  nlohmann::ordered_json head;
  std::string body = {};
};

/// False where nobody is at the other end any more.
bool send_message(int socket, const Message& message);
/// Nothing where nobody is at the other end any more. Throws std::runtime_error for what is no message, and when none
/// has begun within `patience_s` seconds (0: waits for ever).
std::optional<Message> receive_message(int socket, double patience_s = 0);

/// Losses as they are, also those that are no numbers, which JSON does not have: 8 bytes each.
std::string bytes_of(const std::vector<double>& numbers);
std::vector<double> numbers_in(const std::string& bytes);

/// Tensors, copied from their device: `head` lists name, shape, strides and type of each, "parameters" first.
Message message_of(const Gathered& whole);
/// The same on the CPU. Throws std::runtime_error where head and body do not fit.
Gathered gathered_in(const Message& message);

nlohmann::ordered_json json_of(const SettingValue& value);
SettingValue value_in(const nlohmann::ordered_json& json);

}  // namespace tenfold
