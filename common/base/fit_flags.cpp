#include "common/base/fit_flags.h"

namespace tenfold {

std::vector<Flag> fit_flags() {
  return {
      {.name = "--layers", .value = "N", .help = "transformer blocks", .range = Range{1, 1024}},
      {.name = "--width", .value = "N", .help = "features of a token", .range = Range{1, 1 << 20}},
      {.name = "--heads",
       .value = "N",
       .help = "attention heads; unless given, as many of width 128 as there are, or of 64 where that does not divide",
       .range = Range{1, 1 << 14}},
      {.name = "--length", .value = "N", .help = "tokens of a sequence; default 2048", .range = Range{1, 1 << 20}},
      {.name = "--batch", .value = "N", .help = "sequences in an update; default 1", .range = Range{1, 1 << 20}},
      {.name = "--vocabulary", .value = "N", .help = "kinds of tokens; default 32000", .range = Range{2, 1 << 22}},
      {.name = "--with",
       .value = "NAME,NAME",
       .help = "count one step with these levers, or `none`, instead of trying one after the other: autocast, "
               "micro-batches, checkpointing, chunked-loss, 8-bit-adamw, 16-bit-weights"},
      {.name = "--spare",
       .value = "MIB",
       .help = "memory that is left to the CUDA context and the libraries; default 1024",
       .range = Range{0, 1 << 20}},
  };
}

}  // namespace tenfold
