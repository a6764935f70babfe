/* compiler.h - the few words that the compilers spell differently. */
#ifndef BGI_COMPILER_H
#define BGI_COMPILER_H

/* Must be inlined: the constant parameters of a core then vanish (see line_core.h). */
#define BGI_INLINE static inline __attribute__((always_inline, unused))

#define BGI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define BGI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* For reads that race by design with atomic writes of the same words and that the
 * hardware makes atomic word by word, which C cannot express for vectors. */
#define BGI_NO_TSAN __attribute__((no_sanitize("thread")))

#if defined(__x86_64__)
#define BGI_X86_64 1
#elif defined(__aarch64__)
#define BGI_AARCH64 1
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BGI_BIG_ENDIAN 1
#else
#define BGI_BIG_ENDIAN 0
#endif

#endif
