/* consumer.c - a user's first program, compiled as C and C++ against the installed library. */
#include <bloomgate/bloomgate.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(bg_version(), BG_VERSION) != 0) {
        printf("header %s, library %s\n", BG_VERSION, bg_version());
        return 1;
    }
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 1000;
    spec.rate = 0.01;
    bg_filter *seen;
    bg_errinfo why;
    if (bg_filter_create(&spec, &seen, &why) != BG_OK) {
        puts(why.message);
        return 1;
    }
    int found = bg_filter_add(seen, "apple", 5, NULL) == BG_OK
                && bg_filter_may_contain(seen, "apple", 5);
    bg_filter_free(seen);
    return found ? 0 : 1;
}
