#pragma once
// Which code was measured: a fingerprint of a lesson's sources, kept in its result files.

#include <filesystem>
#include <string>
#include <vector>

namespace tenfold {

/// The files that the lesson's program is made of, but for those that measure it, absolute and sorted: *.h, *.cpp, *.cu
/// and *.cuh directly in `lesson_folder`, and what these include in turn from anywhere in the tree; of common/ the
/// models and the readers of data, each with the .cpp of its name. A kernel's NAME.h or NAME_torch.h brings what it is
/// linked with: the sources in its folder, without its case, its page and its reference (NAME_case.h,
/// NAME_microscope.cpp, NAME_reference.h).
/// Tests (*_test.cpp) and predictions (prediction.*) are left out: neither changes what is measured. Empty when the
/// folder does not exist. Throws FileError on an unreadable file.
std::vector<std::filesystem::path> measured_files(const std::filesystem::path& lesson_folder);

/// All files of the tree at `root` that the program of a lesson's folder, or of one source file, is made of, as far as
/// #include tells: headers everywhere, common/ too, and beside each the .cpp of its name. Absolute and sorted; empty
/// when there is no `source`. Throws FileError on an unreadable file.
std::vector<std::filesystem::path> files_of_program(const std::filesystem::path& root,
                                                    const std::filesystem::path& source);

/// SHA-256 over the tokens (code_tokens.h) of the measured files, whatever their names, folders and order. Empty when
/// the folder does not exist (a binary away from its sources). Throws FileError on an unreadable file.
std::string code_hash(const std::filesystem::path& lesson_folder);

/// The same over these files' texts.
std::string hash_of_code(const std::vector<std::string>& files);

}  // namespace tenfold
