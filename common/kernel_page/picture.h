#pragma once
// One access as a picture: which lane of a warp touches what.

#include "common/microscope/report.h"

#include <string>

namespace tenfold::simt {

/// A self-contained SVG of the access's example request, for pages 400 pixels wide or wider: 32 lanes as rows; the
/// touched 32-byte sectors of global memory, or the 32 banks of shared memory, as columns. A `touched` cell for each
/// lane and sector (or bank), and in it the lane's own bytes. Dashes mark where the address jumps between two columns.
/// Bank conflicts are coloured and hollow, lanes that take no part struck through. `title` is the first line, `code`
/// (may be empty) the next, in a fixed-width font; both go on below where they are too long. Light and dark follow the
/// reader's system.
std::string picture(const Access& access, const std::string& title, const std::string& code);

/// The 32-byte sectors that the example request touches.
int64_t sectors_of_example(const Access& access);

}  // namespace tenfold::simt
