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

/* Whether the thread sanitizer watches. */
#if defined(__SANITIZE_THREAD__)
#define BGI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BGI_TSAN 1
#endif
#endif
#ifndef BGI_TSAN
#define BGI_TSAN 0
#endif

/* Whether the address sanitizer watches. */
#if defined(__SANITIZE_ADDRESS__)
#define BGI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BGI_ASAN 1
#endif
#endif
#ifndef BGI_ASAN
#define BGI_ASAN 0
#endif

/*
 * Asks for a cache line that will be needed some hundred nanoseconds later, into the
 * second-level cache. Not into the first: the queue of lines on their way there is the
 * shorter one, and it, not the memory, would set the pace. Beyond the last cache that is
 * a factor of 2 on the processors that we measured (docs/adr/0011). The rest of the way is
 * short enough for out-of-order execution to hide.
 */
#define BGI_PREFETCH(p) __builtin_prefetch((p), 0, 2)

/* In a loop that waits for another thread. */
BGI_INLINE void bgi_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

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
