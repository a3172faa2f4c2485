#include "common/harness/serve.h"

#include <ATen/Parallel.h>
#include <sys/stat.h>

#include <utility>

#include "common/base/socket_child.h"
#include "common/harness/lesson_parts.h"
#include "common/harness/passes.h"
#include "common/harness/time_pass.h"
#include "common/harness/timed_block.h"
#include "common/measure/agreement.h"
#include "common/measure/device.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/measure/messages.h"
#include "common/result/judge.h"
#include "common/result/timeline_json.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSocket = SocketChild::kDescriptor;

Variant variant_named(const Lesson& lesson, const std::string& name) {
  std::vector<Variant> variants = lesson.techniques;
  variants.push_back(lesson.baseline);
  const auto variant = std::ranges::find(variants, name, &Variant::name);
  if (variant == variants.end() || !variant->build) throw UsageError("--serve " + name + ": no variant of this lesson");
  variant->process.reset();  // this is it
  return *variant;
}

/// One variant, in a run of its own.
class Server {
 public:
  Server(const Lesson& lesson, Options options, const Json& start)
      : lesson_(lesson),
        options_(std::move(options)),
        variant_(variant_named(lesson, options_.serve)),
        run_({.lesson = lesson_,
              .chosen = {.part = part_on(lesson_, start.at("workload").get<std::string>()),
                         .name = start.at("case").get<std::string>()},
              .options = options_,
              .world = world_,
              .device = torch::Device(start.at("device").get<std::string>()),
              .machine = machine_,
              .size = size_named(start.at("size").get<std::string>()),
              .clean = GlobalState::capture(torch::Device(start.at("device").get<std::string>())),
              .progress = progress_,
              .groups = groups_,
              .mesh = groups_.mesh({{kDataParallel, 1}})}) {
    options_.seed = start.at("seed").get<uint64_t>();
    run_.add({.name = variant_.name, .body = &variant_});
  }

  /// What the message asks for, or what came of it instead.
  Message answer(const Message& message) {
    Candidate& candidate = run_.candidates.front();
    candidate.result = {};
    candidate.record->read.clear();
    candidate.record->notes.clear();
    Message answer{Json::object()};
    try {
      run_.guarded(candidate, [&] {
        taken_races(), taken_without_arithmetic();  // of an answer that threw
        answer = answer_to(message);
        require_sound_on_dry_gpu();
      });
    } catch (const DeviceLost& error) {
      return {{{"failed", "error"}, {"reason", error.what()}}};
    }
    if (candidate.result.status == "skipped") return {{{"skipped", candidate.result.reason}}};
    if (!candidate.ok()) return {{{"failed", candidate.result.failure}, {"reason", candidate.result.reason}}};
    for (const auto& [name, value] : candidate.record->read) answer.head["read"][name] = tenfold::json_of(value);
    for (const auto& [name, note] : candidate.record->notes)
      answer.head["notes"][name] = {{"value", note.value}, {"unit", note.unit}};
    for (const auto& [name, value] : candidate.result.environment) answer.head["environment"][name] = value;
    return answer;
  }

 private:
  Message answer_to(const Message& message) {
    const auto asked = message.head.at("do").get<std::string>();
    if (message.head.contains("settings")) take_settings(message.head.at("settings"));
    if (asked == "build") return build();
    if (asked == "steps") return steps(message.head.at("count").get<int64_t>());
    if (asked == "gather") return message_of(whole_of(step_));
    if (asked == "memory") return memory();
    if (asked == "split") return split(message.head.at("trace").get<std::string>());
    drop();
    return {Json::object()};
  }

  void take_settings(const Json& settings) {
    auto& given = run_.candidates.front().record->given;
    given.clear();
    for (const auto& [name, value] : settings.items()) given[name] = value_in(value);
  }

  void drop() {
    step_ = {};
    release_cached_memory(run_.device);  // other variants' processes need it
  }

  Message build() {
    drop();
    const int threads = threads_of_this_process();
    Candidate& candidate = run_.candidates.front();
    step_ = run_.build(candidate);
    candidate.result.environment = tf32_flags(run_.device);
    return {{{"items", step_.items},
             {"batches_ahead", step_.batches_ahead},
             {"threads", step_.park != nullptr || threads_of_this_process() > threads}}};
  }

  Message steps(int64_t count) {
    const TimedSteps timed = run_steps(world_, run_.device, step_, count);
    if (const std::string reason = not_modelled(run_); !reason.empty())
      run_.candidates.front().result.environment[kNotModelled] = reason;
    return {{{"wall", timed.times.wall},
             {"processor", timed.times.processor},
             {"thread", timed.times.thread},
             {"device", timed.times.device},
             {"waits", timed.times.waits}},
            bytes_of(timed.losses)};
  }

  Message memory() {
    drop();
    Candidate& candidate = run_.candidates.front();
    if (run_.only_memory()) priming_pass(run_);
    if (!candidate.ok()) return {Json::object()};
    Message answer{{{"peak_bytes", measured_peak(run_, candidate)}, {"resting_bytes", 0}}};
    answer.head["resting_bytes"] = candidate.resting_bytes;
    if (candidate.result.timeline) answer.head["timeline"] = json_of(*candidate.result.timeline);
    if (!candidate.result.counted.empty()) answer.head["counted"] = candidate.result.counted;
    return answer;
  }

  Message split(const std::string& trace) {
    drop();
    options_.trace = trace;
    run_.candidates.front().result.blocks = {{}};  // it was timed, or nobody would ask
    split_pass(run_);
    Message answer{Json::object()};
    if (const auto& split = run_.candidates.front().result.split) {
      for (const SplitPart& part : kSplitParts) answer.head["split"][part.name] = (*split).*part.seconds;
    }
    return answer;
  }

  const Lesson& lesson_;
  Options options_;
  Variant variant_;
  World world_;
  Machine machine_;
  Progress progress_{false};
  CountedGroups groups_{world_};
  PartRun run_;
  Step step_;
};

bool is_socket(int descriptor) {
  struct stat status{};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

int serve(const Lesson& lesson, const Options& options) {
  if (!is_socket(kSocket))
    throw UsageError("--serve " + options.serve + ": for the harness, which starts a variant's process with it");
  const std::optional<Message> start = receive_message(kSocket);
  if (!start) return 0;
  fix_malloc_thresholds();
  at::set_num_threads(start->head.at("threads").get<int>());
  use_device(torch::Device(start->head.at("device").get<std::string>()));
  {
    Server server(lesson, options, start->head);
    bool heard = send_message(kSocket, {Json::object()});
    while (heard) {
      const std::optional<Message> message = receive_message(kSocket);
      heard = message && send_message(kSocket, server.answer(*message));
    }
  }
  drop_shared();
  return 0;
}

}  // namespace tenfold
