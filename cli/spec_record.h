/*
 * spec_record.h - records the options with which a filter was created, as text in its metadata.
 *
 * A resumed build cannot change these options, so values that differ from the record are refused.
 * The options cannot be derived from the filter: --bits-per-key 10 and --rate 1% may create the
 * same filter, and canaries increase the number of items.
 */
#ifndef CLI_SPEC_RECORD_H
#define CLI_SPEC_RECORD_H

#include "spec_options.h"

#include "bloomgate/all.h"

enum { SPEC_RECORD = 160 };

/* Writes the values of a spec, except for the kind and the hash, which are in the file header. */
void spec_record(const bg_spec *spec, char text[SPEC_RECORD]);

/* Checks that every option that is set matches the file and its record. A NULL record means that
 * the file has no record. Reports the first option that differs. Returns an exit code. */
int spec_expect(const char *path, const bg_file_info *about, const char *record,
                const struct spec_options *spec, const struct hash_options *hash);

#endif
