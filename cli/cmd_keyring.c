/*
 * cmd_keyring.c - bloomgate keyring: creates keyrings, and lists the names of their secrets. The
 * secrets themselves are never printed.
 */
#include "command.h"
#include "out.h"
#include "say.h"

#include "bloomgate/all.h"

#include <stdio.h>
#include <string.h>

struct keyring_options {
    struct common common;
    const char *name;
};

#define AT(field) offsetof(struct keyring_options, field)
static const struct option keyring_table[] = {
    { "new", 0, OPTION_TEXT, AT(name), "NAME",
      "append a new secret with this name to FILE", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group keyring_group = { "Secrets", keyring_table };

/* Returns the index of the last secret that is not retired, which new filters use. */
static size_t keyring_current(const bg_keyring *ring)
{
    size_t current = SIZE_MAX;
    for (size_t i = 0; i < bg_keyring_count(ring); i++) {
        bool retired = false;
        (void)bg_keyring_name(ring, i, &retired);
        current = retired ? current : i;
    }
    return current;
}

static int keyring_list(const char *path)
{
    bg_keyring *ring = NULL;
    bg_errinfo why;
    if (bg_keyring_open(path, &ring, &why)) {
        return say_error(path, &why);
    }
    const size_t current = keyring_current(ring);
    for (size_t i = 0; i < bg_keyring_count(ring); i++) {
        bool retired = false;
        const char *name = bg_keyring_name(ring, i, &retired);
        printf("%s%s\n", name, i == current ? "\tcurrent" : retired ? "\tretired" : "");
    }
    bg_keyring_free(ring);
    return CLI_OK;
}

static int keyring_command(void *options, const struct arguments *arguments)
{
    const struct keyring_options *o = options;
    bg_errinfo why;
    if (arguments->count != 1) {
        return say_usage("expected one FILE, found %zu arguments", arguments->count);
    }
    const char *path = arguments->items[0];
    if (!o->name) {
        return keyring_list(path);
    }
    if (bg_keyring_append(path, o->name, &why)) {
        return say_error(path, &why);
    }
    say_note("%s: new filters now use the secret '%s'", path, o->name);
    return CLI_OK;
}

const struct command command_keyring = {
    .name = "keyring",
    .summary = "create a keyring, or list its secrets",
    .usage = "[options] FILE",
    .about =
        "A keyring contains the secrets of filters with untrusted keys (--hash keyed). "
        "--new appends a secret generated from the OS random number source. It creates "
        "FILE if it does not exist, readable only by its owner. Without --new, the "
        "names of the secrets are listed in order. \"current\" marks the secret that "
        "new filters use, and \"retired\" marks secrets that only old filters use.\n\n"
        "Filter files contain the name of their secret, but never the secret itself: "
        "if the keyring is lost, its filters are lost. To retire a secret, append "
        "\"retired\" to its line with an editor.",
    .size = sizeof(struct keyring_options),
    .uses = { { &keyring_group, 0 } },
    .examples = { { "bloomgate keyring --new 2026-11 secrets",
                    "create a keyring, or add a secret to it" },
                  { "bloomgate keyring secrets", "list the names of the secrets" } },
    .run = keyring_command,
};
