#define _GNU_SOURCE
#include "journal.h"
#include "support/faulty_disk.h"
#include "support/files.h"
TEST(journal__smoke)
{
    struct journal *j;
    bg_errinfo why;
    struct journal_report report;
    uint64_t seq;
    const char *folder = files_folder();
    for (int turn = 0; turn < 3; turn++) {
        if (journal_open(folder, NULL, &j, &why))
            check_fail(__FILE__, __LINE__, "%s", why.message);
        if (journal_begin(j, &report, &why))
            check_fail(__FILE__, __LINE__, "%s", why.message);
        printf("frames %d clean %d segs %d\n", (int)report.frames, report.clean,
               (int)report.segments);
        CHECK_OK(journal_start(j, NULL, NULL, &why));
        uint64_t hash = 5;
        struct journal_record r = { .type = JOURNAL_CHANGE,
                                    .id = 1,
                                    .change = {
                                        .op = CHANGE_ADD, .n = 1, .hashes = &hash } };
        for (int i = 0; i < 10; i++)
            CHECK_OK(journal_append(j, &r, 1, &seq, &why));
        CHECK_OK(journal_rotate(j, NULL, &why));
        if (journal_close(j, &why))
            check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    files_clean();
}
