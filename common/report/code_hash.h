#pragma once
// Which code was measured: a fingerprint of a lesson's sources, kept in its result files.

#include <filesystem>
#include <string>

namespace tenfold {

/// SHA-256 over the sorted names and contents of the *.h, *.cpp, *.cu and *.cuh files directly in `lesson_folder`,
/// without its tests (*_test.cpp), blank lines and lines that are only a comment: a better explanation is no new code. Subfolders
/// (exercise, figures) do not count: they do not change what is measured. Empty when the folder does not exist (a binary away from its
/// sources). Part of it is also the code of every kernel whose header the lesson includes (kernels/NAME for <tenfold/NAME.h> and for
/// <tenfold/NAME_torch.h>), without its page and its reference (NAME_microscope.cpp, NAME_reference.h), and whatever that includes
/// from kernels/ in turn, such as kernels/rows.cuh. Throws ResultError on an unreadable file.
std::string code_hash(const std::filesystem::path& lesson_folder);

}  // namespace tenfold
