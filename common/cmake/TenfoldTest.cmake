# tenfold_test(NAME SOURCES ... [LIBRARIES ...] [LABELS ...] [PLAIN]): a GoogleTest program.
# Label `unit` unless told; PLAIN: does not include torch, so it compiles in seconds.
if(NOT TARGET tenfold_tests)
  add_custom_target(tenfold_tests ALL COMMENT "tests")
endif()
# The tests of common/, which the sanitizers run.
if(NOT TARGET common_tests)
  add_custom_target(common_tests)
endif()
# Those of the kernels and of the microscope: label `kernel`.
if(NOT TARGET kernel_tests)
  add_custom_target(kernel_tests)
endif()
function(tenfold_test name)
  cmake_parse_arguments(ARG "PLAIN" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT ${TENFOLD_TEST_LIMIT})  # a program holds all tests of a folder
  endif()
  if(TENFOLD_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} tenfold_test_support GTest::gmock GTest::gtest GTest::gtest_main tenfold_flags)
  if(NOT ARG_PLAIN)
    tenfold_uses_torch(${name} FOR_TESTS)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(tenfold_tests ${name})
  if(common IN_LIST ARG_LABELS)
    add_dependencies(common_tests ${name})
  endif()
  if(kernel IN_LIST ARG_LABELS)
    add_dependencies(kernel_tests ${name})
  endif()
  # One process per program and not per test: loading LibTorch costs more than most tests.
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "OMP_NUM_THREADS=1;TORCH_CPP_LOG_LEVEL=FATAL")  # two threads each on two cores would wait for each other
endfunction()

# tenfold_thorough(NAME OUT): whether the lesson has its long tests: on a dry GPU, with planted faults, of its twin in Python.
function(tenfold_thorough name out)
  string(SUBSTRING ${name} 0 2 number)
  set(${out} OFF PARENT_SCOPE)
  if(NOT TENFOLD_THOROUGH OR number IN_LIST TENFOLD_THOROUGH)
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

# tenfold_long_test(TEST NAME): one of them. They come after all other tests, in the order in which TENFOLD_THOROUGH names the
# lessons: `./tenfold test --minutes N` leaves out the last ones.
function(tenfold_long_test test name)
  string(SUBSTRING ${name} 0 2 number)
  list(FIND TENFOLD_THOROUGH ${number} place)
  math(EXPR cost "-2 - ${place}")
  set_tests_properties(${test} PROPERTIES COST ${cost})
endfunction()

# tenfold_test_needs(TEST TARGET...): programs that a test starts beside the one in its command. They are what
# `./tenfold test -R TEST` builds, and without them the test does not run.
function(tenfold_test_needs test)
  set(files)
  foreach(target IN LISTS ARGN)
    list(APPEND files $<TARGET_FILE:${target}>)
  endforeach()
  set_property(TEST ${test} APPEND PROPERTY REQUIRED_FILES ${files})
endfunction()
