/*
 * 01_hello.c - the smallest useful program: a filter in front of something slow.
 *
 * Shows how to describe a filter, add keys, look up keys, handle an error, and read a
 * filter's statistics. The program checks its results and exits with 1 if a check
 * fails.
 *
 *     cc 01_hello.c $(pkg-config --cflags --libs libbloomgate) && ./a.out
 */
#include <bloomgate/bloomgate.h>
#include <bloomgate/inspect.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { USERS = 100000, STRANGERS = 1000000 };

/* Writes the key of user i, such as "user/42". Returns its length. */
static size_t user_key(char *key, size_t room, const char *prefix, int i)
{
    return (size_t)snprintf(key, room, "%s/%d", prefix, i);
}

/* An invalid spec is rejected with an explanation. */
static bool shows_errors(void)
{
    bg_spec wrong = BG_SPEC_INIT;
    wrong.items = USERS;
    wrong.rate = 1.5;
    bg_errinfo why;
    bg_filter *none;
    bg_err err = bg_filter_create(&wrong, &none, &why);
    printf("A rate of 1.5 returns %s: %s\n", bg_err_name(err), why.message);
    return err == BG_EINVAL && none == NULL && strcmp(why.what, "rate") == 0;
}

static bool remembers(bg_filter *known)
{
    char key[32];
    for (int i = 0; i < USERS; i++) {
        size_t len = user_key(key, sizeof key, "user", i);
        if (bg_filter_add(known, key, len, NULL) != BG_OK) {
            return false; /* never happens, because this kind of filter accepts every key */
        }
    }
    for (int i = 0; i < USERS; i++) {
        if (!bg_filter_may_contain(known, key, user_key(key, sizeof key, "user", i))) {
            return false; /* never happens, because a filter has no false negatives */
        }
    }
    printf("Added %d users; every lookup returned \"maybe\".\n", USERS);
    return true;
}

/* Looks up keys that were never added: nearly all lookups return "no". */
static bool turns_strangers_away(const bg_filter *known, double planned)
{
    char key[32];
    uint64_t maybe = 0;
    for (int i = 0; i < STRANGERS; i++) {
        maybe +=
            bg_filter_may_contain(known, key, user_key(key, sizeof key, "stranger", i));
    }
    bg_estimate seen = bg_observed_rate(maybe, STRANGERS);
    printf("Looked up %d absent keys; %" PRIu64 " returned \"maybe\": %.3f%% "
           "(predicted: %.3f%%).\n",
           STRANGERS, maybe, 100 * seen.value, 100 * planned);
    return seen.value > 0.9 * planned && seen.value < 1.1 * planned;
}

int main(void)
{
    /* Describe the filter by the number of keys and the maximum false-positive rate. */
    bg_spec spec = BG_SPEC_INIT;
    spec.items = USERS;
    spec.rate = 0.01;

    bg_filter *known;
    bg_errinfo why;
    if (bg_filter_create(&spec, &known, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        return 1;
    }
    bool good = shows_errors() && remembers(known);

    bg_filter_info info = { .struct_size = sizeof info };
    good = good && bg_filter_get_info(known, &info) == BG_OK;
    if (good) {
        printf("Filter of kind %s: %" PRIu64
               " bytes, %.1f bits per key; each key sets %" PRIu32 " bits.\n",
               bg_kind_name(info.kind), info.bytes, (double)info.bits / USERS, info.k);
        printf("Number of keys, estimated from the bits: %.0f (95%%: %.0f to %.0f).\n",
               info.items.value, info.items.low, info.items.high);
        good = turns_strangers_away(known, info.rate);
    }
    bg_filter_free(known);
    printf("%s\n", good ? "All checks passed." : "A CHECK FAILED");
    return good ? 0 : 1;
}
