// What two processes tell each other of tensors and numbers.
#include "common/measure/messages.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include "tests/support/support.h"

namespace {

using tenfold::Gathered;
using tenfold::Message;

/// Through a socket, whose buffers are smaller.
Message sent(const Message& message) {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::thread sender([&] {
    EXPECT_TRUE(tenfold::send_message(ends[0], message));
    close(ends[0]);
  });
  std::optional<Message> received = tenfold::receive_message(ends[1], 60);
  EXPECT_FALSE(tenfold::receive_message(ends[1])) << "nobody is there any more";
  sender.join();
  close(ends[1]);
  return std::move(received.value());
}

TEST(Messages, TensorsArriveAsTheyAre) {
  Gathered whole;
  const torch::Tensor filters = torch::randn({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const torch::Tensor large = torch::randn({1000, 1000}), wide = torch::randn({7}, torch::kDouble);
  whole.parameters.insert("filters", filters);
  whole.parameters.insert("large", large);
  whole.parameters.insert("wide", wide);
  whole.parameters.insert("half", torch::tensor({0.1F, -3.0F}).to(torch::kBFloat16));
  whole.parameters.insert("sliced", large.slice(1, 0, 10, 2));
  whole.gradients.insert("filters", torch::full({8, 3, 5, 5}, NAN));
  whole.gradients.insert("large", torch::Tensor());
  const Gathered received = tenfold::gathered_in(sent(tenfold::message_of(whole)));
  ASSERT_EQ(received.parameters.keys(), whole.parameters.keys());
  EXPECT_TRUE(received.parameters["filters"].equal(filters));
  EXPECT_EQ(received.parameters["filters"].strides(), filters.strides()) << "sums run in the order of memory";
  EXPECT_TRUE(received.parameters["large"].equal(large));
  EXPECT_TRUE(received.parameters["wide"].equal(wide));
  EXPECT_TRUE(received.parameters["half"].equal(whole.parameters["half"].to(torch::kFloat)));
  EXPECT_TRUE(received.parameters["sliced"].equal(whole.parameters["sliced"]));
  ASSERT_EQ(received.gradients.keys(), std::vector<std::string>{"filters"});
  EXPECT_TRUE(received.gradients["filters"].isnan().all().item<bool>());
}

TEST(Messages, TensorsThatWereNotSentAreRefused) {
  Gathered whole;
  whole.parameters.insert("a", torch::randn({4}));
  Message message = tenfold::message_of(whole);
  message.body.pop_back();
  EXPECT_EQ(tenfold::test::message_of<std::runtime_error>([&] { tenfold::gathered_in(message); }),
            "its process described tensors that it did not send");
}

TEST(Messages, LossesMayBeNoNumbers) {
  const std::vector<double> losses = {1.5, std::numeric_limits<double>::infinity(), 1e-300};
  EXPECT_EQ(tenfold::numbers_in(sent({{{"a", 1}}, tenfold::bytes_of(losses)}).body), losses);
}

TEST(Messages, SettingsKeepTheirTypes) {
  for (const tenfold::SettingValue& value :
       {tenfold::SettingValue(true), tenfold::SettingValue(int64_t{4}), tenfold::SettingValue(4.0),
        tenfold::SettingValue(0.25), tenfold::SettingValue(std::string("causal"))}) {
    const Message received = sent({{{"value", tenfold::json_of(value)}}});
    EXPECT_EQ(tenfold::value_in(received.head.at("value")), value);
  }
}

TEST(Messages, WhatIsNoneIsRefused) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const std::string text = "Traceback (most recent call last):\n";
  ASSERT_EQ(write(ends[0], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_NE(
      tenfold::test::message_of<std::runtime_error>([&] { tenfold::receive_message(ends[1]); }).find("no message"),
      std::string::npos);
  EXPECT_EQ(tenfold::test::message_of<std::runtime_error>([&] { tenfold::receive_message(ends[0], 0.01); }),
            "its process did not answer within 0 s");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
