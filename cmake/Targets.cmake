# One call per folder: what it is made of and what it may use.

# jacserve_library(NAME SOURCES a.cc ... USES target ...): a static library; header-only when SOURCES is empty.
function(jacserve_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${ARG_USES})
    target_compile_options(${name} PRIVATE ${JACSERVE_WARNINGS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ARG_USES})
  endif()
endfunction()

# jacserve_program(NAME SOURCES main.cc ... USES target ...): an executable in build/PRESET/bin.
function(jacserve_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_USES})
  target_compile_options(${name} PRIVATE ${JACSERVE_WARNINGS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# jacserve_test(NAME SOURCES x_test.cc ... USES target ... [LABELS unit|cluster|process]): a GoogleTest binary.
# The target unit_tests builds all that are labelled unit. Tests find programs through JACSERVE_BIN and golden cases through JACSERVE_GOLDEN.
function(jacserve_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_USES} GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE ${JACSERVE_WARNINGS} ${JACSERVE_TEST_OPTIONS})
  if(ARG_LABELS STREQUAL unit)
    add_dependencies(unit_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${JACSERVE_TEST_TIMEOUT}
    ENVIRONMENT "JACSERVE_BIN=${CMAKE_BINARY_DIR}/bin;JACSERVE_GOLDEN=${CMAKE_SOURCE_DIR}/tests/golden")
endfunction()
