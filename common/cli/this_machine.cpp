#include "common/cli/this_machine.h"

#include <cstdlib>
#include <iostream>
#include <optional>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/cli/paths.h"
#include "common/machine/fingerprint.h"
#include "common/machine/hardware.h"
#include "common/result/result.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

std::optional<Machine> machine_of(const fs::path& file) {
  try {
    return read_result(file).machine;
  } catch (const FileError&) {  // whoever needs it complains
    return std::nullopt;
  }
}

/// The machine of the first result right in a folder; null without one. Files that cannot be read, and those of dry
/// GPUs, are left out.
std::optional<Machine> owner_of(const fs::path& folder) {
  for (const fs::path& file : json_files_in(folder)) {
    if (const std::optional<Machine> machine = machine_of(file); machine && !is_dry(*machine)) return machine;
  }
  return std::nullopt;
}

/// A folder's owner of another hardware than `own`; null without one.
std::optional<Machine> stranger_in(const fs::path& folder, const Machine& own) {
  const std::optional<Machine> owner = owner_of(folder);
  return owner && !same_hardware(*owner, own) ? owner : std::nullopt;
}

/// Says that a folder is another machine's, and what the one of this hardware goes by.
std::string apart(const fs::path& folder, const Machine& stranger, const std::string& id, const std::string& hardware) {
  const std::string own = own_id(id, hardware);
  std::cerr << one_line("tenfold: " + shown(folder) + " belongs to another machine (" + hardware_text(stranger) +
                        "); this one (" + hardware + ") goes by " + own)
            << "\n";
  return own;
}

/// The machine's id; its own_id() where the folder of that name holds another machine's results.
std::string id_apart(const fs::path& parent, const Machine& machine) {
  const fs::path folder = parent / machine.id;
  const std::optional<Machine> stranger = stranger_in(folder, machine);
  if (!stranger || stranger->id != machine.id) return machine.id;
  return apart(folder, *stranger, machine.id, hardware_text(machine));
}

Machine named_apart() {
  Machine machine = fingerprint();
  const std::string plain = machine.id;
  for (const char* parent : {"out", "results"}) {
    if (machine.id == plain) machine.id = id_apart(source_folder() / parent, machine);
  }
  if (machine.id != plain) setenv(kOwnId, machine.id.c_str(), 1);
  return machine;
}

}  // namespace

const Machine& this_machine() {
  static const Machine machine = named_apart();
  return machine;
}

void require_own_folder(const fs::path& folder, const Machine& own) {
  if (const std::optional<Machine> stranger = stranger_in(folder, own))
    throw UsageError(shown(folder) + ": belongs to another machine (" + hardware_text(*stranger) +
                     "); name another folder with --out");
}

std::string published_id(const Machine& machine) { return id_apart(source_folder() / "results", machine); }

std::string published_id(const std::string& id, const std::string& hardware) {
  const fs::path folder = source_folder() / "results" / id;
  const std::optional<Machine> owner = owner_of(folder);
  if (hardware.empty() || !owner || hardware_text(*owner) == hardware) return id;
  return apart(folder, *owner, id, hardware);
}

}  // namespace tenfold::cli
