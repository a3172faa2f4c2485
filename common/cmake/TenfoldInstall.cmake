# find_package(tenfold): headers under include/tenfold, the libraries, and a package file that finds LibTorch.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(public_headers GLOBAL PROPERTY TENFOLD_PUBLIC_HEADERS)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenfold)
set_target_properties(tenfold_microscope PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS tenfold_core tenfold_lesson tenfold_simt tenfold_kernel_page tenfold_kernels tenfold_microscope tenfold_kernels_torch
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/common/cmake/tenfoldConfig.cmake.in ${PROJECT_BINARY_DIR}/tenfoldConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tenfold PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tenfoldConfig.cmake ${PROJECT_BINARY_DIR}/tenfoldConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tenfold)
