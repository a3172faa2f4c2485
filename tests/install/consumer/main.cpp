// A user's own program: two techniques' headers, an operator and a kernel under the microscope, nothing of the harness.
#include <tenfold/checkpoint.h>
#include <tenfold/grad_scaler.h>
#include <tenfold/simt_device.h>
#include <tenfold/softmax_torch.h>
#include <tenfold/transpose.h>

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

  if (!torch::allclose(tenfold::fused::softmax(input), torch::softmax(input, -1))) {
    std::puts("FAIL: the softmax kernel differs from LibTorch's");
    return 1;
  }
  tenfold::simt::Device device;
  const auto from = device.buffer<float>("from", 6), to = device.buffer<float>("to", 6);
  for (int64_t i = 0; i < 6; ++i) from[i] = static_cast<float>(i);
  tenfold::kernels::transpose(&device, to.data(), from.data(), 2, 3);
  if (to[1] != 3 || !device.report().clean()) {
    std::puts("FAIL: the transpose under the microscope is wrong");
    return 1;
  }
  std::puts("ok: installed headers work");
  return 0;
}
