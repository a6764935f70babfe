// Checks that the headers compile without warnings in C++, and that the declared functions work.
// This test does not use the harness, which is written in C, but prints the same final line.
#include "bloomgate/all.h"
#include "support/adds.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

static unsigned wrong;

#define MUST(condition)                                                                \
    ((condition) ? (void)0                                                             \
                 : (void)(wrong++,                                                     \
                          std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void uses_a_filter()
{
    bg_spec spec = BG_SPEC_INIT;
    MUST(spec.struct_size == sizeof spec);
    MUST(spec.kind == BG_KIND_AUTO && spec.items == 0 && spec.allocator == nullptr);
    spec.items = 1000;
    spec.rate = 0.01;
    bg_filter *filter = nullptr;
    bg_errinfo why;
    MUST(bg_filter_create(&spec, &filter, &why) == BG_OK);
    const std::string key("a\0b", 3);
    MUST(added(filter, key.data(), key.size()));
    MUST(bg_filter_may_contain(filter, key.data(), key.size()));
    MUST(!bg_filter_may_contain(filter, "a", 1));

    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < 100; i++) {
        numbers.push_back(i);
    }
    std::vector<std::uint64_t> maybe(BG_BITMAP_WORDS(numbers.size()));
    MUST(added_many(filter, bg_keys_u64(numbers.data(), numbers.size()), maybe.data())
         == 100);
    MUST(maybe[0] == ~std::uint64_t(0) && maybe[1] == (std::uint64_t(1) << 36) - 1);
    MUST(bg_filter_may_contain_many(filter, bg_keys_u64(numbers.data(), numbers.size()),
                                    nullptr)
         == 100);

    bg_filter_info info;
    info.struct_size = sizeof info;
    MUST(bg_filter_get_info(filter, &info) == BG_OK);
    MUST(info.kind == BG_KIND_BLOCKED && info.ones > 0 && info.design_items == 1000);
    bg_filter_free(filter);
}

static void makes_a_plan()
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    MUST(ask.struct_size == sizeof ask && ask.spec.struct_size == sizeof(bg_spec));
    ask.spec.items = 1000000;
    ask.spec.rate = 0.01;
    MUST(bg_plan_compute(&ask, &plan, nullptr) == BG_OK);
    MUST(plan.bits_per_key > 9 && plan.bits_per_key < 10.5 && plan.rate <= 0.01);
    MUST(std::strcmp(bg_kind_name(plan.kind), "blocked") == 0);
}

static void is_told_of_errors()
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = nullptr;
    bg_errinfo why;
    spec.items = 10;
    spec.rate = 1.5;
    MUST(bg_filter_create(&spec, &filter, &why) == BG_EINVAL);
    MUST(filter == nullptr && std::strcmp(why.what, "rate") == 0);
    MUST(std::strcmp(bg_err_name(BG_EINVAL), "BG_EINVAL") == 0);
    MUST(std::strcmp(bg_version(), BG_VERSION) == 0);
    bg_hasher hasher;
    MUST(bg_hasher_init(&hasher, nullptr, nullptr) == BG_OK);
    MUST(bg_hash_bytes(&hasher, "abc", 3) == bg_hash_str(&hasher, "abc"));
    bg_hasher_wipe(&hasher);
    MUST(bg_cpu_available(BG_CPU_SCALAR));
}

int main()
{
    void (*const tests[])() = { uses_a_filter, makes_a_plan, is_told_of_errors };
    unsigned passed = 0, failed = 0;
    for (void (*test)() : tests) {
        wrong = 0;
        test();
        wrong ? failed++ : passed++;
    }
    std::printf("%u passed, %u failed\n", passed, failed);
    return failed ? 1 : 0;
}
