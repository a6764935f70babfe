/*
 * 12_ad_frequency.c - "has this user seen this ad in the last hour?"
 *
 * A window filter expires keys automatically. An ad is shown unless the filter returns "maybe".
 * Therefore, no user sees an ad twice within an hour, and at most one in a thousand ads is held
 * back by a false positive. The example uses a simulated clock, so it does not have to wait a day.
 */
#include <bloomgate/bloomgate.h>
#include <bloomgate/window.h>

#include <stdio.h>

enum { HOUR = 3600, STEP = 20, USERS = 200, ADS = 10 };

static uint64_t seconds(void *context)
{
    return *(const uint64_t *)context;
}

static bg_filter *make(uint64_t *clock)
{
    bg_window_options last_hour = BG_WINDOW_OPTIONS_INIT;
    last_hour.length = HOUR;
    last_hour.generations = 13; /* keys expire after 60 to 65 minutes */
    last_hour.clock = seconds;
    last_hour.context = clock;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_WINDOW;
    spec.items = (uint64_t)USERS * ADS; /* (user, ad) pairs per hour */
    spec.rate = 0.001;
    spec.window = &last_hour;
    bg_filter *seen = NULL;
    bg_errinfo why;
    if (bg_filter_create(&spec, &seen, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
    }
    return seen;
}

/* Returns whether to show the ad. Looks up the key before adding it. A single add could do both,
 * but it would also renew the key if the ad is held back and therefore not seen. */
static bool show(bg_filter *seen, unsigned user, unsigned ad)
{
    char key[32];
    size_t len = (size_t)snprintf(key, sizeof key, "user %u, ad %u", user, ad);
    return !bg_filter_may_contain(seen, key, len)
           && bg_filter_add(seen, key, len, NULL) == BG_OK;
}

struct figures {
    unsigned long asked, shown, too_often, held_back, due;
};

/* Simulates a day in which random users are offered random ads. */
static struct figures day(bg_filter *seen, uint64_t *now)
{
    static uint64_t last[USERS][ADS]; /* ground truth: time last shown, or 0 */
    struct figures f = { 0 };
    uint64_t random = 1, end = *now + (uint64_t)24 * HOUR;
    for (; *now < end; *now += STEP) {
        if (bg_filter_rotate(seen, *now,
                             NULL)) { /* the window also moves without adds */
            break;
        }
        for (int i = 0; i < 5; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            unsigned user = (unsigned)(random >> 33) % USERS;
            unsigned ad = (unsigned)(random >> 50) % ADS;
            uint64_t *before = &last[user][ad];
            bool due = !*before || *now - *before > (uint64_t)HOUR + HOUR / 12;
            bool shown = show(seen, user, ad);
            f.asked++;
            f.due += due;
            f.shown += shown;
            f.too_often += shown && *before && *now - *before < HOUR;
            f.held_back += due && !shown;
            *before = shown ? *now : *before;
        }
    }
    return f;
}

int main(void)
{
    uint64_t now = 1000000;
    bg_filter *seen = make(&now);
    if (!seen) {
        return 1;
    }
    struct figures f = day(seen, &now);
    printf("%lu offers, %lu shown, %lu of them too early (within an hour);\n"
           "%lu of %lu due ads held back by a false positive; %llu bytes\n",
           f.asked, f.shown, f.too_often, f.held_back, f.due,
           (unsigned long long)bg_filter_size_bytes(seen));
    bg_filter_free(seen);
    return f.too_often == 0 && f.shown > 0 && f.held_back <= f.due / 100 ? 0 : 1;
}
