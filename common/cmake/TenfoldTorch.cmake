include(TenfoldPaths)
set(TENFOLD_CMAKE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

# LibTorch with one precompiled header for everything that includes it.
add_library(tenfold_torch INTERFACE)
target_link_libraries(tenfold_torch INTERFACE tenfold_flags)
target_include_directories(tenfold_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(tenfold_torch INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
# libtorch exports an old copy of std::filesystem, whose remove_all jumps to null; the system's own must be found first.
target_link_options(tenfold_torch INTERFACE "SHELL:-Wl,--no-as-needed -lstdc++ -Wl,--as-needed")
if(TORCH_CUDA_FOUND OR TARGET torch_cuda)
  target_compile_definitions(tenfold_torch INTERFACE TENFOLD_WITH_CUDA=1)
endif()

# tenfold_precompiled_header(NAME [OPTION...]): the library NAME, which carries the header as it is compiled with these options. One a
# folder: a macro, since the folder's variables say how CMake compiles it.
macro(tenfold_precompiled_header name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/pch.cpp CONTENT "// Carries the precompiled header.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/pch.cpp)
  target_link_libraries(${name} PUBLIC tenfold_torch nlohmann_json::nlohmann_json)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE <torch/torch.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp> <nlohmann/json.hpp>)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # Templates are instantiated once, in the header, and not again in every file.
    set_target_properties(${name} PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)
    # Also what Clang leaves to every file; beside the header that includes it, so that no path of this clone stands there.
    configure_file(${TENFOLD_CMAKE_FOLDER}/torch_members.h.in ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/torch_members.h COPYONLY)
    target_precompile_headers(${name} PRIVATE "\"torch_members.h\"")
    # The compiler cache serves other clones when the header is compiled by the same command to the same bytes: without its
    # time, and without the whole paths that CMake hides from ccache behind -Xclang.
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_BINARY_DIR BASE_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE folder)
    cmake_path(APPEND folder CMakeFiles ${name}.dir cmake_pch.hxx)
    cmake_path(NORMAL_PATH folder)
    set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -emit-pch -Xclang -include -Xclang ${folder} -x c++-header)
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
    # The header names the files that it was made of. Through /proc/self/cwd, Ninja's folder, they are the own clone's in each.
    # Not where a library lies in the tree: Ninja shortens /proc/self/cwd/../../third_party to /proc/third_party, which is not
    # there, and would build everything again at every call.
    tenfold_is_below(libraries_in_tree ${PROJECT_SOURCE_DIR} ${TENFOLD_THIRD_PARTY} ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
    if(NOT libraries_in_tree)
      set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "env;PWD=/proc/self/cwd;${CMAKE_CXX_COMPILER_LAUNCHER}")
    endif()
  endif()
endmacro()
tenfold_precompiled_header(tenfold_pch)

# What only tests run (their programs, exercises' answers, planted faults) is not optimised: an object takes half as long, and
# they are a third of all.
set(TENFOLD_TEST_OPTIONS)
if(CMAKE_BUILD_TYPE STREQUAL Release OR TENFOLD_SANITIZE)
  set(TENFOLD_TEST_OPTIONS -O0)
endif()
add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/tests_header ${PROJECT_BINARY_DIR}/tests/header)

# tenfold_uses_torch(TARGET [FOR_TESTS]): links LibTorch and shares the precompiled header. FOR_TESTS: only tests run it.
function(tenfold_uses_torch target)
  cmake_parse_arguments(ARG "FOR_TESTS" "" "" ${ARGN})
  # What is installed finds LibTorch again where it is used.
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:tenfold_torch> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>
    $<INSTALL_INTERFACE:tenfold::torch>)
  if(ARG_FOR_TESTS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TENFOLD_TEST_OPTIONS}>)
    target_precompile_headers(${target} REUSE_FROM tenfold_pch_tests)
  else()
    target_precompile_headers(${target} REUSE_FROM tenfold_pch)
  endif()
endfunction()
