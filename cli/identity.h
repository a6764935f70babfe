/*
 * identity.h - detects whether an input file has changed.
 *
 * Work that is resumed later, or divided among several runs, is correct only if its input stays the
 * same. The same name and size do not prove that a file is unchanged: it can be replaced by a
 * different file of the same size. Reading the whole file again would cost as much as the work
 * itself. A file is therefore identified by a hash of the following values:
 *
 *   content   the size, and 64 blocks of 4 KiB spread evenly over the file: the same for copies;
 *   file      the same, the inode, and the times of the last modification and of the last status
 *             change, in nanoseconds. The status change time cannot be set back, so a changed byte is
 *             always detected; so is a change of name or mode, which is harmless.
 *
 * If a copy differs only outside the sampled blocks, the difference is not detected.
 */
#ifndef CLI_IDENTITY_H
#define CLI_IDENTITY_H

#include <stdint.h>
#include <sys/types.h>

/* Computes the identity of a file, which is 0 for anything other than a regular file. Returns an
 * exit code. */
enum identity_of { IDENTITY_CONTENT, IDENTITY_FILE };
int identity_find(const char *path, enum identity_of of, uint64_t *number);

/* identity_text returns the hash of a text. identity_mix adds a number to a combined hash, which
 * depends on the order of the numbers. The results are the same on all machines. */
uint64_t identity_text(const char *text);
uint64_t identity_mix(uint64_t sum, uint64_t number);

/* Sets *seconds to the time of the last change to a file's bytes, name or mode, in seconds
 * since 1970. Returns an exit code. */
int identity_changed(const char *path, time_t *seconds);

#endif
