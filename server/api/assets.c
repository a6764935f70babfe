/*
 * assets.c - finds a dashboard file by its path. There are about twenty files, so a linear search
 * suffices.
 */
#include "api/assets.h"

#include <string.h>

const struct asset *asset_find(bg_bytes path)
{
    for (size_t i = 0; i < asset_files_count; i++) {
        const char *candidate = asset_files[i].path;
        if (strlen(candidate) == path.len
            && memcmp(candidate, path.data, path.len) == 0) {
            return &asset_files[i];
        }
    }
    return NULL;
}
