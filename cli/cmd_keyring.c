/*
 * cmd_keyring.c - bloomgate keyring: makes keyrings, and tells the names of the secrets in
 * one. The secrets themselves are never shown.
 */
#include "command.h"
#include "out.h"
#include "say.h"

#include "bloomgate/bloomgate.h"

#include <stdio.h>
#include <string.h>

struct keyring_options {
    struct common common;
    const char *name;
};

#define AT(field) offsetof(struct keyring_options, field)
static const struct option keyring_table[] = {
    { "new", 0, OPTION_TEXT, AT(name), "NAME",
      "append a new secret under that name; makes FILE", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group keyring_group = { "Secrets", keyring_table };

/* The last one that is not retired is what new filters are made with. */
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
        return say_usage("expected one FILE, found %zu", arguments->count);
    }
    const char *path = arguments->items[0];
    if (!o->name) {
        return keyring_list(path);
    }
    if (bg_keyring_append(path, o->name, &why)) {
        return say_error(path, &why);
    }
    say_note("%s: new filters are made with the secret '%s' from now on", path,
             o->name);
    return CLI_OK;
}

const struct command command_keyring = {
    .name = "keyring",
    .summary = "make a keyring, or tell the names of its secrets",
    .usage = "[options] FILE",
    .about =
        "A keyring has the secrets of filters whose keys strangers choose (--hash keyed). "
        "With --new a secret is made by the system's random numbers and appended; FILE is "
        "made if it is not there, and only its owner can read it. Without, the names are "
        "listed, in order, with \"current\" behind the one that new filters get, and "
        "\"retired\" behind those that are for old filters only.\n\n"
        "Files of filters carry the name, never the secret: whoever loses the keyring loses "
        "the filters. To retire a secret, write \"retired\" behind it, with an editor.",
    .size = sizeof(struct keyring_options),
    .uses = { { &keyring_group, 0 } },
    .examples = { { "bloomgate keyring --new 2026-11 secrets",
                    "a keyring, or one more secret in it" },
                  { "bloomgate keyring secrets", "the names of its secrets" } },
    .run = keyring_command,
};
