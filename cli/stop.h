/*
 * stop.h - SIGINT and SIGTERM ask the command to stop. It then undoes what is half done
 * (temporary files) and exits with 130. The second signal ends it at once.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* Installs the handlers; SIGPIPE is ignored, writes tell (out.h). */
void stop_prepare(void);

/* Whether somebody asked. Thread safety: MT-Safe. */
bool stop_wanted(void);

#endif
