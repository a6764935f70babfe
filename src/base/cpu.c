#include "bloomgate/cpu.h"
#include "bloomgate/machine.h"

#include "base/compiler.h"
#include "base/features.h"

#include <stdlib.h>
#include <string.h>

#if defined(BGI_X86_64)
#include <cpuid.h>
#elif defined(BGI_AARCH64)
#include <sys/auxv.h>
#endif

/*
 * The detected features and the selected instruction set, in
 * one word so that they change together. 0 means that the features have not been detected yet. If
 * two threads detect the features at the same time, both store the same value.
 *
 *   bits 0 .. 15   features          bits 24 .. 30  selected instruction set
 *   bits 16 .. 23  second-level cache in units of 64 KiB, at most 255
 */
enum {
    CPU_KNOWN = 1u << 31,
    CPU_SELECT_SHIFT = 24,
    CPU_CACHE_SHIFT = 16,
    CPU_CACHE_UNIT = 64 << 10,
    CPU_CACHE_MAX = 0xff,
    CPU_FEATURE_MASK = 0xffff
};
static uint32_t cpu_state;

#if defined(BGI_X86_64)
/* Reads extended control register 0, whose bits indicate which registers the OS saves. */
static uint64_t cpu_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static uint32_t cpu_detect(void)
{
    uint32_t a, b, c, d, b7, c7, found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return 0;
    }
    uint32_t c1 = c;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) {
        b7 = c7 = 0;
    }
    bool ymm_saved = false, zmm_saved = false;
    if (c1 & bit_OSXSAVE) {
        uint64_t saved = cpu_xcr0();
        ymm_saved = (saved & 0x06) == 0x06;
        zmm_saved = (saved & 0xe6) == 0xe6;
    }
    const uint32_t avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    const uint32_t avx512 =
        bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512IFMA;
    if (ymm_saved && (b7 & avx2) == avx2 && (c1 & bit_POPCNT)) {
        found |= BGI_HAS_AVX2;
    }
    if ((found & BGI_HAS_AVX2) && zmm_saved && (b7 & avx512) == avx512) {
        found |= BGI_HAS_AVX512;
    }
    if ((c1 & bit_AES) && (c1 & bit_SSE4_1)) {
        found |= BGI_HAS_AESNI;
    }
    if ((c1 & bit_SSE4_2) && (c1 & bit_PCLMUL)) {
        found |= BGI_HAS_CRC32C;
    }
    if ((found & BGI_HAS_AVX512) && (found & BGI_HAS_AESNI) && (c7 & bit_VAES)) {
        found |= BGI_HAS_VAES512;
    }
    if ((found & BGI_HAS_AVX512) && (c7 & bit_VPCLMULQDQ)) {
        found |= BGI_HAS_VPCLMUL;
    }
    if ((found & BGI_HAS_AVX512) && (c7 & bit_AVX512VPOPCNTDQ)) {
        found |= BGI_HAS_VPOPCNT;
    }
    return found;
}
#elif defined(BGI_AARCH64)
static uint32_t cpu_detect(void)
{
    const unsigned long hwcap_aes = 1ul << 3, hwcap_crc = 1ul << 7;
    uint32_t found = BGI_HAS_NEON;
    if (getauxval(AT_HWCAP) & hwcap_aes) {
        found |= BGI_HAS_ARM_AES;
    }
    if (getauxval(AT_HWCAP) & hwcap_crc) {
        found |= BGI_HAS_CRC32C;
    }
    return found;
}
#else
static uint32_t cpu_detect(void)
{
    return 0;
}
#endif

/* Returns the features that remain when filters are limited to the instruction set `cpu`. */
static uint32_t cpu_allowed(bg_cpu cpu)
{
    switch (cpu) {
    case BG_CPU_SCALAR: return 0;
    case BG_CPU_AVX2: return BGI_HAS_AVX2 | BGI_HAS_AESNI | BGI_HAS_CRC32C;
    case BG_CPU_AVX512: return CPU_FEATURE_MASK;
    case BG_CPU_NEON: return BGI_HAS_NEON | BGI_HAS_ARM_AES | BGI_HAS_CRC32C;
    }
    return 0;
}

/* Returns the feature bit that the instruction set `cpu` requires. Scalar code requires none. */
static uint32_t cpu_needs(bg_cpu cpu)
{
    switch (cpu) {
    case BG_CPU_SCALAR: return 0;
    case BG_CPU_AVX2: return BGI_HAS_AVX2;
    case BG_CPU_AVX512: return BGI_HAS_AVX512;
    case BG_CPU_NEON: return BGI_HAS_NEON;
    }
    return CPU_FEATURE_MASK;
}

static bool cpu_has(uint32_t features, bg_cpu cpu)
{
    return (features & cpu_needs(cpu)) == cpu_needs(cpu);
}

/* Returns `wanted` if the features allow it, otherwise the best lower instruction set in its
 * family. */
static bg_cpu cpu_best(uint32_t features, bg_cpu wanted)
{
    if (cpu_has(features, wanted)) {
        return wanted;
    }
    if (wanted == BG_CPU_AVX512 && cpu_has(features, BG_CPU_AVX2)) {
        return BG_CPU_AVX2;
    }
    return BG_CPU_SCALAR;
}

static bg_cpu cpu_wanted(uint32_t features)
{
    const char *name = getenv("BLOOMGATE_CPU"); /* NOLINT(concurrency-mt-unsafe) */
    if (name) {
#define CPU_MATCH(NAME, number, text)                                                  \
    if (strcmp(name, text) == 0) {                                                     \
        return BG_CPU_##NAME;                                                          \
    }
        BG_CPUS(CPU_MATCH)
#undef CPU_MATCH
    }
    return (features & BGI_HAS_NEON) ? BG_CPU_NEON : BG_CPU_AVX512;
}

static uint32_t cpu_load(void)
{
    uint32_t state = __atomic_load_n(&cpu_state, __ATOMIC_RELAXED);
    if (state == 0) {
        uint32_t features = cpu_detect();
        bg_cpu cpu = cpu_best(features, cpu_wanted(features));
        size_t cache = bg_cpu_cache_bytes(2) / CPU_CACHE_UNIT;
        cache = cache < CPU_CACHE_MAX ? cache : CPU_CACHE_MAX;
        state = CPU_KNOWN | (uint32_t)cpu << CPU_SELECT_SHIFT
                | (uint32_t)cache << CPU_CACHE_SHIFT | features;
        __atomic_store_n(&cpu_state, state, __ATOMIC_RELAXED);
    }
    return state;
}

static bg_cpu cpu_selected(uint32_t state)
{
    return (bg_cpu)((state & ~CPU_KNOWN) >> CPU_SELECT_SHIFT);
}

bg_cpu bg_cpu_current(void)
{
    return cpu_selected(cpu_load());
}

bool bg_cpu_available(bg_cpu cpu)
{
    return cpu_has(cpu_load() & CPU_FEATURE_MASK, cpu);
}

bg_err bg_cpu_select(bg_cpu cpu)
{
    if (strcmp(bg_cpu_name(cpu), "unknown") == 0) {
        return BG_EINVAL;
    }
    if (!bg_cpu_available(cpu)) {
        return BG_ENOTSUP;
    }
    uint32_t found = cpu_load() & ((1u << CPU_SELECT_SHIFT) - 1);
    __atomic_store_n(&cpu_state, CPU_KNOWN | (uint32_t)cpu << CPU_SELECT_SHIFT | found,
                     __ATOMIC_RELAXED);
    return BG_OK;
}

const char *bg_cpu_name(bg_cpu cpu)
{
    switch (cpu) {
#define CPU_NAME(NAME, number, text)                                                   \
    case BG_CPU_##NAME: return text;
        BG_CPUS(CPU_NAME)
#undef CPU_NAME
    }
    return "unknown";
}

size_t bg_cpu_cache_bytes(int level)
{
    bg_machine machine;
    if (level < 1 || level > 3) {
        return 0;
    }
    (void)bg_machine_read(NULL, &machine, NULL); /* an invalid description is ignored */
    const uint64_t bytes = machine.cache_bytes[level - 1];
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

uint32_t bgi_features(void)
{
    uint32_t state = cpu_load();
    return state & cpu_allowed(cpu_selected(state)) & CPU_FEATURE_MASK;
}

size_t bgi_second_level_bytes(void)
{
    const size_t unknown = 256 << 10;
    size_t units = cpu_load() >> CPU_CACHE_SHIFT & CPU_CACHE_MAX;
    return units ? units * CPU_CACHE_UNIT : unknown;
}
