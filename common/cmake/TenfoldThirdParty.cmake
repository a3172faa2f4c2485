# The libraries beside LibTorch. A tree made by `tenfold gpu-pack` carries them in third_party; elsewhere they are the
# system's. A library that is added here is added to pack_third_party in gpu.sh as well.
if(DEFINED ENV{TENFOLD_THIRD_PARTY})
  set(third_party_default $ENV{TENFOLD_THIRD_PARTY})
else()
  set(third_party_default ${PROJECT_SOURCE_DIR}/third_party)
endif()
set(TENFOLD_THIRD_PARTY ${third_party_default} CACHE PATH "Libraries packed by gpu-pack; the system's are used when it does not exist")

if(NOT IS_DIRECTORY ${TENFOLD_THIRD_PARTY})
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(GTest)
  find_package(benchmark)
  # For the microscope. A machine with a GPU can do without.
  find_package(Boost 1.74 CONFIG COMPONENTS context)
  return()
endif()

message(STATUS "Third-party libraries: ${TENFOLD_THIRD_PARTY}")
# One include folder for all, so that gloo's headers come with any of them.
foreach(headers nlohmann_json::nlohmann_json CLI11::CLI11)
  add_library(${headers} INTERFACE IMPORTED)
  target_include_directories(${headers} INTERFACE ${TENFOLD_THIRD_PARTY}/include)
endforeach()

add_library(ZLIB::ZLIB STATIC IMPORTED)
set_target_properties(ZLIB::ZLIB PROPERTIES IMPORTED_LOCATION ${TENFOLD_THIRD_PARTY}/lib/libz.a)
target_include_directories(ZLIB::ZLIB INTERFACE ${TENFOLD_THIRD_PARTY}/include)

# GoogleTest and GoogleMock from their sources: a static library would tie the tree to one compiler.
foreach(library gtest:gtest-all gtest_main:gtest_main gmock:gmock-all)
  string(REPLACE ":" ";" library ${library})
  list(GET library 0 name)
  list(GET library 1 source)
  add_library(tenfold_${name} STATIC EXCLUDE_FROM_ALL ${TENFOLD_THIRD_PARTY}/googletest/src/${source}.cc)
  target_include_directories(tenfold_${name} SYSTEM PUBLIC ${TENFOLD_THIRD_PARTY}/include PRIVATE ${TENFOLD_THIRD_PARTY}/googletest)
  target_link_libraries(tenfold_${name} PUBLIC Threads::Threads)
  add_library(GTest::${name} ALIAS tenfold_${name})
endforeach()
target_link_libraries(tenfold_gtest_main PUBLIC tenfold_gtest)
target_link_libraries(tenfold_gmock PUBLIC tenfold_gtest)
set(GTest_FOUND TRUE)

file(GLOB benchmark_library ${TENFOLD_THIRD_PARTY}/lib/libbenchmark.so.*)
if(benchmark_library)
  add_library(benchmark::benchmark SHARED IMPORTED)
  set_target_properties(benchmark::benchmark PROPERTIES IMPORTED_LOCATION ${benchmark_library})
  target_include_directories(benchmark::benchmark INTERFACE ${TENFOLD_THIRD_PARTY}/include)
  target_link_libraries(benchmark::benchmark INTERFACE Threads::Threads)
  set(benchmark_FOUND TRUE)
endif()
