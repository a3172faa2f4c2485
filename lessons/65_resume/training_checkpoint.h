// installs as <tenfold/training_checkpoint.h>
#pragma once
// All that a training on one process goes on from, bit for bit: parameters and buffers, the optimizer's state and its
// learning rates, the loss scale, what the loader has handed out, random generators, counters.
//
//   NamedTensors state = whole_state(parts, loader.state());
//   folder.save(step, state);                     // atomic_checkpoint.h: waits; background_checkpoint.h: copies
//   ...
//   const NamedTensors saved = folder.load(folder.good_steps().back());   // in another process
//   load_whole_state(saved, parts);
//   Loader loader(dataset, options, loader_place(saved));
//
// A schedule that is a function of the update's number needs its counter alone. LibTorch's LRScheduler keeps its count
// to itself: go_on_with() repeats its steps.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lessons/10_parallel_loading/loader.h"
#include "lessons/21_mixed_precision/grad_scaler.h"
#include "lessons/57_faults/atomic_checkpoint.h"
#include "lessons/57_faults/resume.h"

namespace tenfold {

/// What a training consists of: the objects that it uses, made as those were that saved.
struct TrainingParts {
  const torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;  ///< SGD, Adam or AdamW
  GradScaler* scaler = nullptr;
  std::vector<at::Generator> generators = {};     ///< the CPU's, and each device's that draws numbers
  std::map<std::string, int64_t*> counters = {};  ///< updates, epochs, tokens seen
  int64_t version =
      1;  ///< of the program: raise it with every change after which old checkpoints would go on otherwise
};

namespace training_checkpoint {

inline torch::Tensor numbers(const std::vector<int64_t>& values) { return torch::tensor(values, torch::kLong); }

/// The entry of this name. Throws c10::ValueError where there is none.
inline const torch::Tensor& entry(const NamedTensors& saved, const std::string& name) {
  const auto found = saved.find(name);
  TORCH_CHECK_VALUE(found != saved.end(), "the checkpoint is of another training: it has no '", name, "'");
  return found->second;
}

inline void require_like(const NamedTensors& saved, const std::string& name, const torch::Tensor& own) {
  const torch::Tensor& tensor = entry(saved, name);
  TORCH_CHECK_VALUE(tensor.sizes() == own.sizes() && tensor.scalar_type() == own.scalar_type(),
                    "the checkpoint is of another training: its '", name, "' is ", tensor.scalar_type(), ' ',
                    tensor.sizes(), ", here it is ", own.scalar_type(), ' ', own.sizes());
}

/// Entries whose names begin so.
inline int64_t count_of(const NamedTensors& saved, const std::string& begin) {
  int64_t count = 0;
  for (auto at = saved.lower_bound(begin); at != saved.end() && at->first.starts_with(begin); ++at) ++count;
  return count;
}

/// All that can be wrong, before anything is changed.
inline void require_same_training(const NamedTensors& saved, const TrainingParts& parts) {
  const auto version = entry(saved, "version").item<int64_t>();
  TORCH_CHECK_VALUE(version == parts.version, "the checkpoint was saved by version ", version,
                    " of the training, this is version ", parts.version, ": it would go on otherwise");
  int64_t of_model = 0;
  for (const auto& item : parts.model.named_parameters())
    require_like(saved, "model/" + item.key(), item.value()), ++of_model;
  for (const auto& item : parts.model.named_buffers())
    require_like(saved, "model/" + item.key(), item.value()), ++of_model;
  const auto require_count = [&](const std::string& begin, int64_t own, const char* what) {
    const int64_t count = count_of(saved, begin);
    TORCH_CHECK_VALUE(count == own, "the checkpoint is of another training: it has ", count, ' ', what, ", here are ",
                      own);
  };
  require_count("model/", of_model, "parameters and buffers");
  require_count("rate/", static_cast<int64_t>(parts.optimizer.param_groups().size()), "parameter groups");
  require_count("scaler", parts.scaler == nullptr ? 0 : 1, "loss scalers");
  require_count("generator/", static_cast<int64_t>(parts.generators.size()), "generators");
  require_count("counter/", static_cast<int64_t>(parts.counters.size()), "counters");
  for (const auto& [name, counter] : parts.counters) entry(saved, "counter/" + name);
}

}  // namespace training_checkpoint

/// Where a loader stands, as entries "loader" and "loader/ahead". What workers have read beyond that is not in it: it
/// was not trained on.
inline void add_place(NamedTensors& into, const LoaderState& place) {
  into["loader"] = training_checkpoint::numbers({place.epoch, place.batch, place.size, place.batch_size, place.ranks,
                                                 place.rank, static_cast<int64_t>(place.seed), place.shuffle ? 1 : 0,
                                                 static_cast<int64_t>(place.tail)});
  into["loader/ahead"] = training_checkpoint::numbers({place.ahead.begin(), place.ahead.end()});
}

/// For the constructor of a Loader, which refuses the place of another data set, batch size, rank or seed. Throws
/// c10::ValueError where the checkpoint has none.
inline LoaderState loader_place(const NamedTensors& saved) {
  const torch::Tensor& place = training_checkpoint::entry(saved, "loader");
  const torch::Tensor& ahead = training_checkpoint::entry(saved, "loader/ahead");
  TORCH_CHECK_VALUE(place.scalar_type() == torch::kLong && place.numel() == 9, "the checkpoint's 'loader' is no place");
  const int64_t* const value = place.const_data_ptr<int64_t>();
  const int64_t* const first = ahead.const_data_ptr<int64_t>();
  return {.epoch = value[0],
          .batch = value[1],
          .ahead = {first, first + ahead.numel()},
          .size = value[2],
          .batch_size = value[3],
          .ranks = value[4],
          .rank = value[5],
          .seed = static_cast<uint64_t>(value[6]),
          .shuffle = value[7] != 0,
          .tail = static_cast<Tail>(value[8])};
}

/// Entries "generator/0" and so on.
inline void add_generators(NamedTensors& into, const std::vector<at::Generator>& generators) {
  for (size_t i = 0; i < generators.size(); ++i) {
    at::Generator generator = generators[i];
    const std::scoped_lock lock(generator.mutex());  // no operator draws from it meanwhile
    into["generator/" + std::to_string(i)] = generator.get_state();
  }
}
/// Throws c10::ValueError where one is missing.
inline void load_generators(const NamedTensors& saved, const std::vector<at::Generator>& generators) {
  for (size_t i = 0; i < generators.size(); ++i) {
    at::Generator generator = generators[i];
    const std::scoped_lock lock(generator.mutex());
    generator.set_state(training_checkpoint::entry(saved, "generator/" + std::to_string(i)));
  }
}

/// Parameters and optimizer state are the tensors themselves, which go on changing; the rest are copies. To be called
/// between two updates. Throws c10::ValueError for an optimizer that is none of the three.
inline NamedTensors whole_state(const TrainingParts& parts, const LoaderState& place) {
  using training_checkpoint::numbers;
  NamedTensors saved = model_and_optimizer_state(parts.model, parts.optimizer);
  const auto& groups = parts.optimizer.param_groups();
  for (size_t i = 0; i < groups.size(); ++i)
    saved["rate/" + std::to_string(i)] = torch::tensor({groups[i].options().get_lr()}, torch::kDouble);
  if (parts.scaler != nullptr) {
    const GradScalerState state = parts.scaler->state();
    saved["scaler"] = torch::tensor(
        {state.scale, state.growth_factor, state.backoff_factor, static_cast<double>(state.growth_interval),
         static_cast<double>(state.growth_tracker), static_cast<double>(state.skipped_steps)},
        torch::kDouble);
  }
  add_generators(saved, parts.generators);
  for (const auto& [name, counter] : parts.counters) saved["counter/" + name] = numbers({*counter});
  saved["version"] = numbers({parts.version});
  add_place(saved, place);
  return saved;
}

/// Goes on from what whole_state() gave. Throws c10::ValueError, in one line, for the checkpoint of another version, of
/// other shapes, or of a training with other parts; nothing is changed then.
inline void load_whole_state(const NamedTensors& saved, const TrainingParts& parts) {
  using training_checkpoint::entry;
  training_checkpoint::require_same_training(saved, parts);
  const torch::NoGradGuard no_grad;
  for (const auto& item : parts.model.named_buffers()) item.value().copy_(entry(saved, "model/" + item.key()));
  for (const auto& item : parts.model.named_parameters()) {
    item.value().copy_(entry(saved, "model/" + item.key()));
    auto state = resume::state_for(parts.optimizer, saved, "optimizer/" + item.key(), item.value());
    if (state) parts.optimizer.state()[item.value().unsafeGetTensorImpl()] = std::move(state);
  }
  auto& groups = parts.optimizer.param_groups();
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i].options().set_lr(entry(saved, "rate/" + std::to_string(i)).item<double>());
  if (parts.scaler != nullptr) {
    const torch::Tensor values = entry(saved, "scaler");
    const auto number = [&](int64_t i) { return values[i].item<double>(); };
    parts.scaler->load({number(0), number(1), number(2), static_cast<int64_t>(number(3)),
                        static_cast<int64_t>(number(4)), static_cast<int64_t>(number(5))});
  }
  load_generators(saved, parts.generators);
  for (const auto& [name, counter] : parts.counters) *counter = entry(saved, "counter/" + name).item<int64_t>();
}

/// Brings a new LRScheduler of an optimizer with its first learning rates to where one is after so many steps. To be
/// called before load_whole_state(), which sets the rates.
inline void go_on_with(torch::optim::LRScheduler& schedule, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) schedule.step();
}

}  // namespace tenfold
