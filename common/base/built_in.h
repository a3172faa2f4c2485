#pragma once
// Which folders this build is of: the one file whose object differs between clones, so that the compiler cache has the
// others for all of them.

namespace tenfold {

/// The tree that this was built from, an absolute path.
const char* source_folder_of_build();
/// The build folder, an absolute path.
const char* folder_of_build();

}  // namespace tenfold
