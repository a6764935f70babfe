/*
 * guesses.c - see guesses.h. Each set in the table has four entries. When a set is full, its oldest
 * entry is evicted. Thread safety: one lock protects the table. It is held for a few comparisons
 * when a login is checked or fails.
 */
#include "config/guesses.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

enum {
    GUESSES_STEP = 100, /* first delay, in ms */
    GUESSES_LONGEST = 30000,
    GUESSES_FORGIVEN = 60000 /* time after which one failure is forgiven, in ms */
};

void guesses_init(struct guesses *guesses, const uint64_t secret[2])
{
    memset(guesses, 0, sizeof *guesses);
    (void)pthread_mutex_init(&guesses->lock, NULL);
    guesses->secret[0] = secret[0];
    guesses->secret[1] = secret[1] | 1;
}

void guesses_fini(struct guesses *guesses)
{
    (void)pthread_mutex_destroy(&guesses->lock);
}

/* ---- Identifying clients ----------------------------------------------------------------- */

/* Returns the significant part of an address: all of an IPv4 address, the first half of an IPv6 address, or 0 for a
 * Unix socket. */
static uint64_t guesses_address(const char *text)
{
    struct in_addr four;
    struct in6_addr six;
    uint64_t address = 0;
    if (inet_pton(AF_INET, text, &four) == 1) {
        return (uint64_t)1 << 32 | four.s_addr;
    }
    if (inet_pton(AF_INET6, text, &six) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&six)) {
            uint32_t low;
            memcpy(&low, six.s6_addr + 12, sizeof low);
            return (uint64_t)1 << 32 | low;
        }
        memcpy(&address, six.s6_addr, sizeof address);
        /* The first half of ::1 is 0, which stands for a Unix socket, so use another value. */
        address = address ? address : (uint64_t)1 << 33;
    }
    return address;
}

static uint64_t guesses_mix(const struct guesses *guesses, uint64_t x)
{
    x = (x ^ guesses->secret[0]) * guesses->secret[1];
    x ^= x >> 32;
    x *= guesses->secret[1];
    return x ^ x >> 29;
}

static uint64_t guesses_who(const struct guesses *guesses, const char *address,
                            bg_bytes name)
{
    const unsigned char *bytes = name.data;
    uint64_t who = guesses_mix(guesses, guesses_address(address));
    for (size_t i = 0; i < name.len && i < 256; i++) {
        who = guesses_mix(guesses, who + bytes[i] + 1);
    }
    return who;
}

/* ---- Counting ------------------------------------------------------------------------------ */

static struct guesses_entry *guesses_set(struct guesses *guesses, uint64_t who)
{
    return guesses->entries[who % GUESSES_SETS];
}

/* Finds an entry, and subtracts the failures that have been forgiven since its last failure. Returns NULL if no
 * failures remain. */
static struct guesses_entry *guesses_find(struct guesses_entry *set, uint64_t who,
                                          uint64_t now)
{
    for (size_t i = 0; i < GUESSES_WAYS; i++) {
        if (!set[i].failures || set[i].who != who) {
            continue;
        }
        const uint64_t minutes =
            now > set[i].last ? (now - set[i].last) / GUESSES_FORGIVEN : 0;
        if (minutes >= set[i].failures) {
            set[i].failures = 0;
            return NULL;
        }
        set[i].failures -= (uint32_t)minutes;
        set[i].last += minutes * GUESSES_FORGIVEN;
        return &set[i];
    }
    return NULL;
}

static uint64_t guesses_wait_of(struct guesses *guesses, uint64_t who, uint32_t allowed,
                                uint64_t now)
{
    const struct guesses_entry *entry =
        guesses_find(guesses_set(guesses, who), who, now);
    if (!entry || entry->failures < allowed) {
        return 0;
    }
    const uint32_t steps = entry->failures - allowed;
    uint64_t pause = steps < 16 ? (uint64_t)GUESSES_STEP << steps : GUESSES_LONGEST;
    pause = pause < GUESSES_LONGEST ? pause : GUESSES_LONGEST;
    return entry->last + pause > now ? entry->last + pause - now : 0;
}

static void guesses_count(struct guesses *guesses, uint64_t who, uint64_t now)
{
    struct guesses_entry *set = guesses_set(guesses, who);
    struct guesses_entry *entry = guesses_find(set, who, now);
    if (!entry) {
        entry = &set[0];
        for (size_t i = 1; i < GUESSES_WAYS && entry->failures; i++) {
            entry = !set[i].failures || set[i].last < entry->last ? &set[i] : entry;
        }
        *entry = (struct guesses_entry){ .who = who };
    }
    entry->last = now;
    entry->failures += entry->failures < 1000;
}

uint64_t guesses_wait(struct guesses *guesses, const char *address, bg_bytes name,
                      uint64_t now)
{
    const uint64_t of_name = guesses_who(guesses, address, name);
    const uint64_t of_all = guesses_who(guesses, address, (bg_bytes){ NULL, 0 });
    (void)pthread_mutex_lock(&guesses->lock);
    const uint64_t one = guesses_wait_of(guesses, of_name, GUESSES_FREE, now);
    const uint64_t all = guesses_wait_of(guesses, of_all, GUESSES_FREE_ADDRESS, now);
    (void)pthread_mutex_unlock(&guesses->lock);
    return one > all ? one : all;
}

void guesses_failed(struct guesses *guesses, const char *address, bg_bytes name,
                    uint64_t now)
{
    const uint64_t of_name = guesses_who(guesses, address, name);
    const uint64_t of_all = guesses_who(guesses, address, (bg_bytes){ NULL, 0 });
    (void)pthread_mutex_lock(&guesses->lock);
    guesses_count(guesses, of_name, now);
    if (of_all != of_name) {
        guesses_count(guesses, of_all, now);
    }
    (void)pthread_mutex_unlock(&guesses->lock);
}
