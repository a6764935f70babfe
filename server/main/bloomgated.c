/* bloomgated.c - the service: reads its settings, prepares the process, runs, and stops. */
#include "core/server.h"
#include "main/run.h"
#include "main/startup.h"
#include "text.h"
#include "util/log.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* SIGTERM and SIGINT: the first signal stops the service after the requests in progress have been
 * answered; the second stops it immediately and interrupts jobs (main/run.c). */
static void main_stop(int number)
{
    /* two threads may handle signals at the same time */
    static _Atomic int asked;
    (void)number;
    server_stop(atomic_fetch_add(&asked, 1) > 0);
}

static void main_reload(int number)
{
    (void)number;
    server_ask_reload();
}

static void main_signals(void)
{
    struct sigaction stop = { .sa_handler = main_stop, .sa_flags = SA_RESTART };
    struct sigaction reload = { .sa_handler = main_reload, .sa_flags = SA_RESTART };
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGHUP, &reload, NULL);
}

static void main_doubt(void *context, bool mistake, const char *text)
{
    (void)context;
    (void)mistake;
    log_warning("settings", LOG_FIELDS(log_text("note", text)));
}

static int main_fail(const char *why)
{
    log_error("cannot start", LOG_FIELDS(log_text("error", why)));
    return 1;
}

/* Warns if the open-file limit is too low for maxclients, in which case some connections will not
 * be accepted. */
static void main_make_room(uint64_t clients)
{
    const uint64_t room = startup_descriptors(clients);
    if (room < clients) {
        log_warning(
            "the open-file limit is too low for maxclients",
            LOG_FIELDS(log_count("maxclients", clients), log_count("room_for", room)));
    }
}

int main(int argc, char **argv)
{
    struct settings_store *store = NULL;
    char why[SETTINGS_WHY];
    int lock = -1;
    const int code = settings_from_command_line(argc, argv, server_families,
                                                server_families_count, &store);
    if (code != SETTINGS_RUN) {
        return code;
    }
    const struct settings *settings = settings_now(store);
    if (!log_open(settings->log_file, (enum log_format)settings->log_format,
                  (enum log_level)settings->log_level)) {
        (void)snprintf(why, sizeof why, "log-file: cannot write %.200s: %s",
                       settings->log_file, text_errno(errno));
        return main_fail(why);
    }
    settings_doubts(store, main_doubt, NULL);
    startup_process(settings);
    if (!startup_supervised(settings, why) || !startup_folder(settings->dir, &lock, why)
        || !startup_pid_file(settings->pid_file, why)) {
        return main_fail(why);
    }
    main_make_room(settings->maxclients);
    main_signals();
    const int ended = server_run(store);
    /* A reload may have freed `settings`. */
    startup_remove_pid_file(settings_now(store)->pid_file);
    close(lock);
    log_close();
    settings_store_free(store);
    return ended;
}
