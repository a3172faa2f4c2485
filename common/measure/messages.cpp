#include "common/measure/messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  uint32_t head = 0;
  uint64_t body = 0;
};
constexpr size_t kSizeBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kLongestHead = 64 << 20;    // a name and a shape for each of many parameters are far below
constexpr uint64_t kLongestBody = 1ULL << 40;  // more is no message

bool send_all(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent, bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t received = recv(socket, data, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    data += received, bytes -= static_cast<size_t>(received);
  }
  return true;
}

void wait_for_bytes(int socket, double patience_s) {
  pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
  const auto milliseconds = static_cast<int>(std::llround(1e3 * patience_s));
  int ready = 0;
  do ready = poll(&wait, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  if (ready == 0)
    throw std::runtime_error("its process did not answer within " + std::to_string(std::llround(patience_s)) + " s");
}

/// As raw bytes in the order of memory, whatever the strides.
void add_tensors(Message& message, const char* kind, const Parameters& tensors) {
  Json& list = message.head[kind] = Json::array();
  for (const auto& item : tensors) {
    if (!item.value().defined()) continue;
    const bool wide = item.value().scalar_type() == torch::kDouble;
    const torch::Tensor tensor = item.value().detach().to(torch::kCPU, wide ? torch::kDouble : torch::kFloat);
    const torch::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
    list.push_back({{"name", item.key()},
                    {"shape", dense.sizes().vec()},
                    {"strides", dense.strides().vec()},
                    {"type", wide ? "float64" : "float32"}});
    message.body.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
}

Parameters tensors_in(const Message& message, const char* kind, size_t& at) {
  Parameters tensors;
  for (const Json& described : message.head.at(kind)) {
    const auto shape = described.at("shape").get<std::vector<int64_t>>();
    const auto type = described.at("type") == "float64" ? torch::kDouble : torch::kFloat;
    torch::Tensor tensor = described.contains("strides")
                               ? torch::empty_strided(shape, described.at("strides").get<std::vector<int64_t>>(), type)
                               : torch::empty(shape, type);
    if (!tensor.is_non_overlapping_and_dense() || tensor.nbytes() > message.body.size() - at)
      throw std::runtime_error("its process described tensors that it did not send");
    std::memcpy(tensor.data_ptr(), message.body.data() + at, tensor.nbytes());
    at += tensor.nbytes();
    tensors.insert(described.at("name").get<std::string>(), tensor);
  }
  return tensors;
}

}  // namespace

bool send_message(int socket, const Message& message) {
  const std::string head = message.head.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Sizes sizes{static_cast<uint32_t>(head.size()), message.body.size()};
  std::array<char, kSizeBytes> first{};
  std::memcpy(first.data(), &sizes.head, sizeof sizes.head);
  std::memcpy(first.data() + sizeof sizes.head, &sizes.body, sizeof sizes.body);
  // One piece where it is small: the other end wakes once.
  std::string begin(first.data(), first.size());
  begin += head;
  return send_all(socket, begin.data(), begin.size()) && send_all(socket, message.body.data(), message.body.size());
}

std::optional<Message> receive_message(int socket, double patience_s) {
  if (patience_s > 0) wait_for_bytes(socket, patience_s);
  std::array<char, kSizeBytes> first{};
  if (!receive_all(socket, first.data(), first.size())) return std::nullopt;
  Sizes sizes;
  std::memcpy(&sizes.head, first.data(), sizeof sizes.head);
  std::memcpy(&sizes.body, first.data() + sizeof sizes.head, sizeof sizes.body);
  if (sizes.head > kLongestHead || sizes.body > kLongestBody)
    throw std::runtime_error("its process sent what is no message; common/measure/other_process.h describes them");
  std::string head(sizes.head, '\0');
  Message message;
  message.body.resize(sizes.body);
  if (!receive_all(socket, head.data(), head.size()) || !receive_all(socket, message.body.data(), message.body.size()))
    return std::nullopt;
  message.head = Json::parse(head, nullptr, /*allow_exceptions=*/false);
  if (!message.head.is_object()) throw std::runtime_error("its process sent a message whose head is no JSON object");
  return message;
}

std::string bytes_of(const std::vector<double>& numbers) {
  std::string bytes(numbers.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::vector<double> numbers_in(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

Message message_of(const Gathered& whole) {
  Message message;
  add_tensors(message, "parameters", whole.parameters);
  add_tensors(message, "gradients", whole.gradients);
  return message;
}

Gathered gathered_in(const Message& message) {
  size_t at = 0;
  Gathered whole;
  whole.parameters = tensors_in(message, "parameters", at);
  whole.gradients = tensors_in(message, "gradients", at);
  return whole;
}

Json json_of(const SettingValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

SettingValue value_in(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  return json.is_number() ? SettingValue(json.get<double>()) : json.get<std::string>();
}

}  // namespace tenfold
