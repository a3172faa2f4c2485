#pragma once
// How long a step of data parallel training takes on more GPUs than were measured: from bytes, links and their
// latencies. docs/scaling.md has the formulas, and published runs beside them.

namespace tenfold {

/// GPUs in nodes that are alike, connected as a ring goes through them.
struct Cluster {
  int per_node = 8;
  double inside_bytes_per_s = 0;  ///< each way, that a ring reaches between the GPUs of a node
  double node_bytes_per_s = 0;    ///< each way, of all network adapters of a node together
};

/// What the ranks exchange in a step. Bytes are those of the tensors, not what is sent of them.
struct StepExchange {
  double reduced_bytes = 0;   ///< gradients
  double gathered_bytes = 0;  ///< parameters, once for each time that they are gathered; 0: every rank has them
  bool sharded = false;       ///< gradients are reduce-scattered, so that each rank has its share; else all-reduced
  int collectives = 1;        ///< in how many pieces; each has a latency
};

/// In how many buckets of 25 MiB DDP sends so many bytes of gradients; at least one.
int ddp_buckets(double bytes);

/// Seconds that the exchange takes among so many GPUs if nothing else is done. 0 on one.
double exchange_seconds(const StepExchange& exchange, int gpus, const Cluster& cluster);

/// Seconds of a step, between two bounds.
struct StepBounds {
  double least = 0;  ///< communication is hidden behind what may be computed meanwhile
  double most = 0;   ///< nothing is hidden
};

/// A step on `gpus` GPUs, each with as much to compute as in the step of `seconds` that was measured on
/// `measured_gpus`. All-reduces can be hidden behind the backward pass, two thirds of the computing (2 of 3 products of
/// a layer); what is sharded behind all of it. In `most`, what the measured step exchanged is taken off first; in
/// `least` all of it was hidden.
StepBounds step_bounds(double seconds, int measured_gpus, int gpus, const StepExchange& exchange,
                       const Cluster& cluster);

}  // namespace tenfold
