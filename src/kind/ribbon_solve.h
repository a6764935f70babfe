/* ribbon_solve.h - construction of a ribbon filter: see ribbon_solve.c. */
#ifndef BGI_RIBBON_SOLVE_H
#define BGI_RIBBON_SOLVE_H

#include "kind/kind.h"

extern const struct bgi_static bgi_ribbon_static;

#endif
