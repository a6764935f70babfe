/* all.h - every public header. Most programs need only bloomgate.h. */
#ifndef BLOOMGATE_ALL_H
#define BLOOMGATE_ALL_H

#include "bloomgate/bloomgate.h"
#include "bloomgate/combine.h"
#include "bloomgate/cpu.h"
#include "bloomgate/file_tools.h"
#include "bloomgate/foreign.h"
#include "bloomgate/hasher.h"
#include "bloomgate/inline.h"
#include "bloomgate/inspect.h"
#include "bloomgate/loader.h"
#include "bloomgate/memory.h"
#include "bloomgate/packed.h"
#include "bloomgate/server.h"
#include "bloomgate/window.h"

#endif
