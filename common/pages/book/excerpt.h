#pragma once
// Cutting a definition out of C++ or Python source, so that pages show the code that is compiled and run.

#include <string>
#include <vector>

namespace tenfold {

/// The definition of the function, struct, class, enum or constant `symbol` with the comment and template line directly
/// above it, its indentation removed. Comments, strings and raw strings do not mislead the brace matching. Calls and
/// declarations are passed over; of several the least indented is taken, so that a local variable does not hide a
/// function, and of overloads the first; "Type::member" finds an out-of-class definition.
/// Throws std::invalid_argument when there is no such definition.
std::string cut_definition(const std::string& source, const std::string& symbol);

/// The same of Python: what stands between the lines "# region NAME" and "# endregion", without these; else the
/// function or class NAME with its decorators and the comment directly above. Blank lines at its ends and its
/// indentation are removed. Throws std::invalid_argument when there is neither, or a region has no end.
std::string cut_python(const std::string& source, const std::string& name);

}  // namespace tenfold
