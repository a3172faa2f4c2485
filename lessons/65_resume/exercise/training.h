#pragma once
// What exercise 65 saves: every member decides what the next update does.
#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

/// Hands out the batches 0, 1, 2, ... in order, and has read two more by then.
class ReadingAhead {
 public:
  torch::Tensor next() {  // (4, 3)
    while (ready_.size() < 3) ready_.push_back(read_++);
    const int64_t number = ready_.front();
    ready_.pop_front();
    ++delivered_;
    return (torch::arange(12.0).view({4, 3}) + 5 * number).sin();
  }
  int64_t read() const { return read_; }            ///< from the disk
  int64_t delivered() const { return delivered_; }  ///< to the training
  /// Goes on with this batch.
  void begin_with(int64_t number) { ready_.clear(), read_ = number, delivered_ = number; }

 private:
  std::deque<int64_t> ready_;
  int64_t read_ = 0, delivered_ = 0;
};

struct SmallTraining {
  explicit SmallTraining(uint64_t seed) : dropped(at::detail::createCPUGenerator(seed)) {
    torch::manual_seed(seed);
    model = torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 1));
    optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }

  void update() {
    const torch::Tensor inputs = loader.next();
    const torch::Tensor kept = torch::bernoulli(torch::full({4, 3}, 0.75), dropped);
    optimizer->zero_grad();
    model->forward(inputs * kept).square().mean().backward();
    optimizer->step();
  }

  torch::nn::Sequential model;
  std::unique_ptr<torch::optim::SGD> optimizer;
  at::Generator dropped;
  ReadingAhead loader;
};
