// A lesson on two devices: the batch's halves go to a replica each, whose gradients are added up on the first.
#include "toy.h"

namespace {

using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

constexpr int64_t kBatch = 64, kInputs = 256, kOutputs = 64;

struct Model {
  explicit Model(const Trial& trial) { layer->to(trial.device); }

  torch::nn::Linear layer{kInputs, kOutputs};
  Tensor inputs = torch::randn({kBatch, kInputs}), targets = torch::randn({kBatch, kOutputs});
};

Step one_device(const Trial& trial) {
  auto model = std::make_shared<Model>(trial);
  auto optimizer = std::make_shared<torch::optim::SGD>(model->layer->parameters(), 0.1);
  const Tensor inputs = model->inputs.to(trial.device), targets = model->targets.to(trial.device);
  return {kBatch, model->layer->named_parameters(), [=] {
            optimizer->zero_grad();
            Tensor loss = torch::mse_loss(model->layer(inputs), targets);
            loss.backward();
            optimizer->step();
            return loss;
          }};
}

/// `added`: how many of the replicas' gradients the update has.
Step replicas(const Trial& trial, size_t added) {
  auto model = std::make_shared<Model>(trial);
  auto optimizer = std::make_shared<torch::optim::SGD>(model->layer->parameters(), 0.1);
  std::vector<Tensor> inputs, targets;
  const auto devices = static_cast<int64_t>(trial.devices.size());
  for (int64_t i = 0; i < devices; ++i) {
    inputs.push_back(model->inputs.chunk(devices)[static_cast<size_t>(i)].to(trial.devices[static_cast<size_t>(i)]));
    targets.push_back(model->targets.chunk(devices)[static_cast<size_t>(i)].to(trial.devices[static_cast<size_t>(i)]));
  }
  return {kBatch, model->layer->named_parameters(), [=] {
            optimizer->zero_grad();
            Tensor total = torch::zeros({}, inputs.front().options());
            for (size_t i = 0; i < inputs.size(); ++i) {
              const torch::Device device = inputs[i].device();
              // The copy is differentiable: backward() adds the replica's gradient to the parameter's own.
              const Tensor weight = model->layer->weight.to(device), bias = model->layer->bias.to(device);
              const Tensor loss = torch::mse_loss(torch::linear(inputs[i], weight, bias), targets[i]) /
                                  static_cast<int64_t>(inputs.size());
              if (i < added) loss.backward();
              total = total + loss.detach().to(total.device());
            }
            optimizer->step();
            return total;
          }};
}

Step two_replicas(const Trial& trial) { return replicas(trial, 2); }
Step one_left_out(const Trial& trial) { return replicas(trial, 1); }

void count_devices(const Trial& trial) { trial.note("devices", static_cast<double>(trial.devices.size()), "devices"); }

}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Two devices",
       .question = "?",
       .workload = {.name = "mlp"},
       .baseline = {"one device", one_device},
       .techniques = {{"two replicas", two_replicas}, {"one left out", one_left_out}},
       .cases = {{.name = "toy", .expected = {{"two replicas", {}}, {"one left out", TRAP}}, .place = {.devices = 2}}},
       .surveys =
           {{.name = "looked at", .looks = {{"both", count_devices}}, .of_memory = true, .place = {.devices = 2}}},
       .agreement = tenfold::Agreement::within(1e-5, "sums in another order")});
}
