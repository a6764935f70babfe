/* bloomgated.c - the service: reads its settings, starts, serves, stops. */
#include "settings.h"

int main(int argc, char **argv)
{
    struct settings_store *store;
    const int code = settings_from_command_line(argc, argv, NULL, 0, &store);
    if (code != SETTINGS_RUN) {
        return code;
    }
    settings_store_free(store);
    return 0;
}
