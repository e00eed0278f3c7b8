# Where the CUDA toolkit is. JACSERVE_CUDA_HEADERS is true when its headers are found; then jacserve_cuda_headers brings
# them. JACSERVE_CUDA=OFF finds nothing, ON fails without them.
set(JACSERVE_CUDA AUTO CACHE STRING "CUDA: AUTO (when there is a toolkit), ON or OFF")
set_property(CACHE JACSERVE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(JACSERVE_CUDA_HEADERS FALSE)
if(JACSERVE_CUDA)
  find_path(CUDA_INCLUDE_DIR cublas_v2.h HINTS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
  if(CUDA_INCLUDE_DIR)
    set(JACSERVE_CUDA_HEADERS TRUE)
    add_library(jacserve_cuda_headers INTERFACE)
    target_include_directories(jacserve_cuda_headers SYSTEM INTERFACE ${CUDA_INCLUDE_DIR})
  elseif(NOT JACSERVE_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "JACSERVE_CUDA=ON needs the headers of CUDA and cuBLAS (${CUDA_INCLUDE_DIR})")
  endif()
endif()

# jacserve_cuda_kind(TARGET real|simulated): whatever links targets of both kinds is refused when CMake generates.
function(jacserve_cuda_kind target kind)
  set_target_properties(${target} PROPERTIES
    INTERFACE_JACSERVE_CUDA_KIND ${kind} COMPATIBLE_INTERFACE_STRING JACSERVE_CUDA_KIND)
endfunction()

# JACSERVE_CUDA_TOOLKIT: can kernels be compiled and programs linked? Sanitizers are for the simulation: nvcc has none.
set(JACSERVE_CUDA_TOOLKIT FALSE)
if(JACSERVE_CUDA_HEADERS AND NOT JACSERVE_SANITIZE)
  get_filename_component(CUDA_ROOT ${CUDA_INCLUDE_DIR} DIRECTORY)
  find_program(CUDA_NVCC nvcc HINTS ${CUDA_ROOT}/bin)
  find_library(CUDA_CUDART_LIBRARY cudart HINTS ${CUDA_ROOT} PATH_SUFFIXES lib64 lib)
  find_library(CUDA_CUBLAS_LIBRARY cublas HINTS ${CUDA_ROOT} PATH_SUFFIXES lib64 lib)
  if(CUDA_NVCC AND CUDA_CUDART_LIBRARY AND CUDA_CUBLAS_LIBRARY)
    set(JACSERVE_CUDA_TOOLKIT TRUE)
    add_library(jacserve_cuda_libraries INTERFACE)
    target_link_libraries(jacserve_cuda_libraries INTERFACE jacserve_cuda_headers ${CUDA_CUBLAS_LIBRARY} ${CUDA_CUDART_LIBRARY})
    jacserve_cuda_kind(jacserve_cuda_libraries real)
  elseif(NOT JACSERVE_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "JACSERVE_CUDA=ON needs nvcc (${CUDA_NVCC}), libcudart (${CUDA_CUDART_LIBRARY}) and libcublas (${CUDA_CUBLAS_LIBRARY})")
  endif()
endif()

# Kernels are compiled once to PTX for the oldest GPU, and from it to the code of each kind of GPU; newer ones compile the
# PTX when a program starts. Only a release is for all of them. nvcc is called by name: CMake 3.25 does not know that
# CUDA 13 compiles C++20.
set(JACSERVE_CUDA_CODE "sm_80,compute_80")
if(CMAKE_BUILD_TYPE STREQUAL Release)
  set(JACSERVE_CUDA_CODE "sm_80,sm_86,sm_89,sm_90,sm_100,sm_120,compute_80")
endif()

# jacserve_cuda_objects(RESULT a.cu ...): objects of these kernels, for the SOURCES of a library.
function(jacserve_cuda_objects result)
  set(objects)
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CCACHE_PROGRAM} ${CUDA_NVCC} -std=c++20 -O3 --expt-relaxed-constexpr "-gencode=arch=compute_80,code=[${JACSERVE_CUDA_CODE}]"
        -Xcudafe --diag_suppress=177 -Xcompiler -fPIC,-Wall -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d
        -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "Compiling kernels ${source}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
