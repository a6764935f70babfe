/*
 * 14_blocklist.c - a published blocklist, updated by patches.
 *
 * The publisher creates a file from a list, and a patch from two versions of the file. A reader
 * with the old version applies the patch. The result is exactly the new version, or the patch is
 * rejected. The example works in a temporary directory, which is removed at the end.
 */
#define _DEFAULT_SOURCE /* mkdtemp */

#include <bloomgate/bloomgate.h>
#include <bloomgate/file_tools.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTED = 500000, NEWS = 5 };

static char folder[] = "/tmp/bloomgate-blocklist-XXXXXX";
static bg_errinfo why;

/* Adds the hosts from `first` to `end` - 1 to the list, and publishes the new version. Sets
 * `digest` and `path` to the digest and the path of the published file. */
static bool publish(bg_filter *list, uint64_t first, uint64_t end,
                    char digest[BG_DIGEST_TEXT_BYTES], char path[256])
{
    for (uint64_t host = first; host < end; host++) {
        if (bg_filter_add_u64(list, host, NULL) != BG_OK) {
            return false;
        }
    }
    bg_err err = bg_publish(list, folder, "list", NULL, digest, &why);
    (void)snprintf(path, 256, "%s/list-%s.bg", folder, err ? "" : digest);
    return err == BG_OK;
}

/* Checks, as a reader would, that the file is valid and has this digest, and that the first n hosts
 * are listed. */
static bool knows(const char *path, const char *digest, uint64_t n)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_filter *list = NULL;
    bool right = bg_verify(path, NULL, NULL, &why) == BG_OK
                 && bg_file_get_info(path, &about, &why) == BG_OK
                 && strcmp(about.digest_text, digest) == 0
                 && bg_open(path, NULL, &list, &why) == BG_OK;
    for (uint64_t host = 0; right && host < n; host++) {
        right = bg_filter_may_contain_u64(list,
                                          host); /* a "no" would let the host through */
    }
    bg_filter_free(list);
    return right;
}

static bool flip_a_bit(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    int byte = file && fseek(file, at, SEEK_SET) == 0 ? fgetc(file) : EOF;
    return byte != EOF && fseek(file, at, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF
           && fclose(file) == 0;
}

int main(void)
{
    char old[BG_DIGEST_TEXT_BYTES], new[BG_DIGEST_TEXT_BYTES];
    /* The paths of the two versions, the patch, the reader's file, and the pointer to the latest
     * version. */
    char path[5][256];
    bg_file_difference news = { .struct_size = sizeof news };
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *list = NULL;
    spec.items = LISTED + 1000; /* includes space for new hosts */
    spec.rate = 0.0001;
    if (!mkdtemp(folder) || bg_filter_create(&spec, &list, &why) != BG_OK) {
        return 1;
    }
    (void)snprintf(path[2], sizeof path[2], "%s/1-to-2.patch", folder);
    (void)snprintf(path[3], sizeof path[3], "%s/mine.bg", folder);
    (void)snprintf(path[4], sizeof path[4], "%s/list", folder);
    bool right = publish(list, 0, LISTED, old, path[0])
                 && publish(list, LISTED, LISTED + NEWS, new, path[1])
                 && bg_file_patch(path[0], path[1], path[2], &why) == BG_OK
                 && bg_file_diff(path[0], path[1], &news, &why) == BG_OK;
    printf("%d new hosts: %u of %u blocks differ, the patch is %u bytes\n", NEWS,
           (unsigned)news.different, (unsigned)news.blocks, (unsigned)news.patch_bytes);
    /* The reader has the first version and receives the patch. */
    right = right && news.different <= NEWS && knows(path[0], old, LISTED)
            && bg_file_apply(path[0], path[2], path[3], &why) == BG_OK
            && knows(path[3], new, LISTED + NEWS);
    /* The patch cannot be applied to any other version, and damage is detected. In both
     * cases, the reader's file stays intact. */
    right = right && bg_file_apply(path[1], path[2], path[3], NULL) == BG_EINCOMPAT
            && flip_a_bit(path[2], (long)news.patch_bytes / 2)
            && bg_file_apply(path[0], path[2], path[3], NULL) != BG_OK
            && knows(path[3], new, LISTED + NEWS);
    printf("%s\n", right ? "the reader is up to date" : why.message);
    bg_filter_free(list);
    for (int i = 0; i < 5; i++) {
        (void)unlink(path[i]);
    }
    (void)rmdir(folder);
    return right ? 0 : 1;
}
