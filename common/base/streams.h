#pragma once
// The three standard streams of a program: what they are, and that they are there.

namespace tenfold {

/// Whether a line on this descriptor can be drawn over: a terminal that knows how (TERM is set and not "dumb").
bool can_draw(int descriptor);

/// Opens /dev/null for each standard stream that the caller has closed (`2>&-`). Else the first file that the program
/// opens gets its number, and the program's messages are written into it. Call it before any file is opened.
void open_standard_streams();

}  // namespace tenfold
