/*
 * must.h - a test harness for C++, because the C harness does not compile as C++. It counts
 * failures, continues after each failure, and prints the same last line as the C harness.
 */
#ifndef MUST_H
#define MUST_H

#include <cstdio>

struct MustCase {
    const char *name;
    void (*run)();
};

inline unsigned must_wrong = 0;

#define MUST(condition)                                                                \
    ((condition) ? (void)0                                                             \
                 : (void)(must_wrong++,                                                \
                          std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition)))

/* Runs all cases, prints the result of each case, and returns the exit status for main. */
template <size_t N> int MustRun(const MustCase (&cases)[N])
{
    unsigned failed = 0;
    for (const MustCase &test : cases) {
        const unsigned before = must_wrong;
        test.run();
        std::printf("%s %s\n", must_wrong == before ? "ok" : "FAILED", test.name);
        std::fflush(stdout);
        failed += must_wrong != before;
    }
    std::printf("%u passed, %u failed\n", static_cast<unsigned>(N) - failed, failed);
    return failed != 0;
}

#endif
