/* inline_avx512.c - the inline functions, compiled for CPUs with AVX-512 (tests/CMakeLists.txt). */
#define INLINE_CALLS inline_calls_avx512
#include "support/inline_calls.h"
