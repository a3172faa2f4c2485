# cmake -P starter_fails.cmake PROGRAM: an exercise's starter must run, fail a check, and print a hint. Not enough: a crash, a check that
# never ends, an exception (no data, say), or a hint of a program that passes.
set(program ${CMAKE_ARGV3})
execute_process(COMMAND ${program} --gtest_color=no TIMEOUT 100
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result STREQUAL "1")
  set(problem "ends with '${result}' and not with 1, failed checks")
elseif(output MATCHES "C\\+\\+ exception [^\n]* thrown in")
  set(problem "throws where a check should fail")
elseif(NOT output MATCHES "\nhint: ")
  set(problem "prints no line that begins with 'hint: '")
else()
  return()
endif()
message("${output}")
message(FATAL_ERROR "${program}: the starter ${problem}")
