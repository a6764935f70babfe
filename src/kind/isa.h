/* isa.h - the declarations that the file for each instruction set exports. */
#ifndef BGI_ISA_H
#define BGI_ISA_H

#include "kind/kind.h"

#define BGI_ISA_DECLARE(isa)                                                           \
    const struct bgi_ops *bgi_ops_##isa(bg_kind id, uint32_t k, bool exclusive);       \
    extern const struct bgi_word_ops bgi_word_ops_##isa;

BGI_ISA_DECLARE(scalar)
#if defined(BGI_X86_64)
BGI_ISA_DECLARE(avx2)
BGI_ISA_DECLARE(avx512)
#elif defined(BGI_AARCH64)
BGI_ISA_DECLARE(neon)
#endif
#undef BGI_ISA_DECLARE

#endif
