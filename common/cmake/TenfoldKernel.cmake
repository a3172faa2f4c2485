# kernels/: every folder NAME that holds NAME.cu is a kernel.
#   NAME.cuh              the device code, read by nvcc and by the microscope
#   NAME.h, NAME.cu       its launcher: a function template over the stream's type, instantiated by whoever compiles it
#   NAME_torch.h, .cpp    where it is used from LibTorch: an autograd Function
#   NAME_hopper.cuh       kernels and launcher of what only compute capability 9.0a has, where there is such a rung
#   NAME_microscope.cpp   the page behind `./tenfold kernel NAME`
# and tests/kernels/NAME_test.cpp is its test, built for the microscope and for a GPU.
enable_language(CUDA)
if(CMAKE_VERSION VERSION_LESS 3.26)  # knows no flag for C++20 in CUDA
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
# LibTorch's CMake files leave flags behind that forbid the half-precision operators; architectures are set below.
set(CMAKE_CUDA_FLAGS "")
# "7.5;8.0;9.0;10.0+PTX" in CMake's words: 75-real;80-real;90-real;100-real;100-virtual
set(architectures)
foreach(arch IN LISTS TENFOLD_CUDA_ARCHS)
  string(REGEX REPLACE "\\.|\\+PTX" "" number ${arch})
  list(APPEND architectures ${number}-real)
  if(arch MATCHES "\\+PTX$")
    list(APPEND architectures ${number}-virtual)
  endif()
endforeach()

add_library(tenfold_kernels STATIC)
set_target_properties(tenfold_kernels PROPERTIES CUDA_ARCHITECTURES "${architectures}" CUDA_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
target_include_directories(tenfold_kernels PUBLIC ${TENFOLD_FORWARDS} PRIVATE ${PROJECT_SOURCE_DIR}/kernels)
target_compile_options(tenfold_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo>)
if(TENFOLD_WARNINGS_AS_ERRORS)
  target_compile_options(tenfold_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xptxas=--warn-on-spills,-Werror -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Wno-restrict>)
endif()
target_link_libraries(tenfold_kernels PUBLIC CUDA::cudart)

# The microscope's half is one shared library: its thread-local storage is then the kernels' __shared__ arrays and nothing
# else. -fsanitize=thread makes the compiler call the engine at every access; the engine, not ThreadSanitizer, is linked.
# -O1 merges no accesses; without the two -fno options a float4 load would count as four.
set(TENFOLD_MICROSCOPE_FLAGS -O1 -g -fsanitize=thread -fno-tree-sra -fno-ipa-sra -Wno-unknown-pragmas -Wno-tsan -Wno-unused-function)
if(TENFOLD_SANITIZE)
  # AddressSanitizer and the access hooks exclude each other: here the kernels are checked and nothing is counted.
  list(REMOVE_ITEM TENFOLD_MICROSCOPE_FLAGS -fsanitize=thread)
endif()
add_library(tenfold_microscope SHARED)
target_include_directories(tenfold_microscope PUBLIC ${TENFOLD_FORWARDS} PRIVATE ${PROJECT_SOURCE_DIR}/kernels)
target_include_directories(tenfold_microscope SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(tenfold_microscope PUBLIC tenfold_simt PRIVATE tenfold_flags)
# GCC 12's libbacktrace loses the lines of a unit whose address range holds another unit's template functions.
target_link_options(tenfold_microscope PRIVATE -Wl,--sort-section=name)

set(forwards)
file(GLOB kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*/*.cu)
foreach(file IN LISTS kernel_files)
  get_filename_component(name ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  list(APPEND forwards ${folder}/${name}.h)
  target_sources(tenfold_kernels PRIVATE ${file})
  set(wrapper ${PROJECT_BINARY_DIR}/kernels/${name}_simt.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${name}/${name}.cu\"\n")
  set_source_files_properties(${wrapper} PROPERTIES COMPILE_OPTIONS "${TENFOLD_MICROSCOPE_FLAGS}" OBJECT_DEPENDS ${file})
  target_sources(tenfold_microscope PRIVATE ${wrapper})
  if(EXISTS ${folder}/${name}_microscope.cpp)
    add_executable(kernel_${name} ${folder}/${name}_microscope.cpp)
    target_link_libraries(kernel_${name} PRIVATE tenfold_microscope tenfold_kernel_page tenfold_flags)
    target_include_directories(kernel_${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})  # for __half and __nv_bfloat16
    set_target_properties(kernel_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/kernels)
    add_dependencies(tenfold_lessons kernel_${name})
  endif()
endforeach()
tenfold_public_headers(${forwards})

if(TENFOLD_CUDA_ARCHS MATCHES "9\\.0")
  file(GLOB hopper_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*/*_hopper.cuh)
  set_source_files_properties(${hopper_files} PROPERTIES LANGUAGE CUDA)
  add_library(tenfold_kernels_hopper OBJECT ${hopper_files})
  set_target_properties(tenfold_kernels_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real CUDA_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
  target_include_directories(tenfold_kernels_hopper PRIVATE ${TENFOLD_FORWARDS} ${PROJECT_SOURCE_DIR}/kernels)
  target_compile_options(tenfold_kernels_hopper PRIVATE $<TARGET_PROPERTY:tenfold_kernels,COMPILE_OPTIONS>)
  target_link_libraries(tenfold_kernels_hopper PRIVATE CUDA::cudart)
  target_sources(tenfold_kernels PRIVATE $<TARGET_OBJECTS:tenfold_kernels_hopper>)
  foreach(file IN LISTS hopper_files)
    string(REPLACE "_hopper.cuh" ".cu" file ${file})
    set_source_files_properties(${file} PROPERTIES COMPILE_DEFINITIONS TENFOLD_HOPPER)
  endforeach()
endif()

# The kernels as differentiable operators of LibTorch, on CUDA tensors and, under the microscope, on CPU tensors.
file(GLOB torch_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*/*_torch.cpp)
file(GLOB torch_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*/*_torch.h)
tenfold_public_headers(${torch_headers})
add_library(tenfold_kernels_torch STATIC ${torch_files})
target_link_libraries(tenfold_kernels_torch PUBLIC tenfold_kernels tenfold_microscope)
target_include_directories(tenfold_kernels_torch SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
tenfold_uses_torch(tenfold_kernels_torch)
