#include "common/measure/other_process.h"

#include <ATen/Parallel.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "common/base/built_in.h"
#include "common/base/socket_child.h"
#include "common/base/text.h"
#include "common/measure/memory.h"
#include "common/measure/messages.h"
#include "common/result/timeline_json.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kStartSeconds = 120;  // loading LibTorch on a busy machine takes ten
constexpr double kEndSeconds = 60;

ChildStart own_program(const std::string& variant) {
  return {.program = "/proc/self/exe", .arguments = {program_invocation_name, "--serve", variant}};
}

ChildStart other_program(const std::vector<std::string>& command) {
  namespace fs = std::filesystem;
  const fs::path tree = source_folder_of_build();
  ChildStart start{.arguments = command, .folder = tree};
  if (command.front() == "python") {
    // By its first argument it knows which environment it is of.
    start.arguments.front() = fs::exists(tree / ".venv/bin/python") ? (tree / ".venv/bin/python").string() : "python3";
    start.environment["PYTHONPATH"] = (tree / "bench/peers").string();
  }
  start.program = start.arguments.front();
  // As fix_malloc_thresholds() and set_num_threads() have them here.
  start.environment.insert({{"MALLOC_MMAP_THRESHOLD_", std::to_string(kMmapThreshold)},
                            {"MALLOC_TRIM_THRESHOLD_", std::to_string(kTrimThreshold)},
                            {"MALLOC_TOP_PAD_", std::to_string(kTopPad)},
                            {"OMP_NUM_THREADS", std::to_string(at::get_num_threads())}});
  return start;
}

}  // namespace

std::map<std::string, std::string> OtherProcess::stated() const {
  std::map<std::string, std::string> stated = environment;
  stated["process"] = command.empty() ? "of its own" : joined(command, " ");
  return stated;
}

struct TrainingProcess::Link {
  SocketChild child;
  std::string asked = {};  // what waits for its answer
  bool ended = false;

  explicit Link(const ChildStart& start) : child(start) {}

  void ask(const Json& head) {
    if (!asked.empty()) throw std::logic_error("the other process is still at '" + asked + "'; finish() waits for it");
    asked = head.at("do").get<std::string>();
    if (!send_message(child.socket(), {head})) died();
  }

  void ask_with_settings(Json head, const TrainingProcess& owner) {
    Json& settings = head["settings"] = Json::object();
    const TrialRecord& record = *owner.trial_.record_;
    // Another program does not know the lesson's declarations.
    if (!owner.how_.command.empty() && record.declared) {
      for (const DeclaredSetting& setting : *record.declared)
        settings[setting.name] = json_of(setting.value.at(owner.trial_.size));
    }
    for (const auto& [name, value] : record.given) settings[name] = json_of(value);
    ask(head);
  }

  /// What `read(message)` makes of the answer.
  template <class Read>
  auto answer(TrainingProcess& owner, const Read& read, double patience_s = 0) {
    const std::optional<Message> message = receive_message(child.socket(), patience_s);
    if (!message) died();
    const std::string question = std::exchange(asked, "");
    try {
      take(message->head, owner);
      return read(*message);
    } catch (const Json::exception& error) {
      throw std::runtime_error("its process answered '" + question + "' with something else: " + error.what());
    }
  }

 private:
  [[noreturn]] void died() {
    ended = true;
    throw std::runtime_error("its process " + child.end().text());
  }

  /// What any answer may have.
  static void take(const Json& head, TrainingProcess& owner) {
    TrialRecord& record = *owner.trial_.record_;
    const auto for_each = [&head](const char* kind, const auto& work) {
      if (!head.contains(kind)) return;
      for (const auto& [name, value] : head.at(kind).items()) work(name, value);
    };
    for_each("notes", [&](const std::string& name, const Json& note) {
      const Json& value = note.at("value");
      record.notes[name] = {value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>(),
                            note.at("unit").get<std::string>()};
    });
    for_each("read", [&](const std::string& name, const Json& value) { record.read[name] = value_in(value); });
    for_each("environment",
             [&](const std::string& name, const Json& value) { owner.environment_[name] = value.get<std::string>(); });
    if (head.contains("skipped")) owner.trial_.skip(head.at("skipped").get<std::string>());
    if (head.contains("failed"))
      throw RemoteFailure(head.at("failed").get<std::string>(), head.at("reason").get<std::string>());
  }
};

TrainingProcess::TrainingProcess(Trial trial, std::string variant, OtherProcess how, std::string case_name)
    : trial_(std::move(trial)), variant_(std::move(variant)), case_name_(std::move(case_name)), how_(std::move(how)) {}

TrainingProcess::~TrainingProcess() {
  // In the middle of something that nobody waits for.
  if (pid() > 0 && !link_->asked.empty()) kill();
}

void TrainingProcess::start() {
  ChildStart start = how_.command.empty() ? own_program(variant_) : other_program(how_.command);
  for (const auto& [name, value] : how_.environment) start.environment[name] = value;
  link_ = std::make_unique<Link>(start);
  link_->ask({{"do", "start"},
              {"variant", variant_},
              {"case", case_name_},
              {"workload", trial_.workload.name},
              {"device", trial_.device.str()},
              {"seed", trial_.seed},
              {"size", to_string(trial_.size)},
              {"threads", at::get_num_threads()}});
  link_->answer(*this, [](const Message&) {}, kStartSeconds);
}

void TrainingProcess::build() {
  if (pid() < 0) start();
  link_->ask_with_settings({{"do", "build"}}, *this);
  link_->answer(*this, [this](const Message& message) {
    items_ = message.head.at("items").get<int64_t>();
    batches_ahead_ = message.head.value("batches_ahead", int64_t{0});
    has_threads_ = message.head.value("threads", false);
  });
  ++builds_;
}

TimedSteps TrainingProcess::steps(int64_t count) {
  begin(count);
  return finish();
}

void TrainingProcess::begin(int64_t count) {
  require_built();
  link_->ask({{"do", "steps"}, {"count", count}});
}

TimedSteps TrainingProcess::finish() {
  require_built();
  return link_->answer(*this, [](const Message& message) {
    const Json& head = message.head;
    return TimedSteps{.times = {.wall = head.at("wall").get<double>(),
                                .processor = head.at("processor").get<double>(),
                                .thread = head.at("thread").get<double>(),
                                .device = head.at("device").get<double>(),
                                .waits = head.at("waits").get<int64_t>()},
                      .losses = numbers_in(message.body)};
  });
}

Gathered TrainingProcess::gather() {
  require_built();
  link_->ask({{"do", "gather"}});
  return link_->answer(*this, gathered_in);
}

std::optional<RemoteMemory> TrainingProcess::memory() {
  if (pid() < 0) start();
  link_->ask_with_settings({{"do", "memory"}}, *this);
  return link_->answer(*this, [](const Message& message) -> std::optional<RemoteMemory> {
    if (message.head.contains("unknown")) return std::nullopt;
    RemoteMemory remote{.peak_bytes = message.head.at("peak_bytes").get<std::map<std::string, int64_t>>(),
                        .resting_bytes = message.head.at("resting_bytes").get<int64_t>()};
    if (message.head.contains("timeline")) remote.timeline = timeline_in(message.head.at("timeline"));
    if (message.head.contains("counted"))
      remote.counted = message.head.at("counted").get<std::map<std::string, double>>();
    return remote;
  });
}

std::optional<Split> TrainingProcess::split(const std::string& trace) {
  if (pid() < 0) start();
  link_->ask_with_settings({{"do", "split"}, {"trace", trace}}, *this);
  return link_->answer(*this, [](const Message& message) -> std::optional<Split> {
    if (!message.head.contains("split")) return std::nullopt;
    Split split;
    for (const SplitPart& part : kSplitParts)
      split.*part.seconds = message.head.at("split").at(part.name).get<double>();
    return split;
  });
}

void TrainingProcess::drop() {
  require_built();
  link_->ask({{"do", "drop"}});
  link_->answer(*this, [](const Message&) {});
}

void TrainingProcess::kill() {
  if (pid() < 0) return;
  link_->ended = true;
  link_->child.kill();
}

std::string TrainingProcess::wait() {
  require_built();
  link_->ended = true;
  return link_->child.end(kEndSeconds).text();
}

pid_t TrainingProcess::pid() const { return link_ != nullptr && !link_->ended ? link_->child.pid() : -1; }

void TrainingProcess::require_built() const {
  if (pid() < 0) throw std::logic_error("'" + variant_ + "' is not built in another process: call build() first");
}

Step step_in(const std::shared_ptr<TrainingProcess>& process) {
  process->build();
  // Lets go of what was built with the last copy of the step, unless that is gone already.
  const std::shared_ptr<void> held(nullptr, [process, build = process->builds()](void*) {
    if (process->pid() < 0 || process->builds() != build) return;
    try {
      process->drop();
    } catch (const std::exception&) {
      process->kill();  // it has failed, and whoever asks it next starts another
    }
  });
  Step step;
  step.items = process->items();
  step.update = [process, held]() -> torch::Tensor {
    const TimedSteps stepped = process->steps(1);
    return stepped.losses.empty() ? torch::Tensor() : torch::tensor(stepped.losses.front(), torch::kDouble);
  };
  if (process->has_threads()) step.park = [](bool) {};
  step.batches_ahead = process->batches_ahead();
  step.gather = [process, held] { return process->gather(); };
  step.run_remotely = [process, held](int64_t count) { return process->steps(count); };
  return step;
}

}  // namespace tenfold
