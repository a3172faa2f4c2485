# find_package(tenfold [COMPONENTS ...]), each component with what it needs and no more; also what `cmake --install --component`
# installs of it:
#   techniques      tenfold::techniques      headers of the lessons, which need LibTorch alone; the one without COMPONENTS
#   kernels         tenfold::kernels         launchers for a cudaStream_t
#   microscope      tenfold::microscope      the same launchers for the microscope's device, on any machine
#   kernels_torch   tenfold::kernels_torch   the kernels as functions of LibTorch, and as torch.ops.tenfold for Python
# The harness, models and data are for lessons and are not installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(TenfoldHeaders)
tenfold_headers(${PROJECT_SOURCE_DIR} techniques headers)  # fails on two of one name

add_library(tenfold_techniques INTERFACE)
target_link_libraries(tenfold_techniques INTERFACE $<BUILD_INTERFACE:tenfold_torch> $<INSTALL_INTERFACE:tenfold::torch>)
set_target_properties(tenfold_techniques PROPERTIES EXPORT_NAME techniques)
set_target_properties(tenfold_kernels PROPERTIES EXPORT_NAME kernels)
set_target_properties(tenfold_kernels_torch PROPERTIES EXPORT_NAME kernels_torch)
set_target_properties(tenfold_kernels_microscope PROPERTIES EXPORT_NAME microscope INSTALL_RPATH $ORIGIN)
set_target_properties(tenfold_microscope PROPERTIES EXPORT_NAME microscope_engine INSTALL_RPATH $ORIGIN)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tenfold)
function(tenfold_install kind)
  foreach(target IN LISTS ARGN)
    target_compile_features(${target} INTERFACE cxx_std_20)
  endforeach()
  install(TARGETS ${ARGN} EXPORT tenfold_${kind} COMPONENT ${kind} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${kind}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${kind} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tenfold_${kind} FILE tenfold_${kind}.cmake NAMESPACE tenfold:: DESTINATION ${package} COMPONENT ${kind})
  set(written ${PROJECT_BINARY_DIR}/installed_headers/${kind})
  set(headers ${kind})
  if(kind STREQUAL microscope)
    list(APPEND headers kernels)  # it has the same launchers for another kind of stream
  endif()
  install(CODE "
    include(${PROJECT_SOURCE_DIR}/common/cmake/TenfoldHeaders.cmake)
    file(REMOVE_RECURSE ${written})
    foreach(headers ${headers})
      tenfold_write_headers(${PROJECT_SOURCE_DIR} \${headers} ${written})
    endforeach()" COMPONENT ${kind})
  install(DIRECTORY ${written}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenfold COMPONENT ${kind})
  install(FILES ${PROJECT_BINARY_DIR}/tenfoldConfig.cmake ${PROJECT_BINARY_DIR}/tenfoldConfigVersion.cmake DESTINATION ${package}
    COMPONENT ${kind})
endfunction()
tenfold_install(techniques tenfold_techniques)
tenfold_install(kernels tenfold_kernels)
tenfold_install(microscope tenfold_kernels_microscope tenfold_microscope)
tenfold_install(kernels_torch tenfold_kernels_torch)
# For Python, which needs no package of CMake's: the operators and the module that loads them, beside each other.
install(TARGETS tenfold_operators LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kernels_torch)
install(FILES ${PROJECT_SOURCE_DIR}/kernels/operators/tenfold_operators.py DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kernels_torch)

configure_package_config_file(${PROJECT_SOURCE_DIR}/common/cmake/tenfoldConfig.cmake.in ${PROJECT_BINARY_DIR}/tenfoldConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
