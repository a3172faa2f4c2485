#pragma once
// This machine under a name that no other machine's results have here.

#include <filesystem>
#include <string>

#include "common/machine/machine.h"

namespace tenfold::cli {

/// fingerprint(), once. Where out/ID or results/ID holds what other hardware measured, this machine goes by its
/// own_id(), here and in every program that is started from now on, and a line on standard error says so.
const Machine& this_machine();

/// Throws UsageError where a folder that the user named for results holds some of another machine.
void require_own_folder(const std::filesystem::path& folder, const Machine& own);

/// The name of a machine's folder in results/: its id, or its own_id() where other hardware has published under that,
/// which a line on standard error then says.
std::string published_id(const Machine& machine);
/// The same of a benchmark's report, which has of its machine the hardware_text(); none where an older program wrote
/// it.
std::string published_id(const std::string& id, const std::string& hardware);

}  // namespace tenfold::cli
