/*
 * disk_lives.h - runs ("lives") of a writer on a faulty disk. In some lives, the writer is killed
 * at one of its disk calls, with or without a power loss. In other lives, one call fails. Together,
 * the lives cover every call and every fault.
 *
 * Each life uses three directories: the live directory, the simulated platter, and the directory
 * recovered after a power loss. A test defines how a life proceeds and how a directory is checked
 * afterwards. Both the live and the recovered directory are checked after each life.
 */
#ifndef TESTS_DISK_LIVES_H
#define TESTS_DISK_LIVES_H

#include "support/faulty_disk.h"
#include "support/temporary.h"

#include <sys/wait.h>

struct disk_lives {
    /* Runs a life and writes acknowledgments to a pipe. Does not return. */
    void (*live)(const char *folder, int acknowledged);
    /* Runs a life with one failing call, and returns whether that call was made. */
    bool (*live_with_fault)(const char *folder, unsigned long at,
                            enum disk_fault fault);
    /* Checks that the directory contains everything up to acknowledgment number `acknowledged`. */
    void (*check)(const char *folder, uint64_t acknowledged);
    uint64_t whole; /* last acknowledgment of a complete life */
};

/* Returns a directory for lives. If possible, it is on a file system where a sync costs nothing. */
static inline const char *lives_folder(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary_root();
    (void)snprintf(path, sizeof paths[0], "%s/bloomgate-life-%ld-%s", memory,
                   (long)getpid(), name);
    return path;
}

static inline void lives_remove_folder(const char *path)
{
    disk_empty_folder(path);
    CHECK(rmdir(path) == 0);
}

/* Reads a child's acknowledgments until the child exits, and returns its exit status. */
static inline int lives_wait(pid_t child, int from, uint64_t *acknowledged)
{
    int status;
    *acknowledged = 0;
    for (uint64_t next; read(from, &next, sizeof next) == sizeof next;) {
        *acknowledged = next;
    }
    (void)close(from);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* Runs a life in a child process that is killed at disk call `at`. Returns false if the child made
 * fewer disk calls. */
static inline bool lives_in_child(const struct disk_lives *lives, const char *folder,
                                  unsigned long at, enum disk_fault fault,
                                  uint64_t *acknowledged)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        disk.calls = 0;
        disk.at = at;
        disk.fault = fault;
        lives->live(folder, ends[1]);
    }
    (void)close(ends[1]);
    const int status = lives_wait(child, ends[0], acknowledged);
    if (WIFEXITED(status)) {
        CHECK_EQ(WEXITSTATUS(status), 0);
        return false;
    }
    CHECK_EQ(WTERMSIG(status), SIGKILL);
    return true;
}

/* Runs a life in which disk call `at` has the given fault, and checks the directories
 * afterwards. Returns whether the life made that call. */
static inline bool lives_one(const struct disk_lives *lives,
                             const char *const folders[3], unsigned long at,
                             enum disk_fault fault)
{
    uint64_t acknowledged = lives->whole;
    for (int i = 0; i < 3; i++) {
        disk_empty_folder(folders[i]);
    }
    disk.folder = folders[0];
    disk.platter = folders[1];
    const bool came = fault <= DISK_STOP_AFTER
                          ? lives_in_child(lives, folders[0], at, fault, &acknowledged)
                          : lives->live_with_fault(folders[0], at, fault);
    disk_power_off(folders[1], folders[2]);
    disk.folder = disk.platter = NULL;
    lives->check(folders[2], acknowledged);
    lives->check(folders[0], acknowledged);
    return came;
}

/* For each fault from `first` to `last`, runs one life per disk call, or one per `step` disk calls,
 * with the fault at that call. Returns how many faults occurred. */
static inline unsigned long lives_with_every_fault(const struct disk_lives *lives,
                                                   enum disk_fault first,
                                                   enum disk_fault last,
                                                   unsigned long step)
{
    const char *const folders[3] = { lives_folder("live"), lives_folder("platter"),
                                     lives_folder("after") };
    unsigned long faults = 0;
    for (int fault = (int)first; fault <= (int)last; fault++) {
        for (unsigned long at = 1;
             lives_one(lives, folders, at, (enum disk_fault)fault); at += step) {
            faults++;
        }
    }
    for (int i = 0; i < 3; i++) {
        lives_remove_folder(folders[i]);
    }
    return faults;
}

#endif
