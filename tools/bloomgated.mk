# Builds build-run/bloomgated with make and a C compiler, for `make run`. CMake builds everything that
# is installed or tested. In the root of the source tree:
#
#     make -f tools/bloomgated.mk -j2
#
# Sources, definitions, include directories and warnings are the same as in CMake's release build;
# tests/tools/check_makefile.py compares them. There are three differences: -O2 instead of -O3 -g,
# which takes less time; no -Werror, so that new compilers with new warnings build the program; and
# no static libraries.

OUT := build-run
ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O2

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
    -Wvla -Wundef -Wcast-align -Wformat=2 -Wdouble-promotion -Wpointer-arith
PACKAGES := libevent_core libevent_pthreads libssl libcrypto sqlite3 libpq

# 64-bit file offsets, even on 32-bit machines; see cmake/compile.cmake.
pointer_size := $(shell echo __SIZEOF_POINTER__ | $(CC) -E -P -)
defines := -DNDEBUG $(if $(filter 4,$(pointer_size)),-D_FILE_OFFSET_BITS=64)
# The headers of other libraries are system headers: they cause no warnings.
xxhash := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags libxxhash))
system := $(xxhash) $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PACKAGES)))
public := -Iinclude -I$(OUT)/generated/include

# Each directory of the source tree has its own flags.
flags_src := $(public) -Isrc $(xxhash) -fPIC -fvisibility=hidden
flags_common := -Icommon -fPIC
flags_command := -D_GNU_SOURCE -Icommand $(public) -Icommon -fPIC
flags_cluster := -D_GNU_SOURCE -Icluster -Icommand $(public) -Icommon
flags_server := -D_GNU_SOURCE -Iserver -Icluster -Icommand $(public) -Icommon $(system)

assets := $(OUT)/server/asset_files.c
version := $(OUT)/generated/include/bloomgate/version.h
sources := $(wildcard server/*/*.c src/*/*.c src/*/*/*.c common/*.c command/*.c cluster/*.c)
objects := $(sources:%.c=$(OUT)/%.o) $(assets:.c=.o)
compile = $(CC) -std=c17 $(CFLAGS) $(defines) $(WARNINGS)

$(OUT)/bloomgated: $(objects) $(OUT)/objects.txt
	@echo "  LINK $@"
	@$(CC) $(LDFLAGS) -o $@ $(objects) $(shell pkg-config --libs $(PACKAGES)) -lpthread -lm

# The second rule is for generated sources. -MMD and -MP write the dependency files.
$(OUT)/%.o: %.c tools/bloomgated.mk | $(version)
	@echo "  CC $<"
	@mkdir -p $(@D)
	@$(compile) $(flags_$(firstword $(subst /, ,$*))) -MMD -MP -c -o $@ $<

$(OUT)/%.o: $(OUT)/%.c tools/bloomgated.mk | $(version)
	@echo "  CC $<"
	@$(compile) $(flags_$(firstword $(subst /, ,$*))) -MMD -MP -c -o $@ $<

$(version): include/bloomgate/version.h.in VERSION tools/bloomgated.mk
	@mkdir -p $(@D)
	@awk 'NR == FNR { split($$1, part, "."); full = $$1; next } \
	    { sub(/@PROJECT_VERSION_MAJOR@/, part[1]); sub(/@PROJECT_VERSION_MINOR@/, part[2]); \
	      sub(/@PROJECT_VERSION_PATCH@/, part[3]); sub(/@PROJECT_VERSION@/, full); print }' \
	    VERSION include/bloomgate/version.h.in >$@.new
	@mv $@.new $@

web := $(wildcard server/web/*.html server/web/*.css server/web/*.js server/web/*.svg server/web/*.yaml)
$(assets): server/embed.sh $(web)
	@mkdir -p $(@D)
	@server/embed.sh $@ $(web)

# Changes if a source is added or removed, so that the program is linked again.
$(OUT)/objects.txt: FORCE
	@mkdir -p $(@D)
	@echo '$(objects)' | cmp -s - $@ || echo '$(objects)' >$@

.PHONY: FORCE
.DELETE_ON_ERROR:

-include $(objects:.o=.d)
