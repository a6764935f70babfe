/*
 * spec_record.h - the options that a filter was created with, as a text for its metadata.
 *
 * A build that is continued cannot change the filter, so options with other values are refused. The
 * filter itself does not tell its options: --bits-per-key 10 and --rate 1% may create the same one,
 * and there is room for canaries beyond --items.
 */
#ifndef CLI_SPEC_RECORD_H
#define CLI_SPEC_RECORD_H

#include "spec_options.h"

#include "bloomgate/bloomgate.h"

enum { SPEC_RECORD = 160 };

/* Writes the values of a spec, except for the kind and the hash, which files record. */
void spec_record(const bg_spec *spec, char text[SPEC_RECORD]);

/* Checks that the options that are set have the values of a file and its record. NULL: the file has no
 * record. Returns an exit code, and reports the first option that differs. */
int spec_expect(const char *path, const bg_file_info *about, const char *record,
                const struct spec_options *spec, const struct hash_options *hash);

#endif
