// A user's own program: two techniques' headers, nothing of the harness.
#include <tenfold/checkpoint.h>
#include <tenfold/grad_scaler.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  torch::nn::Linear layer(8, 8);
  const torch::Tensor input = torch::randn({4, 8}, torch::requires_grad());
  torch::Tensor plain = layer(input).tanh().sum();
  plain.backward();
  const torch::Tensor expected = layer->weight.grad().clone();
  layer->zero_grad();
  torch::Tensor again = tenfold::checkpoint([&](const torch::Tensor& x) { return layer(x).tanh(); }, input).sum();
  again.backward();
  if (!torch::equal(expected, layer->weight.grad())) {
    std::puts("FAIL: the checkpointed gradient differs");
    return 1;
  }
  torch::optim::SGD optimizer(layer->parameters(), 0.1);
  tenfold::GradScaler scaler;
  optimizer.zero_grad();
  scaler.scale(layer(input.detach()).sum()).backward();
  scaler.step(optimizer);
  scaler.update();
  std::puts("ok: installed headers work");
  return 0;
}
