/* inline_avx2.c - the inline functions, compiled for CPUs with AVX2 (see tests/CMakeLists.txt). */
#define INLINE_CALLS inline_calls_avx2
#include "support/inline_calls.h"
