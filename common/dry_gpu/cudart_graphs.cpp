// CUDA's runtime: capturing streams, and graphs.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

unsigned long this_thread() { return static_cast<unsigned long>(gettid()); }

/// The nodes that `behind` comes after, itself included.
std::vector<bool> reached_from(const Graph& graph, std::vector<size_t> behind) {
  std::vector<bool> reached(graph.nodes.size());
  while (!behind.empty()) {
    const size_t node = behind.back();
    behind.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    behind.insert(behind.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return reached;
}

std::vector<Stream*> streams_of(const std::shared_ptr<Capture>& capture) {
  std::vector<Stream*> all;
  for (Stream* const stream : state().streams) {
    if (stream->capture == capture) all.push_back(stream);
  }
  return all;
}

Graph* graph_of(cudaGraph_t handle) {
  auto* const graph = reinterpret_cast<Graph*>(handle);
  return state().graphs.contains(graph) ? graph : nullptr;
}

Graph* executable_of(cudaGraphExec_t handle) {
  auto* const graph = reinterpret_cast<Graph*>(handle);
  return state().executables.contains(graph) ? graph : nullptr;
}

cudaGraphNode_t handle_of(const Graph& graph, size_t node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<Node*>(&graph.nodes[node]));
}

/// What a launch of it lasts: each node begins when those before it are done.
double seconds_of(const Graph& graph, const Rates& rates) {
  std::vector<double> ends;
  double last = 0;
  for (const Node& node : graph.nodes) {  // each behind those that it comes after
    double begin = 0;
    for (const size_t before : node.after) begin = std::max(begin, ends[before]);
    const bool is_kernel = node.item.kind == std::string_view("kernel");
    ends.push_back(begin + node.item.exclusive +
                   std::max(0.0, node.item.seconds - (is_kernel ? rates.gap - rates.graph_gap : 0)));
    last = std::max(last, ends.back());
  }
  return last;
}

}  // namespace

cudaError_t forbidden_while_capturing() {
  const std::lock_guard guard(state().lock);
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool forbidden = false;
  for (const auto& capture : state().captures) {
    const bool own = capture->thread == this_thread();
    const bool global = capture->mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
    if (!global && !(own && capture->mode != cudaStreamCaptureModeRelaxed)) continue;
    capture->invalid = forbidden = true;
  }
  return forbidden ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::lock_guard guard(state().lock);
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->legacy) return fail(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return fail(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->graph = std::make_unique<Graph>();
  capture->id = state().next_capture++;
  capture->mode = mode;
  capture->thread = this_thread();
  if (state().ordering != nullptr) capture->ordering = std::make_unique<Ordering>(note_race);
  stream->capture = capture;
  stream->behind.clear();
  state().captures.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::lock_guard guard(state().lock);
  Stream* const stream = stream_of(handle);
  if (graph != nullptr) *graph = nullptr;
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return fail(cudaErrorIllegalState);
  if (capture->origin != stream) return fail(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != this_thread())
    return fail(cudaErrorStreamCaptureWrongThread);
  const std::vector<bool> joined = reached_from(*capture->graph, stream->behind);
  for (Stream* const of : streams_of(capture)) {
    of->capture = nullptr;
    of->behind.clear();
  }
  state().captures.erase(capture);
  if (capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
  if (std::ranges::count(joined, false) > 0) return fail(cudaErrorStreamCaptureUnjoined);
  state().graphs.insert(capture->graph.get());
  *graph = reinterpret_cast<cudaGraph_t>(capture->graph.release());
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** behind,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  const std::lock_guard guard(state().lock);
  if (const cudaError_t error = cudaStreamIsCapturing(handle, status); error != cudaSuccess) return error;
  const Stream& stream = *stream_of(handle);
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  thread_local std::vector<cudaGraphNode_t> nodes;  // valid until the next call ("CUDA Runtime API")
  nodes.clear();
  for (const size_t node : stream.behind) nodes.push_back(handle_of(*stream.capture->graph, node));
  if (id != nullptr) *id = stream.capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(stream.capture->graph.get());
  if (behind != nullptr) *behind = nodes.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t handle, unsigned long long) {
  const std::lock_guard guard(state().lock);
  const Graph* const graph = graph_of(handle);
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  auto copy = std::make_unique<Graph>(*graph);
  state().executables.insert(copy.get());
  *executable = reinterpret_cast<cudaGraphExec_t>(copy.release());
  return cudaSuccess;
}

// In the order of the capture, which is one that its edges allow, and behind earlier launches of the same one ("CUDA
// Runtime API", cudaGraphLaunch).
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  std::vector<Item> items;
  Stream* stream = nullptr;
  {
    const std::lock_guard guard(state().lock);
    const Graph* const graph = executable_of(handle);
    stream = stream_of(stream_handle);
    if (graph == nullptr || stream == nullptr) return fail(cudaErrorInvalidValue);
    if (graph->launched != nullptr && stream->capture == nullptr) {
      if (follows_order()) note_wait(*stream, *graph->launched, 0);
      items.push_back({.kind = "wait", .waits = graph->launched});
    }
    for (const Node& node : graph->nodes) items.push_back(node.item);
    ++state().counts.graph_launches;
    if (state().time != nullptr && stream->capture == nullptr) {
      // The whole graph is one item by the clock: a card launches its nodes without the host.
      for (Item& item : items) item.seconds = item.exclusive = 0;
      std::erase_if(items, [](const Item& item) { return !item.work && item.records == nullptr; });
      items.push_back({.kind = "graph", .exclusive = seconds_of(*graph, state().time->rates())});
    }
  }
  for (Item& item : items) {
    if (const cudaError_t error = hand_over(*stream, std::move(item)); error != cudaSuccess) return error;
  }
  const std::lock_guard guard(state().lock);
  if (Graph* const graph = executable_of(handle); graph != nullptr && stream->capture == nullptr)
    graph->launched = record(*stream);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  const std::lock_guard guard(state().lock);
  const Graph* const graph = graph_of(handle);
  if (graph == nullptr || count == nullptr) return fail(cudaErrorInvalidValue);
  if (nodes != nullptr) {
    for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = handle_of(*graph, i);
  }
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t* after, cudaGraphEdgeData*,
                                         size_t* count) {
  const std::lock_guard guard(state().lock);
  const auto* const node = reinterpret_cast<const Node*>(handle);
  const auto holds = [node](const Graph& graph) {
    return !graph.nodes.empty() && node >= graph.nodes.data() && node < graph.nodes.data() + graph.nodes.size();
  };
  const Graph* graph = nullptr;
  for (const Graph* const known : state().graphs) {
    if (holds(*known)) graph = known;
  }
  for (const auto& capture : state().captures) {
    if (holds(*capture->graph)) graph = capture->graph.get();
  }
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  if (after != nullptr) {
    for (size_t i = 0; i < std::min(*count, node->after.size()); ++i) after[i] = handle_of(*graph, node->after[i]);
  }
  *count = node->after.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, const char* file, unsigned) {
  const std::lock_guard guard(state().lock);
  const Graph* const graph = graph_of(handle);
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  std::FILE* const out = std::fopen(file, "w");
  if (out == nullptr) return fail(cudaErrorOperatingSystem);
  std::fputs("digraph dry_gpu {\n", out);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Item& item = graph->nodes[i].item;
    std::fprintf(out, "  n%zu [label=\"%s %s\"];\n", i, item.kind, item.name.c_str());
    for (const size_t before : graph->nodes[i].after) std::fprintf(out, "  n%zu -> n%zu;\n", before, i);
  }
  std::fputs("}\n", out);
  return std::fclose(out) == 0 ? cudaSuccess : fail(cudaErrorOperatingSystem);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  const std::lock_guard guard(state().lock);
  Graph* const graph = executable_of(handle);
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  state().executables.erase(graph);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const std::lock_guard guard(state().lock);
  Graph* const graph = graph_of(handle);
  if (graph == nullptr) return fail(cudaErrorInvalidValue);
  state().graphs.erase(graph);
  delete graph;
  return cudaSuccess;
}
}

}  // namespace tenfold::dry
