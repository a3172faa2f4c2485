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

# Links a lesson in half of ld's time, see system_packages.sh.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=lld TENFOLD_HAS_LLD)
if(TENFOLD_HAS_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# What the microscope's kernels are compiled with, see TenfoldMicroscope.cmake.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(TENFOLD_GXX ${CMAKE_CXX_COMPILER})
else()
  find_program(TENFOLD_GXX g++ REQUIRED)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# --- LibTorch ---------------------------------------------------------------------------------------------------
if(NOT TENFOLD_KERNELS_ONLY)
  include(TenfoldTorch)
endif()

# --- tests ------------------------------------------------------------------------------------------------------
# Seconds. Only what hangs takes them all: the longest test takes some 150 on two quiet cores, another machine may be three
# times as slow, and busy.
set(TENFOLD_TEST_LIMIT 900)

# --- what to build ----------------------------------------------------------------------------------------------
add_custom_target(tenfold_lessons COMMENT "lessons, kernels' pages and driver")
add_custom_target(tenfold_core_path COMMENT "lessons of the core path, probe and driver")
add_custom_target(tenfold_kernel_pages COMMENT "kernels' pages and driver")
add_custom_target(tenfold_bench COMMENT "benchmarks")

include(TenfoldExercise)
include(TenfoldLesson)
include(TenfoldTest)
