# Targets and functions that every part of the tree uses.

# --- flags -----------------------------------------------------------------------------------------------------
add_library(tenfold_flags INTERFACE)
target_compile_options(tenfold_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tenfold_flags INTERFACE -Wno-restrict)  # false reports on std::string, GCC bug 105651
endif()
if(TENFOLD_WARNINGS_AS_ERRORS)
  target_compile_options(tenfold_flags INTERFACE -Werror)
endif()
if(TENFOLD_SANITIZE)
  target_compile_options(tenfold_flags INTERFACE -fsanitize=${TENFOLD_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tenfold_flags INTERFACE -fsanitize=${TENFOLD_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# --- public headers: <tenfold/NAME.h>, in the tree and installed -------------------------------------------------
# Each public header gets a generated one-line forward, so that its place in the tree is free to change.
set(TENFOLD_FORWARDS ${PROJECT_BINARY_DIR}/include)
function(tenfold_public_headers)
  foreach(header IN LISTS ARGN)
    get_filename_component(path ${header} ABSOLUTE)
    get_filename_component(name ${header} NAME)
    get_property(owner GLOBAL PROPERTY TENFOLD_HEADER_${name})
    if(owner AND NOT owner STREQUAL path)
      message(FATAL_ERROR "two public headers are called ${name}: ${owner} and ${path}; rename one")
    endif()
    set_property(GLOBAL PROPERTY TENFOLD_HEADER_${name} ${path})
    set_property(GLOBAL APPEND PROPERTY TENFOLD_PUBLIC_HEADERS ${path})
    # Relative: the same text in every clone, so that a compiler cache serves them all.
    file(RELATIVE_PATH place ${TENFOLD_FORWARDS}/tenfold ${path})
    file(CONFIGURE OUTPUT ${TENFOLD_FORWARDS}/tenfold/${name} CONTENT "#include \"${place}\"  // IWYU pragma: export\n" @ONLY)
  endforeach()
endfunction()

# --- LibTorch with one precompiled header for everything that includes it -----------------------------------------
add_library(tenfold_torch INTERFACE)
target_link_libraries(tenfold_torch INTERFACE tenfold_flags)
target_include_directories(tenfold_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(tenfold_torch INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
# libtorch exports an old copy of std::filesystem, whose remove_all jumps to null; the system's own must be found first.
target_link_options(tenfold_torch INTERFACE "SHELL:-Wl,--no-as-needed -lstdc++ -Wl,--as-needed")
if(TORCH_CUDA_FOUND OR TARGET torch_cuda)
  target_compile_definitions(tenfold_torch INTERFACE TENFOLD_WITH_CUDA=1)
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch.cpp CONTENT "// Carries the precompiled header.\n")
add_library(tenfold_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
target_link_libraries(tenfold_pch PUBLIC tenfold_torch nlohmann_json::nlohmann_json)
target_precompile_headers(tenfold_pch PRIVATE <torch/torch.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp> <nlohmann/json.hpp>)

# tenfold_uses_torch(TARGET): links LibTorch and shares the precompiled header.
function(tenfold_uses_torch target)
  target_link_libraries(${target} PUBLIC tenfold_torch nlohmann_json::nlohmann_json)
  target_precompile_headers(${target} REUSE_FROM tenfold_pch)
endfunction()

# --- what to build ----------------------------------------------------------------------------------------------
add_custom_target(tenfold_lessons COMMENT "lessons and driver")
add_custom_target(tenfold_bench COMMENT "benchmarks")

include(TenfoldLesson)
include(TenfoldTest)
