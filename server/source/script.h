/*
 * script.h - the file with the SQL statements that an operator runs if a gate may not create its
 * objects (install=no).
 *
 *     struct script script;
 *     script_begin(&script);
 *     fprintf(script.to, "BEGIN;\n");
 *     if (!script_end(&script, path)) {
 *         ...                           errno contains the reason
 *     }
 *
 * The gate writes the script at every attempt, while the operator may be reading it. So a new
 * script replaces the file atomically, and the file is not written if the script is unchanged.
 */
#ifndef SERVER_SOURCE_SCRIPT_H
#define SERVER_SOURCE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct script {
    FILE *to; /* in memory */
    char *text;
    size_t n;
};

/* Opens script->to. Returns false if out of memory. */
bool script_begin(struct script *script);

/* Writes the script to a file, and frees it. Returns false and sets errno if this fails. */
bool script_end(struct script *script, const char *path);

#endif
