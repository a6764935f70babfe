/*
 * identity.h - whether an input file is still the one that it was.
 *
 * Work that is continued later, or divided among several runs, is only right while its input stays
 * the same. The name and the size of a file do not tell: files are replaced by others of the same
 * size. Reading all of it again would cost as much as the work itself. So a number is made of
 *
 *   content   the size, and 64 blocks of 4 KiB spread evenly over the file: the same for copies;
 *   file      that, the inode, and the times of the last modification and of the last change of
 *             anything, in nanoseconds. The latter cannot be set back, so a change of bytes is
 *             always noticed; so is one of the name or mode, which would not matter.
 *
 * A copy that differs between the blocks is not noticed.
 */
#ifndef CLI_IDENTITY_H
#define CLI_IDENTITY_H

#include <stdint.h>
#include <sys/types.h>

/* These are 0 for what is no plain file. Exit codes; an error was reported. */
int identity_content(const char *path, uint64_t *number);
int identity_file(const char *path, uint64_t *number);

/* The number of a text; and one number for several, in order. The same on all machines. */
uint64_t identity_text(const char *text);
uint64_t identity_mix(uint64_t sum, uint64_t number);

/* Seconds since 1970 at which anything of a file changed last: its bytes, name or mode. */
int identity_changed(const char *path, time_t *seconds);

#endif
