/* doubt.c - see doubt.h. The names that are known to be free are kept in a sorted array, because
 * there are few of them. */
#include "persist/doubt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DOUBT_NAMES = 65536, DOUBT_BYTES = 16 << 20 }; /* limits */

struct doubt {
    pthread_mutex_t lock;
    bg_bytes *names; /* free names, each allocated separately */
    size_t n, room, bytes;
};

struct doubt *doubt_create(void)
{
    struct doubt *doubt = calloc(1, sizeof *doubt);
    if (doubt) {
        pthread_mutex_init(&doubt->lock, NULL);
    }
    return doubt;
}

void doubt_free(struct doubt *doubt)
{
    if (!doubt) {
        return;
    }
    for (size_t i = 0; i < doubt->n; i++) {
        free((void *)(uintptr_t)doubt->names[i].data);
    }
    free(doubt->names);
    pthread_mutex_destroy(&doubt->lock);
    free(doubt);
}

static int doubt_compare(bg_bytes a, bg_bytes b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Returns the index of the first name that is not less than `name`. */
static size_t doubt_find(const struct doubt *doubt, bg_bytes name, bool *found)
{
    size_t low = 0, high = doubt->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (doubt_compare(doubt->names[middle], name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < doubt->n && doubt_compare(doubt->names[low], name) == 0;
    return low;
}

bool doubt_covers(struct doubt *doubt, bg_bytes name)
{
    bool is_free = true;
    if (doubt) {
        pthread_mutex_lock(&doubt->lock);
        (void)doubt_find(doubt, name, &is_free);
        pthread_mutex_unlock(&doubt->lock);
    }
    return !is_free;
}

static bool doubt_reserve(struct doubt *doubt, size_t bytes)
{
    if (doubt->n == DOUBT_NAMES || bytes > DOUBT_BYTES - doubt->bytes) {
        return false;
    }
    if (doubt->n == doubt->room) {
        const size_t room = doubt->room ? 2 * doubt->room : 16;
        bg_bytes *names = realloc(doubt->names, room * sizeof *names);
        if (!names) {
            return false;
        }
        doubt->names = names;
        doubt->room = room;
    }
    return true;
}

static void doubt_insert(struct doubt *doubt, size_t at, bg_bytes name)
{
    char *copy = doubt_reserve(doubt, name.len) ? malloc(name.len + 1) : NULL;
    if (!copy) {
        return;
    }
    if (name.len) {
        memcpy(copy, name.data, name.len);
    }
    memmove(doubt->names + at + 1, doubt->names + at,
            (doubt->n - at) * sizeof *doubt->names);
    doubt->names[at] = (bg_bytes){ copy, name.len };
    doubt->n++;
    doubt->bytes += name.len;
}

void doubt_clear_name(struct doubt *doubt, bg_bytes name)
{
    bool found = false;
    if (doubt) {
        pthread_mutex_lock(&doubt->lock);
        const size_t at = doubt_find(doubt, name, &found);
        if (!found) {
            doubt_insert(doubt, at, name);
        }
        pthread_mutex_unlock(&doubt->lock);
    }
}
