# Language level, warnings, sanitizers, ccache and linker: the same for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(JACSERVE_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize takes them; empty for none")
if(JACSERVE_SANITIZE)
  add_compile_options(-fsanitize=${JACSERVE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${JACSERVE_SANITIZE})
endif()

# Most of a test's compile time is optimizing code that runs once. The seconds are for a test that hangs: under the thread
# sanitizer the longest takes twenty minutes on two busy cores.
set(JACSERVE_TEST_OPTIONS -O1)
set(JACSERVE_TEST_TIMEOUT 600)
if(JACSERVE_SANITIZE)
  set(JACSERVE_TEST_OPTIONS -O0)
  set(JACSERVE_TEST_TIMEOUT 3600)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings are for our own code; generated code is compiled without.
# Designated initializers leave the rest at its default on purpose.
set(JACSERVE_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
