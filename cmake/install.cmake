# Installs headers, libraries, the pkg-config file, the CMake package, and man pages.
# cli/CMakeLists.txt installs the command-line man pages.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/bloomgate DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_BINARY_DIR}/generated/include/bloomgate/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bloomgate)
install(TARGETS bloomgate bloomgate_static EXPORT bloomgateTargets)

# The prefix is relative to the .pc file, so that an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pc_dir} /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(cmake/libbloomgate.pc.in libbloomgate.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libbloomgate.pc DESTINATION ${pc_dir})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bloomgate)
install(EXPORT bloomgateTargets NAMESPACE bloomgate:: DESTINATION ${package_dir}
  FILE bloomgateConfig.cmake)
# Before 1.0, every minor version may break compatibility, so the SONAME includes the minor version.
write_basic_package_version_file(bloomgateConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bloomgateConfigVersion.cmake DESTINATION ${package_dir})

# The man pages in section 3 are generated from the headers, one page per header and one per
# function, so there is no list of pages.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  set(man3 ${PROJECT_BINARY_DIR}/man/man3)
  file(GLOB man_headers CONFIGURE_DEPENDS include/bloomgate/*.h include/bloomgate/*.h.in)
  add_custom_command(OUTPUT ${man3}/libbloomgate.3
    DEPENDS tools/gen_man.py ${man_headers} VERSION CHANGELOG.md
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND ${Python3_EXECUTABLE} tools/gen_man.py ${man3} VERBATIM)
  add_custom_target(bloomgate_man3 ALL DEPENDS ${man3}/libbloomgate.3)
  install(DIRECTORY ${man3} DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()

file(GLOB man_sources CONFIGURE_DEPENDS docs/man/*.scd)
find_program(SCDOC scdoc)
if(man_sources AND SCDOC)
  foreach(source ${man_sources})
    get_filename_component(page ${source} NAME_WLE) # name.3.scd -> name.3
    string(REGEX MATCH "[0-9]$" section ${page})
    set(made ${PROJECT_BINARY_DIR}/man/${page})
    add_custom_command(OUTPUT ${made} DEPENDS ${source}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND ${SCDOC} < ${source} > ${made} VERBATIM)
    list(APPEND man_pages ${made})
    install(FILES ${made} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(bloomgate_man ALL DEPENDS ${man_pages})
endif()
