// A lesson of the tests' own: a small network whose parameters, gradients and momenta lie in parts on several ranks,
// against one process; and the same with one shard forgotten.
//
//   sharded           each rank keeps 1/N of everything: all_gather the parameters, reduce_scatter the gradients
//   tensor parallel   the first layer's rows and the second's columns over "tp", the batch over "dp"
#include "common/harness/lesson.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

namespace {

using tenfold::Gathered, tenfold::Parameters, tenfold::Step, tenfold::Trial;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr int64_t kBatch = 16, kInputs = 12, kHidden = 10, kOutputs = 5;  // 185 parameters: no rank's part is even
constexpr double kRate = 0.1, kMomentum = 0.9;

struct Net : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kInputs, kHidden));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kHidden, kOutputs));
  Tensor forward(const Tensor& x) { return second(torch::tanh(first(x))); }
};

/// The full batches, which every rank draws alike.
struct Batches {
  at::Generator generator;
  explicit Batches(const Trial& trial) : generator(at::detail::createCPUGenerator(trial.seed)) {}
  std::pair<Tensor, Tensor> next() {
    const Tensor inputs = torch::randn({kBatch, kInputs}, generator);
    return {inputs, torch::randn({kBatch, kOutputs}, generator)};
  }
  /// Rows of one of `size` parts.
  std::pair<Tensor, Tensor> next_part(int index, int size) {
    const auto [inputs, targets] = next();
    return {inputs.chunk(size)[static_cast<size_t>(index)], targets.chunk(size)[static_cast<size_t>(index)]};
  }
};

Step one_process(const Trial& trial) {
  auto net = std::make_shared<Net>();
  auto batches = std::make_shared<Batches>(trial);
  auto optimizer =
      std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum));
  Step step{.items = kBatch, .parameters = net->named_parameters()};
  if (trial.rank != 0) {
    step.update = [] { return Tensor(); };
    return step;
  }
  step.update = [net, batches, optimizer] {
    const auto [inputs, targets] = batches->next();
    optimizer->zero_grad();
    Tensor loss = torch::mse_loss(net->forward(inputs), targets);
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
  return step;
}

Tensor all_gather(const Tensor& part, const Group& group) {
  Tensor own = part.detach().flatten(), whole = torch::empty({part.numel() * group->getSize()});
  group->_allgather_base(whole, own)->wait();
  return whole;
}

Tensor reduce_scatter(Tensor whole, const Group& group) {
  Tensor part = torch::empty({whole.numel() / group->getSize()});
  group->_reduce_scatter_base(part, whole)->wait();
  return part;
}

/// A flat tensor as the network's parameters; what follows them is padding.
Parameters cut(const Tensor& flat, const Net& net, const std::string& prefix = "") {
  Parameters all;
  int64_t at = 0;
  for (const auto& item : net.named_parameters()) {
    all.insert(prefix + item.key(), flat.narrow(0, at, item.value().numel()).view(item.value().sizes()));
    at += item.value().numel();
  }
  return all;
}

/// One rank's part of the training state.
struct Shard {
  Net net;  // whole only while a step runs
  Tensor values, momenta, gradients;
  explicit Shard(const Trial& trial) {
    torch::NoGradGuard no_grad;
    Tensor flat = torch::nn::utils::parameters_to_vector(net.parameters());
    const int64_t each = (flat.numel() + trial.world_size - 1) / trial.world_size;
    flat = torch::constant_pad_nd(flat, {0, each * trial.world_size - flat.numel()});
    values = flat.narrow(0, trial.rank * each, each).clone();
    momenta = torch::zeros_like(values);
  }
};

enum class Forgotten { nothing, update, gather, gather_of_last, names, whole };

/// Of gather() when one thing is forgotten.
Gathered gather_shards(const Shard& shard, const Trial& trial, Forgotten forgotten) {
  const auto whole = [&](const Tensor& part) {
    Tensor all = all_gather(part, trial.group);
    const int64_t each = part.numel();
    if (forgotten == Forgotten::gather) all.narrow(0, each, each).zero_();
    if (forgotten == Forgotten::gather_of_last && trial.rank + 1 == trial.world_size) all.narrow(0, 0, each).zero_();
    return all;
  };
  Gathered all;
  if (forgotten == Forgotten::whole) {
    all.parameters = shard.net.named_parameters();
    all.parameters["first.weight"] = shard.values;
    return all;
  }
  const std::string prefix = forgotten == Forgotten::names ? "net." : "";
  all.parameters = cut(whole(shard.values), shard.net, prefix);
  if (shard.gradients.defined()) all.gradients = cut(whole(shard.gradients), shard.net, prefix);
  return all;
}

Step sharded(const Trial& trial, Forgotten forgotten) {
  auto shard = std::make_shared<Shard>(trial);
  auto batches = std::make_shared<Batches>(trial);
  Step step{.items = kBatch};
  step.parameters.insert("shard", shard->values);
  step.gather = [shard, trial, forgotten] { return gather_shards(*shard, trial, forgotten); };
  step.update = [shard, batches, trial, forgotten] {
    const Tensor whole = all_gather(shard->values, trial.group);
    {
      torch::NoGradGuard no_grad;
      const Parameters values = cut(whole, shard->net);
      for (const auto& item : shard->net.named_parameters()) item.value().copy_(values[item.key()]);
    }
    const auto [inputs, targets] = batches->next_part(trial.rank, trial.world_size);
    shard->net.zero_grad();
    const Tensor loss = torch::mse_loss(shard->net.forward(inputs), targets);
    loss.backward();
    torch::NoGradGuard no_grad;
    std::vector<Tensor> rows;
    for (const Tensor& parameter : shard->net.parameters()) rows.push_back(parameter.grad().flatten());
    const int64_t padding = whole.numel() - torch::cat(rows).numel();
    shard->gradients =
        reduce_scatter(torch::constant_pad_nd(torch::cat(rows), {0, padding}), trial.group).div_(trial.world_size);
    if (forgotten == Forgotten::update && trial.rank == 1) return loss.detach();
    shard->momenta.mul_(kMomentum).add_(shard->gradients);
    shard->values.sub_(shard->momenta, kRate);
    return loss.detach();
  };
  return step;
}

/// The sum over the ranks of partial outputs. Each rank goes on with the same sum, so its gradient is that of its part.
struct SumOver : torch::autograd::Function<SumOver> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& partial, const Group& group) {
    std::vector<Tensor> one{partial.clone()};
    group->allreduce(one)->wait();
    return one[0];
  }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext*, std::vector<Tensor> gradients) {
    return {gradients[0], Tensor()};
  }
};

/// Rows of the first layer and columns of the second.
struct ColumnAndRow {
  Tensor first_weight, first_bias, second_weight, second_bias;
  ColumnAndRow(int index, int size) {
    const Net net;  // drawn alike on every rank
    const auto part = [&](const Tensor& whole, int64_t dimension) {
      return whole.detach().chunk(size, dimension)[static_cast<size_t>(index)].clone().requires_grad_();
    };
    first_weight = part(net.first->weight, 0), first_bias = part(net.first->bias, 0);
    second_weight = part(net.second->weight, 1), second_bias = net.second->bias.detach().clone().requires_grad_();
  }
  std::vector<Tensor> parameters() const { return {first_weight, first_bias, second_weight, second_bias}; }
};

Step tensor_parallel(const Trial& trial, bool forgets_update) {
  const auto &dp = trial.mesh.along("dp"), &tp = trial.mesh.along("tp");
  auto net = std::make_shared<ColumnAndRow>(tp.index, tp.size);
  auto batches = std::make_shared<Batches>(trial);
  auto optimizer =
      std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum));
  Step step{.items = kBatch};
  const std::vector<std::string> names = {"first.weight", "first.bias", "second.weight", "second.bias"};
  for (size_t i = 0; i < names.size(); ++i) step.parameters.insert(names[i], net->parameters()[i]);
  step.gather = [net, tp, names] {
    const auto whole = [&](const Tensor& part, int64_t dimension) {
      if (!part.defined() || dimension < 0) return part;
      std::vector<Tensor> parts;
      for (const Tensor& one : all_gather(part, tp.group).chunk(tp.size)) parts.push_back(one.view(part.sizes()));
      return torch::cat(parts, dimension);
    };
    const std::vector<int64_t> dimensions = {0, 0, 1, -1};  // -1: every rank has the whole
    Gathered all;
    for (size_t i = names.size(); i-- > 0;) {  // in another order than the baseline's: names decide
      all.parameters.insert(names[i], whole(net->parameters()[i], dimensions[i]));
      all.gradients.insert(names[i], whole(net->parameters()[i].grad(), dimensions[i]));
    }
    return all;
  };
  step.update = [net, batches, optimizer, dp, tp, forgets_update] {
    const auto [inputs, targets] = batches->next_part(dp.index, dp.size);
    optimizer->zero_grad();
    const Tensor hidden = torch::tanh(torch::linear(inputs, net->first_weight, net->first_bias));
    const Tensor outputs = SumOver::apply(torch::linear(hidden, net->second_weight), tp.group) + net->second_bias;
    const Tensor loss = torch::mse_loss(outputs, targets);
    loss.backward();
    torch::NoGradGuard no_grad;
    std::vector<Tensor> rows;
    for (const Tensor& parameter : net->parameters()) rows.push_back(parameter.grad().flatten());
    std::vector<Tensor> flat{torch::cat(rows).div_(dp.size)};
    dp.group->allreduce(flat)->wait();
    int64_t at = 0;
    for (const Tensor& parameter : net->parameters()) {
      parameter.mutable_grad().copy_(flat[0].narrow(0, at, parameter.numel()).view(parameter.sizes()));
      at += parameter.numel();
    }
    if (!forgets_update || tp.index != 1) optimizer->step();
    return loss.detach();
  };
  return step;
}

/// Three updates of a variant; what is compared is its parameters' norm, which all ranks can tell.
std::function<tenfold::Learned(const Trial&)> trained(const std::function<Step(const Trial&)>& build) {
  return [build](const Trial& trial) {
    const Step step = build(trial);
    return tenfold::train_to_the_end(trial.device, step, {.updates = 3}, [&] {
      const tenfold::Parameters whole = step.gather ? step.gather().parameters : step.parameters;
      double squares = 0;
      for (const auto& parameter : whole) squares += parameter.value().square().sum().item<double>();
      return std::sqrt(squares);
    });
  };
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto shards = [](Forgotten forgotten) {
    return [forgotten](const Trial& trial) { return sharded(trial, forgotten); };
  };
  const std::vector<tenfold::Expectation> zero = {{"sharded", {}},
                                                  {"update of rank 1 forgotten", TRAP},
                                                  {"part of rank 1 not gathered", TRAP},
                                                  {"last rank gathers wrongly", TRAP}},
                                          tensor = {{"tensor parallel", {}}, {"update of tp 1 forgotten", TRAP}};
  return tenfold::run(
      argc, argv,
      {.title = "Sharded toy",
       .question = "Does a network trained in parts compute what one process computes?",
       .workload = {.name = "mlp"},
       .baseline = {"one process", one_process},
       .techniques = {{"sharded", shards(Forgotten::nothing)},
                      {"update of rank 1 forgotten", shards(Forgotten::update)},
                      {"part of rank 1 not gathered", shards(Forgotten::gather)},
                      {"last rank gathers wrongly", shards(Forgotten::gather_of_last)},
                      {"tensor parallel", [](const Trial& trial) { return tensor_parallel(trial, false); }},
                      {"update of tp 1 forgotten", [](const Trial& trial) { return tensor_parallel(trial, true); }},
                      {"gathers other names", shards(Forgotten::names)},
                      {"gathers its own part", shards(Forgotten::whole)},
                      {"twin", one_process}},
       .cases = {{.name = "zero over 4", .expected = zero, .place = {.mesh = {{"dp", 4}}}},
                 {.name = "alone", .expected = {{"twin", {}}}},
                 {.name = "zero over 2", .expected = zero, .place = {.mesh = {{"dp", 2}}}},
                 {.name = "plane", .expected = tensor, .place = {.mesh = {{"dp", tenfold::kAllRanks}, {"tp", 2}}}},
                 {.name = "refused",
                  .expected = {{"gathers other names", {}}, {"gathers its own part", {}}},
                  .place = {.mesh = {{"dp", 2}}}}},
       .trainings = {{.name = "trained by two",
                      .metric = {.name = "loss", .margin = 1},
                      .runs = {{"one process", trained(one_process)}, {"sharded", trained(shards(Forgotten::nothing))}},
                      .place = {.mesh = {{"dp", 2}}}}},
       .surveys = {{"size", {{"parameters", [](const Trial& trial) { trial.note("parameters", 185, ""); }}}},
                   {.name = "rank of two",
                    .looks = {{"rank", [](const Trial& trial) { trial.note("rank", trial.rank, ""); }}},
                    .place = {.mesh = {{"dp", 2}}}},
                   {.name = "elsewhere",
                    .looks = {{"variable",
                               [](const Trial& trial) {
                                 const char* const set = std::getenv("TENFOLD_TEST_PLACE");
                                 trial.note("set", set != nullptr && std::string(set) == "there" ? 1 : 0, "");
                               }}},
                    .place = {.environment = {{"TENFOLD_TEST_PLACE", "there"}}}}},
       .agreement = tenfold::Agreement::within(1e-5, "sums are taken in another order")});
}
