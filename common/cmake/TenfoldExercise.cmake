# tenfold_exercise(NAME FOLDER [KERNEL]): an exercise with what lies in its folder.
#   starter.h, solution.h    check.cpp is built with each: the first must fail at a hint, the second must pass
#   faults/WHAT.patch        breaks the solution on purpose: the check must fail, with the words after `expect: ` in the patch
#   exercises/NAME/          the reader's own copy, made by `tenfold exercise`
# KERNEL: the answer is device code; the check runs it under the microscope, and needs no LibTorch.
function(tenfold_exercise name folder)
  cmake_parse_arguments(ARG "KERNEL" "" "" ${ARGN})
  set(scripts ${PROJECT_SOURCE_DIR}/tests/support)
  foreach(version starter solution)
    tenfold_exercise_program(${name}_exercise_${version} ${folder}/check.cpp ${folder}/${version}.h FOR_TESTS)
    add_dependencies(tenfold_tests ${name}_exercise_${version})
  endforeach()
  # A starter that passes would teach nothing, and neither would one that fails without a hint.
  add_test(NAME exercise.${name}.starter
    COMMAND ${CMAKE_COMMAND} -P ${scripts}/starter_fails.cmake $<TARGET_FILE:${name}_exercise_starter>)
  add_test(NAME exercise.${name}.solution COMMAND ${name}_exercise_solution)
  set_tests_properties(exercise.${name}.starter exercise.${name}.solution PROPERTIES LABELS lesson TIMEOUT ${TENFOLD_TEST_LIMIT}
    ENVIRONMENT "OMP_NUM_THREADS=1")

  find_package(Git QUIET)
  file(GLOB patches CONFIGURE_DEPENDS ${folder}/faults/*.patch)
  tenfold_thorough(${name} thorough)
  if(NOT GIT_FOUND OR TENFOLD_SANITIZE OR NOT thorough)  # a pack on a bare machine; sanitizers stop at a fault in their own words
    set(patches)
  endif()
  foreach(patch IN LISTS patches)
    get_filename_component(fault ${patch} NAME_WE)
    set(broken ${PROJECT_BINARY_DIR}/exercise-faults/${name}/${fault})
    # Under another name than solution.h, which the check would find beside itself. The ceiling keeps git from
    # taking the build folder for a part of this checkout, where it would skip the file.
    add_custom_command(OUTPUT ${broken}/broken.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${broken}
      COMMAND ${CMAKE_COMMAND} -E copy ${folder}/solution.h ${broken}/solution.h
      COMMAND ${CMAKE_COMMAND} -E chdir ${broken} ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${PROJECT_BINARY_DIR}/exercise-faults
              ${GIT_EXECUTABLE} apply --whitespace=nowarn ${patch}
      COMMAND ${CMAKE_COMMAND} -E rename ${broken}/solution.h ${broken}/broken.h
      DEPENDS ${patch} ${folder}/solution.h VERBATIM)
    tenfold_exercise_program(${name}_exercise_fault_${fault} ${folder}/check.cpp ${broken}/broken.h FOR_TESTS)
    target_sources(${name}_exercise_fault_${fault} PRIVATE ${broken}/broken.h)
    add_dependencies(tenfold_tests ${name}_exercise_fault_${fault})
    add_test(NAME exercise.${name}.fault.${fault} COMMAND ${CMAKE_COMMAND} -P ${scripts}/fault_is_named.cmake
      $<TARGET_FILE:${name}_exercise_fault_${fault}> ${broken}/broken.h ${patch})
    set_tests_properties(exercise.${name}.fault.${fault} PROPERTIES LABELS lesson TIMEOUT ${TENFOLD_TEST_LIMIT}
      ENVIRONMENT "OMP_NUM_THREADS=1")
  endforeach()

  set(own ${PROJECT_SOURCE_DIR}/exercises/${name}/exercise.h)
  if(EXISTS ${own})
    tenfold_exercise_program(${name}_exercise ${folder}/check.cpp ${own})
  endif()
endfunction()

# check.cpp includes EXERCISE, the header that holds an answer.
# FOR_TESTS: only tests run it.
function(tenfold_exercise_program target check answer)
  add_executable(${target} EXCLUDE_FROM_ALL ${check})
  if(ARG_KERNEL)  # compiled as the microscope's kernels are
    target_link_libraries(${target} PRIVATE tenfold_microscope tenfold_flags tenfold_exercise_main)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE ${TENFOLD_MICROSCOPE_FLAGS})
    tenfold_counted(${target})
  else()
    target_link_libraries(${target} PRIVATE tenfold_harness tenfold_exercise_main)
    tenfold_uses_torch(${target} ${ARGN})
  endif()
  # The name alone, found through the include path: a whole path would make every clone compile it anew.
  get_filename_component(folder ${answer} DIRECTORY)
  get_filename_component(file ${answer} NAME)
  target_include_directories(${target} PRIVATE ${folder})
  target_compile_definitions(${target} PRIVATE "EXERCISE=\"${file}\"")
  set_property(TARGET ${target} PROPERTY RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/exercises)
endfunction()
