"""Writes a function for every one that LibTorch asks a CUDA library for, and the library's version script.

usage: stand_ins.py SONAME PREFIX MODE OUT_CPP OUT_MAP LIBRARIES... [HEADERS...]

LIBRARIES leave functions to another library; HEADERS (.h) list those that LibTorch looks up by name while it runs, `_(NAME, VERSION)`.

What common/dry_gpu defines itself takes precedence: these are weak. MODE says what one of these does: `launches` (all of
cuBLAS: a handle first, and work on its stream), or the status with which it says that it is not stood in for. Functions
that nobody asks for are not there, so that a newer LibTorch fails by name when it is loaded, and not by a wrong answer.
"""

import re
import subprocess
import sys
from pathlib import Path


def asked_for(libraries, prefix):
    """Names and versions of the functions that libraries leave to another one."""
    found = set()
    for library in libraries:
        text = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
        found |= {match[1] for match in re.finditer(rf"\b(?:U|w)\s+((?:__)?{prefix}\w*)(?:@\S+)?$", text, re.MULTILINE)}
    return found


def looked_up(headers, prefix):
    """Names that LibTorch's headers list for its table of the driver's functions. Some of them it cannot do without."""
    text = "".join(Path(header).read_text() for header in headers)
    return {match[1] for match in re.finditer(rf"_\(({prefix}\w*), \d+\)", text)}


def source(names, mode, library):
    lines = [f"// Written by common/dry_gpu/stand_ins.py: what LibTorch asks {library} for.", ""]
    if mode == "launches":
        lines += ["extern \"C\" int tenfold_dry_launch_cublas(void* handle, const char* name);", "extern \"C\" {"]
        lines += [f"__attribute__((weak)) int {name}(void* handle) {{ return tenfold_dry_launch_cublas(handle, \"{name}\"); }}"
                  for name in names]
    else:
        lines += ["namespace tenfold::dry {", "void refuse(const char* function);", "}", "extern \"C\" {"]
        lines += [f"__attribute__((weak)) int {name}() {{ tenfold::dry::refuse(\"{name}\"); return {int(mode)}; }}"
                  for name in names]
    return "\n".join(lines + ["}", ""])


def main():
    soname, prefix, mode, out_cpp, out_map, *asking = sys.argv[1:]
    headers = [file for file in asking if file.endswith(".h")]
    libraries = [file for file in asking if file not in headers]
    names = sorted(asked_for(libraries, prefix) | looked_up(headers, prefix))
    if not names:
        sys.exit(f"{', '.join(libraries)}: nothing begins with {prefix}")
    Path(out_cpp).write_text(source(names, mode, soname))
    begin = prefix.split("(")[0]
    # What other stand-ins use of the runtime's is its namespace.
    Path(out_map).write_text(f"{soname} {{\n  global: {begin}*; __{begin}*; tenfold_dry_*; _ZN7tenfold3dry*; _ZNK7tenfold3dry*;\n"
                             "  local: *;\n};\n")


if __name__ == "__main__":
    main()
