/* compiler.h - macros for the few keywords that differ between compilers. */
#ifndef BGI_COMPILER_H
#define BGI_COMPILER_H

/* Forces inlining, so that the compiler can fold the constant parameters of a core (see
 * line_core.h). */
#define BGI_INLINE static inline __attribute__((always_inline, unused))

#define BGI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define BGI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Marks functions whose reads race by design with atomic writes to the same words. The hardware
 * makes each word of such a read atomic, which C cannot express for vectors. */
#define BGI_NO_TSAN __attribute__((no_sanitize("thread")))

/* 1 if the thread sanitizer is enabled. */
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

/* 1 if the address sanitizer is enabled. */
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
 * Prefetches into the second-level cache a line that will be needed a few hundred nanoseconds
 * later. The first-level cache supports fewer outstanding misses, and would become the
 * bottleneck instead of memory. For filters larger than the last-level cache, prefetching into
 * the second level was twice as fast on the CPUs we measured (docs/adr/0011). The remaining
 * latency, from the second level to the first, is short enough for out-of-order execution to
 * hide.
 */
#define BGI_PREFETCH(p) __builtin_prefetch((p), 0, 2)

/* Call this in loops that wait for another thread. */
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
