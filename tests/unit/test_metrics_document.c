/*
 * Metrics as text: numbers that can be read back unchanged in every locale, labels with
 * arbitrary bytes, the rules of the metrics table, and documents in three formats with the
 * same content. The values (struct metrics_facts) are generated here; test_metrics.c uses values
 * from real slots and gates.
 */
#include "support/metrics_reader.h"

#include "gate/metrics.h"
#include "gate/metrics_text.h"

#include <float.h>
#include <stdarg.h>

/* ---- Numbers ----------------------------------------------------------------------- */

/* The library's calls to snprintf and strtod are redirected to the functions below. If `comma` is
 * set, they simulate a locale with a decimal comma, because few machines have such a locale
 * installed. */
static bool comma;

int __wrap_snprintf(char *to, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double __wrap_strtod(const char *text, char **end);
double __real_strtod(const char *text, char **end);

int __wrap_snprintf(char *to, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to, room, format, args); /* NOLINT(clang-analyzer-valist.*) */
    va_end(args);
    char *point =
        comma && strchr("efg", format[strlen(format) - 1]) ? strchr(to, '.') : NULL;
    if (point) {
        *point = ',';
    }
    return n;
}

double __wrap_strtod(const char *text, char **end)
{
    char part[64];
    size_t n = strcspn(text, comma ? "." : "");
    if (n >= sizeof part) {
        return (double)NAN;
    }
    /* In a locale with a decimal comma, strtod stops at the decimal point. */
    memcpy(part, text, n);
    part[n] = 0;
    return comma ? __real_strtod(part, end) : __real_strtod(text, end);
}

static const char *number(double x)
{
    static char texts[4][METRICS_NUMBER];
    static unsigned next;
    char *text = texts[next++ % 4];
    metrics_number(x, text);
    return text;
}

TEST(number__is_written_as_people_write_it)
{
    for (int turn = 0; turn < 2; turn++) {
        comma = turn == 1;
        CHECK_STR(number(0), "0");
        CHECK_STR(number(-0.0), "0");
        CHECK_STR(number(1), "1");
        CHECK_STR(number(-1), "-1");
        CHECK_STR(number(10), "10");
        CHECK_STR(number(0.1), "0.1");
        CHECK_STR(number(0.01), "0.01");
        CHECK_STR(number(0.00001), "0.00001");
        CHECK_STR(number(0.000012345), "0.000012345");
        CHECK_STR(number(0.000001), "1e-06");
        CHECK_STR(number(1.5e-7), "1.5e-07");
        CHECK_STR(number(-1.5e-7), "-1.5e-07");
        CHECK_STR(number(123.456), "123.456");
        CHECK_STR(number(1e16), "10000000000000000");
        CHECK_STR(number(1e17), "1e+17");
        CHECK_STR(number(9007199254740993.0), "9007199254740992");
        CHECK_STR(number(12345678901234567.0), "12345678901234568");
        CHECK_STR(number(1.0 / 3), "0.3333333333333333");
        CHECK_STR(number(0.30000000000000004), "0.30000000000000004");
        CHECK_STR(number(DBL_MAX), "1.7976931348623157e+308");
        CHECK_STR(number(-DBL_MAX), "-1.7976931348623157e+308");
        CHECK_STR(number(DBL_MIN), "2.2250738585072014e-308");
        CHECK_STR(number(0x1p-1074), "5e-324");
    }
    comma = false;
    CHECK_STR(number((double)NAN), "NaN");
    CHECK_STR(number(-(double)NAN), "NaN");
    CHECK_STR(number((double)INFINITY), "+Inf");
    CHECK_STR(number(-(double)INFINITY), "-Inf");
}

/* Returns a random number. The exponents vary widely, and many numbers are short or subnormal. */
static double any_number(void)
{
    uint64_t bits = check_random();
    double x;
    switch (check_random_below(4)) {
    case 0: memcpy(&x, &bits, sizeof x); break;
    case 1: x = (double)(bits % 100000) / 1000; break;
    case 2: x = (double)bits * 0x1p-64; break;
    default: x = (double)(bits % 1000) * 0x1p-1074; break;
    }
    return isfinite(x) ? x : 0.5;
}

static size_t digits_in(const char *text)
{
    size_t n = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        bool digit = *text >= '0' && *text <= '9';
        n += digit && (n > 0 || *text != '0');
        zeros = digit && *text == '0' ? zeros + 1 : digit ? 0 : zeros;
    }
    return n > zeros ? n - zeros : 1;
}

TEST(number__is_the_shortest_that_is_read_back)
{
    char shorter[METRICS_NUMBER];
    for (size_t i = 0; i < 20000 * check_scale(); i++) {
        double x = any_number();
        const char *text = number(x);
        CHECK(__real_strtod(text, NULL) == x);
        comma = true;
        CHECK_STR(number(x), text);
        comma = false;
        size_t n = digits_in(text);
        CHECK(n <= 17);
        if (n > 1) {
            (void)snprintf(shorter, sizeof shorter, "%.*e", (int)n - 2, x);
            CHECK(__real_strtod(shorter, NULL) != x);
        }
    }
}

/* ---- Labels ------------------------------------------------------------------------ */

static struct reader reader, other;

/* Returns a string as the writer writes it, including the quotes. */
static const char *written(const char *text, bool json)
{
    static struct metrics_text out;
    reader_reset(&reader);
    metrics_text_begin(&out, reader_sink, &reader);
    if (json) {
        metrics_text_json(&out, text);
    } else {
        metrics_text_label(&out, text);
    }
    CHECK(metrics_text_end(&out));
    return reader.text;
}

/* Writes a string and returns the string that the reader gets back. */
static const char *there_and_back(const char *text, bool json)
{
    static char back[8][READER_VALUE];
    static unsigned next;
    char *to = back[next++ % 8];
    (void)written(text, json);
    reader.at = reader.text;
    reader_string(&reader, json, to, sizeof back[0]);
    CHECK(!*reader.at);
    return to;
}

TEST(label__is_escaped)
{
    CHECK_STR(written("", false), "\"\"");
    CHECK_STR(written("users", false), "\"users\"");
    CHECK_STR(written("a\\b\"c\nd", false), "\"a\\\\b\\\"c\\nd\"");
    CHECK_STR(written("a\\b\"c\nd", true), "\"a\\\\b\\\"c\\nd\"");
    CHECK_STR(written("tab\t", false), "\"tab\t\"");
    CHECK_STR(written("tab\t", true), "\"tab\\u0009\"");
    CHECK_STR(written("\xC3\xBC\xE2\x82\xAC\xF0\x9F\x8C\xB8", false),
              "\"\xC3\xBC\xE2\x82\xAC\xF0\x9F\x8C\xB8\"");
    CHECK_STR(written("\xFF", false), "\"\\\\xff\"");
    CHECK_STR(written("\xFF", true), "\"\\\\xff\"");
    CHECK_STR(written("\\xff", false), "\"\\\\x5cxff\""); /* another name */
    CHECK_STR(written("\\x5cxff", true), "\"\\\\x5cx5cxff\"");
    CHECK_STR(written("\\xf", true), "\"\\\\xf\"");
    CHECK_STR(written("\\xFF", true), "\"\\\\xFF\"");
    CHECK_STR(there_and_back("\xC3", false), "\\xc3");          /* truncated */
    CHECK_STR(there_and_back("\xC0\x80", false), "\\xc0\\x80"); /* overlong */
    CHECK_STR(there_and_back("\xE0\x9F\x80", true), "\\xe0\\x9f\\x80");
    CHECK_STR(there_and_back("\xED\xA0\x80", true),
              "\\xed\\xa0\\x80"); /* a surrogate */
    CHECK_STR(there_and_back("\xF0\x8F\xBF\xBF", false), "\\xf0\\x8f\\xbf\\xbf");
    CHECK_STR(there_and_back("\xF4\x90\x80\x80", false), "\\xf4\\x90\\x80\\x80");
    CHECK_STR(there_and_back("\xE2\x82z", false), "\\xe2\\x82z");
}

/* Tests short random strings of special bytes. The reader checks that the written text is UTF-8.
 * This test checks that valid UTF-8 is unchanged and that other bytes are not lost. */
TEST(label__any_bytes_become_utf8)
{
    static const char bytes[] =
        "a\\\"\n\x01\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF"
        "\xE0\xED\xEE\xEF\xF0\xF3\xF4\xF5\xFF";
    size_t sane = 0, rounds = 20000 * check_scale();
    for (size_t i = 0; i < rounds; i++) {
        char text[6] = { 0 };
        for (size_t j = 0; j < 1 + i % 5; j++) {
            text[j] = bytes[check_random_below(sizeof bytes - 1)];
        }
        bool same = reader_is_utf8(text);
        sane += same;
        CHECK((strcmp(there_and_back(text, false), text) == 0) == same);
        CHECK((strcmp(there_and_back(text, true), text) == 0) == same);
    }
    CHECK(sane > rounds / 50 && sane < rounds / 2);
}

TEST(label__of_any_length)
{
    static char text[READER_VALUE];
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        text[n] = n % 7 ? 'x' : '\n';
        if (n % 13 == 0) {
            CHECK_STR(there_and_back(text, n % 2), text);
        }
    }
}

/* ---- The table --------------------------------------------------------------------- */

static size_t values_of(const struct metrics_family *family)
{
    size_t n = 0;
    while (family->values[n].label) {
        n++;
    }
    return n;
}

/* Returns the OpenMetrics name of a family. */
static void open_name(const struct metrics_family *family, char name[READER_NAME])
{
    (void)snprintf(name, READER_NAME, "%s", family->name);
    if (family->type != METRICS_GAUGE) {
        *strrchr(name, '_') = 0;
    }
}

TEST(table__names_follow_the_rules)
{
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    CHECK(count > 40);
    for (size_t i = 0; i < count; i++) {
        const struct metrics_family *family = &families[i];
        char name[READER_NAME];
        open_name(family, name);
        CHECK(strncmp(name, "bloomgate_", 10) == 0);
        CHECK_EQ(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        CHECK(reader_ends_with(family->name, "_total")
              == (family->type == METRICS_COUNTER));
        CHECK(reader_ends_with(family->name, "_info")
              == (family->type == METRICS_INFO));
        CHECK(!*family->unit || reader_ends_with(name, family->unit));
        for (size_t j = 0; j < i; j++) {
            char before[READER_NAME];
            open_name(&families[j], before);
            CHECK(strcmp(name, before) != 0);
            CHECK(strcmp(family->name, families[j].name) != 0);
        }
    }
}

TEST(table__units_are_told)
{
    static const char *const units[] = { "bytes", "seconds", "ratio", "items" };
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t i = 0; i < count; i++) {
        char name[READER_NAME];
        const char *unit = "";
        open_name(&families[i], name);
        for (size_t j = 0; j < sizeof units / sizeof units[0]; j++) {
            unit = reader_ends_with(name, units[j]) ? units[j] : unit;
        }
        CHECK_STR(families[i].unit, unit);
    }
}

TEST(table__help_is_a_sentence)
{
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t i = 0; i < count; i++) {
        const char *help = families[i].help;
        CHECK(strlen(help) > 10 && strlen(help) < sizeof reader.families[0].help);
        CHECK(reader_ends_with(help, "."));
        /* All formats write help texts without escaping, so help texts must not contain these
         * characters. */
        CHECK(!strpbrk(help, "\\\"\n|"));
    }
}

TEST(table__values_are_labelled)
{
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t i = 0; i < count; i++) {
        const struct metrics_family *family = &families[i];
        size_t n = values_of(family);
        CHECK(n >= 1 && n < METRICS_VALUES);
        CHECK((family->needs & (family->needs - 1)) == 0 && family->needs);
        CHECK(family->by ? n > 1 : n == 1 || family->type == METRICS_INFO);
        for (size_t j = 0; j < n; j++) {
            const struct metrics_value *value = &family->values[j];
            bool text = value->form == METRICS_TEXT || value->form == METRICS_CHARS;
            CHECK(text == (family->type == METRICS_INFO));
            CHECK((*value->label != 0) == (n > 1 || text));
            CHECK(strcmp(value->label, "filter") != 0);
            for (size_t k = 0; k < j; k++) {
                CHECK(strcmp(value->label, family->values[k].label) != 0);
            }
        }
    }
}

/* ---- Documents --------------------------------------------------------------------- */

enum { MADE = 5 };

static void make_value(struct metrics_facts *facts, const struct metrics_value *value)
{
    static const char *const texts[] = { "blocked", "", "avx2", "a\"b" };
    char *at = (char *)facts + value->offset;
    uint64_t whole = check_random() >> check_random_below(64);
    double real = any_number();
    const char *text = texts[check_random_below(4)];
    switch (value->form) {
    case METRICS_WHOLE: memcpy(at, &whole, sizeof whole); break;
    case METRICS_REAL: memcpy(at, &real, sizeof real); break;
    case METRICS_TEXT: memcpy(at, &text, sizeof text); break;
    case METRICS_CHARS:
        (void)snprintf(at, BG_DIGEST_TEXT_BYTES, "%016llx", (unsigned long long)whole);
        break;
    }
}

/* Creates several struct metrics_facts with random values. In the first, all values are known; in
 * the others, a random subset is known. */
static struct metrics_facts *make_facts(void)
{
    static struct metrics_facts facts[MADE];
    static char names[MADE][32];
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t i = 0; i < MADE; i++) {
        memset(&facts[i], 0, sizeof facts[i]);
        for (size_t j = 0; j < count; j++) {
            for (size_t k = 0; k < values_of(&families[j]); k++) {
                make_value(&facts[i], &families[j].values[k]);
            }
        }
        (void)snprintf(names[i], sizeof names[i], "name \"%zu\"\n\xFF", i);
        facts[i].name = i == 0 ? NULL : names[i];
        facts[i].has = i == 0 ? METRICS_EVERYTHING
                              : (uint32_t)check_random_below(METRICS_EVERYTHING + 1);
    }
    return facts;
}

static void write_to(struct reader *to, const struct metrics_facts *facts, size_t n,
                     bg_metrics_format format)
{
    bg_errinfo why;
    reader_reset(to);
    CHECK_OK(metrics_document(facts, n, format, reader_sink, to, &why));
    reader_read(to, format);
}

/* Writes the expected number for a sample to `to`. */
static void expect_number(const struct metrics_facts *facts,
                          const struct metrics_family *family,
                          const struct metrics_value *value, bool json, char *to)
{
    const char *at = (const char *)facts + value->offset;
    uint64_t whole;
    double real;
    if (family->type == METRICS_INFO) {
        (void)snprintf(to, METRICS_NUMBER, "1");
    } else if (value->form == METRICS_WHOLE) {
        memcpy(&whole, at, sizeof whole);
        (void)snprintf(to, METRICS_NUMBER, "%llu", (unsigned long long)whole);
    } else {
        memcpy(&real, at, sizeof real);
        metrics_number(real, to);
        if (json && !isfinite(real)) {
            (void)snprintf(to, METRICS_NUMBER, "null");
        }
    }
}

static size_t expect_labels(const struct metrics_facts *facts,
                            const struct metrics_family *family,
                            const struct metrics_value *value,
                            struct reader_sample *expected)
{
    size_t n = 0;
    if (facts->name) {
        (void)snprintf(expected->names[n], READER_NAME, "filter");
        (void)snprintf(expected->values[n++], READER_VALUE, "%.*s\\xff",
                       (int)strlen(facts->name) - 1, facts->name);
    }
    if (family->by) {
        (void)snprintf(expected->names[n], READER_NAME, "%s", family->by);
        (void)snprintf(expected->values[n++], READER_VALUE, "%s", value->label);
    }
    for (; family->type == METRICS_INFO && value->label; value++) {
        const char *at = (const char *)facts + value->offset, *text = at;
        if (value->form == METRICS_TEXT) {
            memcpy(&text, at, sizeof text);
        }
        if (*text) {
            (void)snprintf(expected->names[n], READER_NAME, "%s", value->label);
            (void)snprintf(expected->values[n++], READER_VALUE, "%s", text);
        }
    }
    return n;
}

/* Compares the samples in a document, starting at index `at`, with those expected for one family
 * and one struct metrics_facts. Returns the index after the last of these samples. */
static size_t expect_samples(const struct reader *from, size_t at,
                             const struct metrics_facts *facts,
                             const struct metrics_family *family, bool json)
{
    static struct reader_sample expected;
    size_t n = family->type == METRICS_INFO ? 1 : values_of(family);
    for (size_t i = 0; i < n; i++, at++) {
        const struct reader_sample *sample = &from->samples[at];
        CHECK(at < from->samples_n);
        CHECK_STR(sample->family->name, family->name);
        CHECK_STR(sample->family->help, family->help);
        expected.labels = expect_labels(facts, family, &family->values[i], &expected);
        CHECK(reader_same_labels(sample, &expected));
        expect_number(facts, family, &family->values[i], json, expected.number);
        CHECK_STR(sample->number, expected.number);
    }
    return at;
}

TEST(document__has_every_fact_once_and_families_together)
{
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t turn = 0; turn < 40 * check_scale(); turn++) {
        const struct metrics_facts *facts = make_facts();
        for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
            size_t at = 0;
            write_to(&reader, facts, MADE, (bg_metrics_format)format);
            for (size_t i = 0; i < count; i++) {
                for (size_t j = 0; j < MADE; j++) {
                    if (facts[j].has & families[i].needs) {
                        at = expect_samples(&reader, at, &facts[j], &families[i],
                                            format == BG_METRICS_JSON);
                    }
                }
            }
            CHECK_EQ(at, reader.samples_n);
            CHECK_EQ(reader.families_n, count);
        }
    }
}

TEST(document__types_and_units_by_format)
{
    const struct metrics_facts *facts = make_facts();
    static const char *const types[] = { "counter", "gauge", "info" };
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        write_to(&reader, facts, MADE, (bg_metrics_format)format);
        for (size_t i = 0; i < count; i++) {
            bool plain = format == BG_METRICS_PROMETHEUS;
            bool gauge = plain && families[i].type == METRICS_INFO;
            CHECK_STR(reader.families[i].type,
                      types[gauge ? METRICS_GAUGE : families[i].type]);
            CHECK_STR(reader.families[i].unit, plain ? "" : families[i].unit);
        }
    }
}

TEST(document__leaves_out_what_is_not_known)
{
    struct metrics_facts facts = { .name = "a",
                                   .has = METRICS_TENANT,
                                   .limited_rate = 7 };
    write_to(&reader, &facts, 1, BG_METRICS_PROMETHEUS);
    CHECK_EQ(reader.families_n, 4);
    CHECK(
        reader_number(&reader, "bloomgate_tenant_limited_total", "filter=a,reason=rate")
        == 7);
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        facts.has = 0;
        write_to(&reader, &facts, format % 2, BG_METRICS_JSON);
        CHECK_EQ(reader.families_n, 0);
    }
}

TEST(document__numbers_that_are_none)
{
    struct metrics_facts facts = { .name = "a", .has = METRICS_GATE };
    facts.observed = (double)NAN;
    facts.observed_low = -(double)INFINITY;
    facts.observed_high = (double)INFINITY;
    write_to(&reader, &facts, 1, BG_METRICS_OPENMETRICS);
    CHECK_STR(
        reader_find(&reader, "bloomgate_gate_observed_fpr_ratio", "filter=a")->number,
        "NaN");
    CHECK_STR(reader_find(&reader, "bloomgate_gate_observed_low_fpr_ratio", "filter=a")
                  ->number,
              "-Inf");
    CHECK_STR(reader_find(&reader, "bloomgate_gate_observed_high_fpr_ratio", "filter=a")
                  ->number,
              "+Inf");
    write_to(&reader, &facts, 1, BG_METRICS_JSON);
    CHECK_STR(
        reader_find(&reader, "bloomgate_gate_observed_fpr_ratio", "filter=a")->number,
        "null");
}

/* ---- Sinks ------------------------------------------------------------------------- */

struct stubborn {
    size_t calls, most, longest;
};

static bool stubborn_sink(void *context, const char *text, size_t len)
{
    struct stubborn *stubborn = context;
    CHECK(text && len > 0);
    /* The sink is not called again after it has returned "stop". */
    CHECK(stubborn->calls < stubborn->most);
    stubborn->longest = len > stubborn->longest ? len : stubborn->longest;
    return ++stubborn->calls < stubborn->most;
}

TEST(sink__may_stop_at_any_time)
{
    const struct metrics_facts *facts = make_facts();
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        bg_errinfo why;
        write_to(&reader, facts, MADE, (bg_metrics_format)format);
        CHECK(reader.calls > 3);
        for (size_t most = 1; most <= reader.calls + 1; most++) {
            struct stubborn stubborn = { .most = most };
            bg_err err = metrics_document(facts, MADE, (bg_metrics_format)format,
                                          stubborn_sink, &stubborn, &why);
            bool whole = most > reader.calls;
            CHECK_EQ(err, whole ? BG_OK : BG_ECANCELED);
            CHECK_EQ(why.code, err);
            CHECK_EQ(stubborn.calls, whole ? reader.calls : most);
            CHECK(stubborn.longest <= METRICS_BUFFER);
        }
    }
}

TEST(sink__gets_the_same_every_time)
{
    const struct metrics_facts *facts = make_facts();
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        write_to(&reader, facts, MADE, (bg_metrics_format)format);
        write_to(&other, facts, MADE, (bg_metrics_format)format);
        CHECK_STR(reader.text, other.text);
    }
}

/* ---- Arguments --------------------------------------------------------------------- */

TEST(arguments__are_checked)
{
    bg_errinfo why;
    CHECK_OK(metrics_check(BG_METRICS_JSON, BG_METRICS_CHEAP, reader_sink, &why));
    CHECK_EQ(why.code, BG_OK);
    CHECK_EQ(metrics_check((bg_metrics_format)3, 0, reader_sink, &why), BG_EINVAL);
    CHECK_STR(why.what, "format");
    CHECK_EQ(metrics_check(BG_METRICS_JSON, 2, reader_sink, &why), BG_EINVAL);
    CHECK_STR(why.what, "flags");
    CHECK_EQ(metrics_check(BG_METRICS_JSON, 0, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "sink");
}

TEST(content_type__of_every_format)
{
    CHECK_STR(bg_metrics_content_type(BG_METRICS_PROMETHEUS),
              "text/plain; version=0.0.4; charset=utf-8");
    CHECK_STR(bg_metrics_content_type(BG_METRICS_OPENMETRICS),
              "application/openmetrics-text; version=1.0.0; charset=utf-8");
    CHECK_STR(bg_metrics_content_type(BG_METRICS_JSON), "application/json");
    CHECK_STR(bg_metrics_content_type((bg_metrics_format)77),
              "application/octet-stream");
}
