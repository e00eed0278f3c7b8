// What marks a function as one that kernels call. Host code may see it and does not call it.
#pragma once

#if defined(__CUDACC__)
#define JACSERVE_DEVICE inline __device__
#else
#define JACSERVE_DEVICE inline
#endif
