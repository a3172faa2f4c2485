# tenfold_lesson([KERNELS] [STREAMS] [THREADS] [DATA openclipart]): the one line in a lesson's CMakeLists.txt. The
# folder's name is the lesson's name; what lies in it decides what is built:
#   lesson.cpp            the program
#   *.h                   the technique's headers
#   other *.cpp           linked into the program and its tests
#   *_test.cpp            GoogleTest tests of the technique
#   exercise/             TenfoldExercise.cmake says what it holds
# THREADS: the technique has threads of its own; its tests run once more under ThreadSanitizer.
# STREAMS: it has streams or asynchronous copies of its own; a dry GPU then names the lines of a race.
# DATA openclipart: it reads these images, which set-up fetches for it.
# KERNELS: the lesson launches kernels of kernels/, on a GPU and under the microscope; its exercise is a kernel.
function(tenfold_lesson)
  cmake_parse_arguments(ARG "KERNELS;STREAMS;THREADS" "DATA" "" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(TENFOLD_KERNELS_ONLY)
    if(ARG_KERNELS)
      tenfold_exercise(${name} ${CMAKE_CURRENT_SOURCE_DIR}/exercise KERNEL)
    endif()
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cpp)
  list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/lesson.cpp ${tests})

  set_property(GLOBAL APPEND PROPERTY TENFOLD_LESSONS ${name})
  add_executable(${name} lesson.cpp ${sources})
  set(libraries tenfold_harness)
  if(ARG_KERNELS)
    list(APPEND libraries tenfold_kernel_survey)
  endif()
  target_link_libraries(${name} PRIVATE ${libraries})
  tenfold_uses_torch(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lessons
    TENFOLD_DATA "${ARG_DATA}" TENFOLD_KERNELS ${ARG_KERNELS})
  if(ARG_STREAMS)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-g1>)
  endif()
  # The driver lists lessons from what they say of themselves; asking once, here, keeps `list` instant.
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${name} --describe > ${PROJECT_BINARY_DIR}/lessons/${name}.describe.json VERBATIM)
  add_dependencies(tenfold_lessons ${name})
  # A lesson says in its program that it belongs to the core path; a contract test holds this line against what it says.
  file(STRINGS lesson.cpp core REGEX "^ *(\\{)?\\.core = true")
  if(core)
    add_dependencies(tenfold_core_path ${name})
  endif()

  if(NOT GTest_FOUND)
    return()
  endif()
  # The chapter on many devices, for `./tenfold test -L dist`.
  set(dist)
  if(name MATCHES "^5")
    set(dist dist)
  endif()
  if(tests)
    tenfold_test(${name}_test SOURCES ${tests} ${sources} LIBRARIES ${libraries} LABELS unit gpu ${dist})
  endif()
  if(tests AND ARG_THREADS AND NOT TENFOLD_SANITIZE)
    # Only these sources are instrumented, which is where the technique is: it lives in headers.
    tenfold_test(${name}_thread_test SOURCES ${tests} ${sources} LIBRARIES ${libraries} PLAIN TIMEOUT ${TENFOLD_TEST_LIMIT})
    target_compile_options(${name}_thread_test PRIVATE -fsanitize=thread -g1 -O1)
    target_link_options(${name}_thread_test PRIVATE -fsanitize=thread)
    # LibTorch is not instrumented: what it synchronises inside looks like a race. One between two of our own accesses does not.
    set_property(TEST ${name}_thread_test APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/thread_sanitizer.txt")
  endif()
  # Smoke: every variant that can run here runs; a lesson with ranks starts through the driver, as a user would. It gives no
  # verdict on speed, so it need not be alone on the machine. Lesson 90 takes minutes where a CPU has no 16-bit arithmetic.
  # Where the long tests are left out, what is timed is, too: half of the time.
  tenfold_thorough(${name} thorough)
  set(preset check)
  if(thorough)
    set(preset smoke)
  endif()
  add_test(NAME ${preset}.${name} COMMAND $<TARGET_FILE:tenfold-driver> run ${name} --preset ${preset}
    --out ${PROJECT_BINARY_DIR}/smoke)
  set_tests_properties(${preset}.${name} PROPERTIES LABELS "lesson;gpu;${dist}" SKIP_RETURN_CODE 77 TIMEOUT ${TENFOLD_TEST_LIMIT})
  if(thorough)
    tenfold_long_test(${preset}.${name} ${name})
  endif()
  # What a GPU of 80 GB would build, built in the host's memory: settings that do not go together show without a GPU.
  add_test(NAME build_gpu80.${name} COMMAND $<TARGET_FILE:tenfold-driver> run ${name} --preset build --size gpu80 --device cpu
    --out ${PROJECT_BINARY_DIR}/built)
  set_tests_properties(build_gpu80.${name} PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT ${TENFOLD_TEST_LIMIT} RUN_SERIAL TRUE)
  foreach(test ${preset} build_gpu80)
    tenfold_test_needs(${test}.${name} ${name})
  endforeach()

  if(thorough)
    tenfold_dry_tests(${name})
  endif()

  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/exercise/check.cpp)
    set(kernel)
    if(ARG_KERNELS)
      set(kernel KERNEL)
    endif()
    tenfold_exercise(${name} ${CMAKE_CURRENT_SOURCE_DIR}/exercise ${kernel})
  endif()
endfunction()

# The lesson's CUDA half on a card that is not there: variants agree, traps are caught, in each order in which its streams may
# do their work. What needs NCCL is skipped. All of it at size cpu, without a time, and on the second of two cards, since the
# first one's number is what a forgotten device gets.
function(tenfold_dry_tests name)
  if(NOT TARGET tenfold_dry)
    return()
  endif()
  get_property(libraries GLOBAL PROPERTY TENFOLD_DRY_TARGETS)
  add_test(NAME dry.${name} COMMAND $<TARGET_FILE:tenfold-driver> run ${name} --device dry:H100 --size cpu --preset check
    --out ${PROJECT_BINARY_DIR}/dry)
  set_tests_properties(dry.${name} PROPERTIES LABELS "lesson;dry;${dist}" SKIP_RETURN_CODE 77 TIMEOUT ${TENFOLD_TEST_LIMIT}
    ENVIRONMENT "OMP_NUM_THREADS=1;TENFOLD_DRY_GPUS=2" ENVIRONMENT_MODIFICATION "CUDA_VISIBLE_DEVICES=unset:")
  tenfold_long_test(dry.${name} ${name})
  tenfold_test_needs(dry.${name} ${name} tenfold_dry_arithmetic ${libraries})
endfunction()
