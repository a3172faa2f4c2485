# tenfold_lesson([KERNELS] [THREADS] [DATA openclipart]): the one line in a lesson's CMakeLists.txt. The folder's name is the lesson's name; what lies in it
# decides what is built:
#   lesson.cpp            the program
#   *.h                   the technique's headers
#   other *.cpp           linked into the program and its tests
#   *_test.cpp            GoogleTest tests of the technique
#   exercise/check.cpp    built twice: with starter.h (must fail at a hint) and with solution.h (must pass)
# THREADS: the technique has threads of its own; its tests run once more under ThreadSanitizer.
# DATA openclipart: it reads these images, which set-up fetches for it.
# KERNELS: the lesson launches kernels of kernels/, on a GPU and under the microscope; its exercise is a kernel.
function(tenfold_lesson)
  cmake_parse_arguments(ARG "KERNELS;THREADS" "DATA" "" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cpp)
  list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/lesson.cpp ${tests})

  add_executable(${name} lesson.cpp ${sources})
  set(libraries tenfold_harness)
  if(ARG_KERNELS)
    list(APPEND libraries tenfold_kernel_survey)
  endif()
  target_link_libraries(${name} PRIVATE ${libraries})
  tenfold_uses_torch(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lessons)
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
  if(tests)
    tenfold_test(${name}_test SOURCES ${tests} ${sources} LIBRARIES ${libraries} LABELS unit gpu)
  endif()
  if(tests AND ARG_THREADS AND NOT TENFOLD_SANITIZE)
    # Only these sources are instrumented, which is where the technique is: it lives in headers.
    tenfold_test(${name}_thread_test SOURCES ${tests} ${sources} LIBRARIES ${libraries} PLAIN TIMEOUT 300)
    target_compile_options(${name}_thread_test PRIVATE -fsanitize=thread -g1 -O1)
    target_link_options(${name}_thread_test PRIVATE -fsanitize=thread)
    # LibTorch is not instrumented: what it synchronises inside looks like a race. One between two of our own accesses does not.
    set_property(TEST ${name}_thread_test APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/thread_sanitizer.txt")
  endif()
  # Smoke: every variant that can run here runs; a lesson with ranks starts through the driver, as a user would. It gives no
  # verdict on speed, so it need not be alone on the machine.
  add_test(NAME smoke.${name} COMMAND $<TARGET_FILE:tenfold-driver> run ${name} --preset smoke --out ${PROJECT_BINARY_DIR}/smoke)
  set_tests_properties(smoke.${name} PROPERTIES LABELS "lesson;gpu" SKIP_RETURN_CODE 77 TIMEOUT 240)
  # What a GPU of 80 GB would build, built in the host's memory: settings that do not go together show without a GPU.
  add_test(NAME build_gpu80.${name} COMMAND $<TARGET_FILE:tenfold-driver> run ${name} --preset build --size gpu80 --device cpu
    --out ${PROJECT_BINARY_DIR}/built)
  set_tests_properties(build_gpu80.${name} PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL TRUE)

  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/exercise/check.cpp)
    foreach(version starter solution)
      set(target ${name}_exercise_${version})
      tenfold_exercise(${target} ${CMAKE_CURRENT_SOURCE_DIR}/exercise/check.cpp ${CMAKE_CURRENT_SOURCE_DIR}/exercise/${version}.h)
    endforeach()
    # A starter that passes would teach nothing, and neither would one that fails without a hint.
    add_test(NAME exercise.${name}.starter
      COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/tests/support/starter_fails.cmake $<TARGET_FILE:${name}_exercise_starter>)
    add_test(NAME exercise.${name}.solution COMMAND ${name}_exercise_solution)
    set_tests_properties(exercise.${name}.starter exercise.${name}.solution PROPERTIES LABELS lesson TIMEOUT 120)
    # The reader's own copy, made by `tenfold exercise`.
    set(own ${PROJECT_SOURCE_DIR}/exercises/${name}/exercise.h)
    if(EXISTS ${own})
      tenfold_exercise(${name}_exercise ${CMAKE_CURRENT_SOURCE_DIR}/exercise/check.cpp ${own})
    endif()
  endif()
endfunction()

# check.cpp includes EXERCISE, the header that holds the reader's answer.
function(tenfold_exercise target check answer)
  add_executable(${target} EXCLUDE_FROM_ALL ${check})
  if(ARG_KERNELS)  # the answer is device code: compiled as the microscope's kernels are
    target_link_libraries(${target} PRIVATE tenfold_kernels_microscope tenfold_flags tenfold_exercise_main)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE ${TENFOLD_MICROSCOPE_FLAGS})
    tenfold_counted(${target})
  else()
    target_link_libraries(${target} PRIVATE tenfold_harness tenfold_exercise_main)
    tenfold_uses_torch(${target})
  endif()
  # The name alone, found through the include path: a whole path would make every clone compile it anew.
  get_filename_component(folder ${answer} DIRECTORY)
  get_filename_component(file ${answer} NAME)
  target_include_directories(${target} PRIVATE ${folder})
  target_compile_definitions(${target} PRIVATE "EXERCISE=\"${file}\"")
  set_property(TARGET ${target} PROPERTY RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/exercises)
  if(NOT target MATCHES "_exercise$")
    add_dependencies(tenfold_tests ${target})
  endif()
endfunction()
