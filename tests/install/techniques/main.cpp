// A user's own program: a checkpointed gradient and a scaled step, with nothing of the harness.
#include <tenfold/checkpoint.h>
#include <tenfold/grad_scaler.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  torch::nn::Linear layer(8, 8);
  const torch::Tensor input = torch::randn({4, 8}, torch::requires_grad());
  layer(input).tanh().sum().backward();
  const torch::Tensor expected = layer->weight.grad().clone();
  layer->zero_grad();
  tenfold::checkpoint([&](const torch::Tensor& x) { return layer(x).tanh(); }, input).sum().backward();
  if (!torch::equal(expected, layer->weight.grad())) {
    std::puts("FAIL: the checkpointed gradient differs");
    return 1;
  }
  const torch::Tensor before = layer->weight.detach().clone();
  torch::optim::SGD optimizer(layer->parameters(), 0.1);
  tenfold::GradScaler scaler;
  optimizer.zero_grad();
  scaler.scale(layer(input.detach()).sum()).backward();
  scaler.step(optimizer);
  scaler.update();
  if (torch::equal(before, layer->weight)) {
    std::puts("FAIL: the scaled step changed nothing");
    return 1;
  }
  std::puts("ok: the installed techniques work");
}
