/*
 * gates/files.h - saves a gate's filter to disk, with the mark from which the follower resumes.
 *
 *     DIR/gates/instance       identifies this service in names of database objects
 *     DIR/gates/NAME.bg        the filter; its metadata holds the mark and a hash of the settings
 *     DIR/gates/NAME.sql       statements for install=no (written by the source)
 *
 * The filter and its mark are in one file, so they are always consistent. The mark is taken before the filter is
 * saved, so the file contains every key reported up to the mark, and possibly more. A file that is damaged, or was
 * saved with different settings or a different hash key, is ignored, and all keys are read again.
 */
#ifndef SERVER_GATES_FILES_H
#define SERVER_GATES_FILES_H

#include "config/gate_settings.h"
#include "source/source.h"

enum { GATE_INSTANCE = 9 }; /* size in bytes: 8 hex digits and a NUL */

/* Reads DIR/gates/instance; creates the directory and the file if they are missing. */
bg_err gate_files_instance(const char *dir, char instance[GATE_INSTANCE],
                           bg_errinfo *info);

/* Returns DIR/gates/NAME followed by `ending`. The caller frees the result. Returns NULL if out of
 * memory. */
char *gate_files_path(const char *dir, const char *name, const char *ending);

bg_err gate_files_save(bg_slot *slot, const char *path,
                       const struct gate_settings *settings, const char *mark,
                       bg_errinfo *info);

/* Replaces the slot's base with the saved filter. Errors: any error from bg_open; BG_EINCOMPAT if the file was
 * saved with different settings. */
bg_err gate_files_load(bg_slot *slot, const char *path,
                       const struct gate_settings *settings, const bg_hash_spec *hash,
                       uint64_t max_bytes, char mark[SOURCE_MARK], bg_errinfo *info);

#endif
