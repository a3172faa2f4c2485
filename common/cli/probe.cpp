// probe: runs tenfold-probe and prints what it measured.

#include <iostream>

#include "common/base/process.h"
#include "common/base/progress_line.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/display.h"
#include "common/cli/paths.h"
#include "common/cli/this_machine.h"
#include "common/machine/fingerprint.h"
#include "common/pages/rows/machine_card.h"

namespace tenfold::cli {

int probe() {
  const std::filesystem::path program = build_folder() / "tenfold-probe";
  if (!std::filesystem::exists(program))
    throw UsageError(program.string() + " is not built; build with: ./tenfold setup");
  const std::string& id = this_machine().id;
  std::string last;
  End end;
  {
    Display display;
    display.update(0, "measuring");
    end =
        run_child({{program.string()}, {}, ""}, {[](const std::string& text) { std::cout << text; },
                                                 [&](const std::string& line) {
                                                   last = line;
                                                   if (const auto progress = progress_in(line)) {
                                                     display.update(progress->fraction, "measuring " + progress->text);
                                                   } else {
                                                     display.say(line);
                                                   }
                                                 },
                                                 {},
                                                 [&] { display.tick(); }});
  }
  if (asked_to_stop()) return kInterrupted;
  if (end.code != 0)
    throw UsageError("the probe ended with exit code " + std::to_string(end.code) +
                     (last.starts_with("@") ? "" : ": " + last) + "; nothing was kept");
  std::vector<std::vector<std::string>> rows = {{"ceiling of " + id, "measured"}};
  for (const auto& [name, value] : read_ceilings(id)) rows.push_back({name, ceiling_text(name, value)});
  std::cout << format_columns(rows, "lr") << "kept in " << ceilings_file(id).string() << "\n";
  return 0;
}

}  // namespace tenfold::cli
