# How kernels are compiled for the microscope. -fsanitize=thread makes the compiler call the engine at every access; the
# engine, not ThreadSanitizer, is linked. -O1 merges no accesses; without the two -fno options a float4 load would count as
# four. -fsanitize-coverage has it called at every basic block, too: how often each line runs.
set(TENFOLD_MICROSCOPE_FLAGS -O1 -g -fsanitize=thread -fsanitize-coverage=trace-pc -fno-tree-sra -fno-ipa-sra -Wno-unknown-pragmas -Wno-tsan -Wno-restrict -Wno-unused-function)
if(TENFOLD_SANITIZE)
  # AddressSanitizer and the access hooks exclude each other: here the kernels are checked and nothing is counted.
  set(TENFOLD_MICROSCOPE_FLAGS -O1 -g -Wno-unknown-pragmas -Wno-unused-function)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # A barrier is known by the address of its call, so there must be one call: clang copies a small block of code between two
    # tests of the same condition into both branches, the __syncthreads() in it included.
    list(APPEND TENFOLD_MICROSCOPE_FLAGS -Wno-pass-failed -mllvm -simplifycfg-max-small-block-size=0)
  endif()
endif()

# tenfold_counted(TARGET): its device code is counted, and counts are of what g++ makes of it: clang optimises before it puts
# the calls in. So the launcher puts g++ in clang's place.
function(tenfold_counted target)
  if(TENFOLD_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "sh;-c;exec ${CMAKE_CXX_COMPILER_LAUNCHER} ${TENFOLD_GXX} \"$@\"")
endfunction()
