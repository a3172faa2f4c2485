include(TenfoldPaths)

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

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch.cpp CONTENT "// Carries the precompiled header.\n")
add_library(tenfold_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
target_link_libraries(tenfold_pch PUBLIC tenfold_torch nlohmann_json::nlohmann_json)
target_precompile_headers(tenfold_pch PRIVATE <torch/torch.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp> <nlohmann/json.hpp>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Templates are instantiated once, in the header, and not again in every file.
  set_target_properties(tenfold_pch PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)
  # The compiler cache serves other clones when the header is compiled by the same command to the same bytes: without its
  # time, and without the whole paths that CMake hides from ccache behind -Xclang.
  target_compile_options(tenfold_pch PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -emit-pch -Xclang -include -Xclang CMakeFiles/tenfold_pch.dir/cmake_pch.hxx -x c++-header)
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
  # The header names the files that it was made of. Through /proc/self/cwd, Ninja's folder, they are the own clone's in each.
  # Not where a library lies in the tree: Ninja shortens /proc/self/cwd/../../third_party to /proc/third_party, which is not
  # there, and would build everything again at every call.
  tenfold_is_below(libraries_in_tree ${PROJECT_SOURCE_DIR} ${TENFOLD_THIRD_PARTY} ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT libraries_in_tree)
    set_target_properties(tenfold_pch PROPERTIES CXX_COMPILER_LAUNCHER "env;PWD=/proc/self/cwd;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endif()

# tenfold_uses_torch(TARGET): links LibTorch and shares the precompiled header.
function(tenfold_uses_torch target)
  # What is installed finds LibTorch again where it is used.
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:tenfold_torch> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>
    $<INSTALL_INTERFACE:tenfold::torch>)
  target_precompile_headers(${target} REUSE_FROM tenfold_pch)
endfunction()
