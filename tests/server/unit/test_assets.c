/* Tests that the dashboard's files embedded in the program are all present, complete, and compliant
 * with the content security policy. */
#include "api/assets.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct asset *find(const char *path)
{
    return asset_find((bg_bytes){ path, strlen(path) });
}

/* Returns whether a file contains a string. */
static bool has(const struct asset *asset, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= asset->size; i++) {
        if (memcmp(asset->bytes + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

TEST(assets__has_the_files_that_pages_ask_for)
{
    static const struct {
        const char *path, *type;
    } wanted[] = {
        { "/", "text/html; charset=utf-8" },
        { "/openapi.yaml", "application/yaml" },
        { "/assets/dashboard.css", "text/css; charset=utf-8" },
        { "/assets/dashboard.js", "text/javascript; charset=utf-8" },
        { "/assets/theme.js", "text/javascript; charset=utf-8" },
        { "/assets/icon.svg", "image/svg+xml" },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const struct asset *asset = find(wanted[i].path);
        CHECK(asset);
        CHECK_STR(asset->path, wanted[i].path);
        CHECK_STR(asset->type, wanted[i].type);
        CHECK(asset->size > 0);
    }
}

TEST(assets__knows_no_other_path)
{
    static const char *const unknown[] = { "",
                                           "/assets/",
                                           "/assets/dashboard.j",
                                           "/index.html",
                                           "/assets/../openapi.yaml",
                                           "//",
                                           "/assets/mock.py" };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(!find(unknown[i]));
    }
    CHECK(!asset_find((bg_bytes){ "/\0", 2 }));
}

TEST(assets__has_a_tag_of_its_own_for_each_file)
{
    for (size_t i = 0; i < asset_files_count; i++) {
        const char *tag = asset_files[i].etag;
        CHECK_EQ(strlen(tag), 34);
        CHECK(tag[0] == '"' && tag[33] == '"');
        CHECK_EQ(strspn(tag + 1, "0123456789abcdef"), 32);
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(tag, asset_files[j].etag) != 0);
            CHECK(strcmp(asset_files[i].path, asset_files[j].path) != 0);
        }
    }
}

TEST(assets__has_the_bytes_of_the_files)
{
    size_t compared = 0;
    for (size_t i = 0; i < asset_files_count; i++) {
        const struct asset *asset = &asset_files[i];
        const char *name = strrchr(asset->path, '/') + 1;
        char path[256];
        (void)snprintf(path, sizeof path, "../server/web/%s",
                       *name ? name : "index.html");
        FILE *file = fopen(path, "rb");
        CHECK(file);
        unsigned char *bytes = malloc(asset->size + 1);
        CHECK(bytes);
        const size_t n = fread(bytes, 1, asset->size + 1, file);
        const bool same = n == asset->size && memcmp(bytes, asset->bytes, n) == 0;
        free(bytes);
        (void)fclose(file);
        CHECK(same);
        compared++;
    }
    CHECK(compared >= 12);
}

/* The files contain nothing that the policy would block. */
TEST(assets__fits_the_policy)
{
    const struct asset *page = find("/");
    CHECK(!has(page, "<style") && !has(page, " style=") && !has(page, " onclick="));
    CHECK(has(page, "<script src=\"assets/theme.js\"></script>"));
    for (size_t i = 0; i < asset_files_count; i++) {
        const struct asset *asset = &asset_files[i];
        if (strstr(asset->type, "javascript") || strstr(asset->type, "css")) {
            CHECK(!has(asset, "innerHTML") && !has(asset, "eval(")
                  && !has(asset, "@import"));
            CHECK(!has(asset, "document.write") && !has(asset, "insertAdjacentHTML"));
            CHECK(!has(asset, "https://"));
        }
    }
    CHECK(strstr(ASSET_POLICY, "default-src 'none'") != NULL);
    CHECK(has(find("/openapi.yaml"), ASSET_POLICY));
}
