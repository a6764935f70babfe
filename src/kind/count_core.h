/*
 * count_core.h - counts the set bits of whole arrays. This file is compiled once per instruction
 * set (ISA, ISA_TARGET: see line_core.h), so that each version can use its population-count
 * instruction. The words may change concurrently, so each word is read once, atomically.
 */

#define COUNT_PASTE_(a, b) a##_##b
#define COUNT_PASTE(a, b)  COUNT_PASTE_(a, b)
#define COUNT_NAME(name)   COUNT_PASTE(name, ISA)

ISA_TARGET static uint64_t COUNT_NAME(count_ones)(const uint64_t *a, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = __atomic_load_n(&a[i], __ATOMIC_RELAXED);
        count += (uint64_t)__builtin_popcountll(word);
    }
    return count;
}

ISA_TARGET static uint64_t COUNT_NAME(count_or)(const uint64_t *a, const uint64_t *b,
                                                size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = __atomic_load_n(&a[i], __ATOMIC_RELAXED)
                        | __atomic_load_n(&b[i], __ATOMIC_RELAXED);
        count += (uint64_t)__builtin_popcountll(word);
    }
    return count;
}

#undef COUNT_NAME
#undef COUNT_PASTE
#undef COUNT_PASTE_
