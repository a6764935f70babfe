/*
 * bench_leveldb.cc - compares LevelDB using Bloomgate filters with LevelDB using its own filter.
 *
 * There is one database per policy, all with the same records: 16-byte keys, 100-byte
 * values, no compression and no block cache, so every block is read from its file. Gets of
 * absent and present keys are sent to each database in turn, for several rounds. The output
 * contains the median CPU time per get, the median speedup over LevelDB's own policy in the same
 * round, and the number of blocks read. Reads are counted in the Env (LevelDB's file interface),
 * because LevelDB maps its files and the kernel does not see the reads.
 *
 * Fails if a key is lost, or if Bloomgate's policy avoids fewer reads than LevelDB's
 * own policy at the same bits per key.
 *
 *     bench_leveldb [--n 1e7] [--gets 5e4] [--rounds 31] [--bits 10] [--folder FOLDER]
 */
#include "bloomgate_leveldb.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

namespace
{

struct Settings {
    size_t n = 10000000, gets = 50000, rounds = 31;
    uint32_t bits = 10;
    std::string folder;
};

/* ---- Counting reads -------------------------------------------------------------------- */

class CountingFile : public leveldb::RandomAccessFile
{
  public:
    CountingFile(leveldb::RandomAccessFile *file, std::atomic<size_t> *reads)
        : file_(file), reads_(reads)
    {
    }

    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice *result,
                         char *scratch) const override
    {
        reads_->fetch_add(1, std::memory_order_relaxed);
        return file_->Read(offset, n, result, scratch);
    }

  private:
    std::unique_ptr<leveldb::RandomAccessFile> file_;
    std::atomic<size_t> *reads_;
};

class CountingEnv : public leveldb::EnvWrapper
{
  public:
    CountingEnv() : EnvWrapper(leveldb::Env::Default())
    {
    }

    leveldb::Status NewRandomAccessFile(const std::string &name,
                                        leveldb::RandomAccessFile **result) override
    {
        leveldb::RandomAccessFile *file = nullptr;
        leveldb::Status status = target()->NewRandomAccessFile(name, &file);
        *result = status.ok() ? new CountingFile(file, &reads) : nullptr;
        return status;
    }

    std::atomic<size_t> reads{ 0 };
};

/* Counts the bytes of all filters that are created while a database is being filled. */
class WeighingPolicy : public leveldb::FilterPolicy
{
  public:
    explicit WeighingPolicy(const leveldb::FilterPolicy *policy) : policy_(policy)
    {
    }

    const char *Name() const override
    {
        return policy_->Name();
    }

    void CreateFilter(const leveldb::Slice *keys, int n,
                      std::string *dst) const override
    {
        size_t before = dst->size();
        policy_->CreateFilter(keys, n, dst);
        bytes.fetch_add(dst->size() - before);
        filters.fetch_add(1);
        weighed.fetch_add(static_cast<size_t>(n));
    }

    bool KeyMayMatch(const leveldb::Slice &key,
                     const leveldb::Slice &filter) const override
    {
        return policy_->KeyMayMatch(key, filter);
    }

    mutable std::atomic<size_t> bytes{ 0 }, filters{ 0 }, weighed{ 0 };

  private:
    const leveldb::FilterPolicy *policy_;
};

/* ---- Keys ------------------------------------------------------------------------------ */

/* Returns the numeric value of the key with index i. The key is this value, written as 16
 * hexadecimal digits. Keys with even indexes are present; keys with odd indexes are absent. */
uint64_t KeyNumber(uint64_t i)
{
    i = (i ^ i >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ i >> 27) * UINT64_C(0x94d049bb133111eb);
    return i ^ i >> 31;
}

void KeyText(uint64_t number, char *text)
{
    for (int i = 15; i >= 0; i--, number >>= 4) {
        text[i] = "0123456789abcdef"[number & 15];
    }
}

std::vector<char> AskedKeys(const Settings &s, size_t round, bool present)
{
    std::vector<char> keys(s.gets * 16);
    for (size_t i = 0; i < s.gets; i++) {
        uint64_t pick = KeyNumber(round * s.gets + i + 12345) % s.n;
        KeyText(KeyNumber(2 * pick + !present), &keys[i * 16]);
    }
    return keys;
}

/* ---- Databases ------------------------------------------------------------------------- */

double Seconds(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Subject {
    const char *name;
    uint32_t bits;
    std::unique_ptr<const leveldb::FilterPolicy> policy;
    CountingEnv env;
    std::unique_ptr<leveldb::Cache> no_cache{ leveldb::NewLRUCache(0) };
    std::unique_ptr<leveldb::DB> db;
    std::string path;
    double fill_seconds = 0, fill_cpu = 0, bits_per_key = 0;
    std::vector<double> absent, present; /* microseconds per get, one value per round */
    size_t absent_reads = 0, present_reads = 0, opened_reads = 0, wrong = 0;

    Subject(const char *its_name, uint32_t its_bits,
            const leveldb::FilterPolicy *its_policy)
        : name(its_name), bits(its_bits), policy(its_policy)
    {
    }
};

void Must(const leveldb::Status &status)
{
    if (!status.ok()) {
        std::fprintf(stderr, "bench_leveldb: %s\n", status.ToString().c_str());
        std::exit(1);
    }
}

leveldb::Options OptionsOf(Subject *subject, const leveldb::FilterPolicy *policy)
{
    leveldb::Options options;
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    options.filter_policy = policy;
    options.env = &subject->env;
    options.block_cache = subject->no_cache.get();
    options.write_buffer_size = 32 << 20;
    options.max_file_size = 16 << 20; /* few files, so that all of them can be mapped */
    return options;
}

void Open(Subject *subject, const leveldb::FilterPolicy *policy)
{
    leveldb::DB *db = nullptr;
    Must(leveldb::DB::Open(OptionsOf(subject, policy), subject->path, &db));
    subject->db.reset(db);
}

/* Fills a database in key order, reopens it, and reads from each of its tables, so that all tables
 * are open. */
void Fill(Subject *subject, const std::vector<uint64_t> &numbers)
{
    WeighingPolicy weighing(subject->policy.get());
    Open(subject, subject->policy ? &weighing : nullptr);
    double start = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    std::string value(100, 'v');
    char key[16];
    leveldb::WriteBatch batch;
    for (size_t i = 0; i < numbers.size(); i++) {
        KeyText(numbers[i], key);
        std::memcpy(&value[0], key, 16);
        batch.Put(leveldb::Slice(key, 16), value);
        if (i % 1000 == 999 || i + 1 == numbers.size()) {
            Must(subject->db->Write(leveldb::WriteOptions(), &batch));
            batch.Clear();
        }
    }
    subject->db->CompactRange(nullptr, nullptr);
    subject->fill_seconds = Seconds(CLOCK_MONOTONIC) - start;
    subject->fill_cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (weighing.weighed) {
        subject->bits_per_key = 8.0 * static_cast<double>(weighing.bytes)
                                / static_cast<double>(weighing.weighed);
    }
    subject->db.reset();
    Open(subject, subject->policy.get());
    for (size_t i = 0; i < numbers.size(); i += 1000) {
        std::string found;
        KeyText(numbers[i], key);
        (void)subject->db->Get(leveldb::ReadOptions(), leveldb::Slice(key, 16), &found);
    }
    subject->opened_reads = subject->env.reads;
}

/* Returns this thread's CPU time per get, in microseconds. LevelDB's background thread has no work
 * at this time. */
double Ask(Subject *subject, const std::vector<char> &keys, bool present, size_t *reads)
{
    const leveldb::ReadOptions how;
    std::string found;
    size_t before = subject->env.reads, n = keys.size() / 16;
    double start = Seconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < n; i++) {
        leveldb::Slice key(&keys[i * 16], 16);
        bool is_there = subject->db->Get(how, key, &found).ok();
        subject->wrong +=
            is_there != present
            || (present && std::memcmp(found.data(), key.data(), 16) != 0);
    }
    double seconds = Seconds(CLOCK_THREAD_CPUTIME_ID) - start;
    *reads += subject->env.reads - before;
    return seconds * 1e6 / static_cast<double>(n);
}

double Median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/* Returns the median speedup over the other database across all rounds. */
double Faster(const std::vector<double> &it, const std::vector<double> &other)
{
    std::vector<double> ratios;
    for (size_t i = 0; i < it.size(); i++) {
        ratios.push_back(other[i] / it[i]);
    }
    return Median(ratios);
}

/* ---- The run --------------------------------------------------------------------------- */

using Subjects = std::vector<std::unique_ptr<Subject>>;

const leveldb::FilterPolicy *Ours(uint32_t bits, uint32_t kind)
{
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    options.bits_per_key = bits;
    options.kind = kind;
    auto *policy = new bloomgate::LevelPolicy(options);
    if (!policy->error().empty()) {
        std::fprintf(stderr, "bench_leveldb: %s\n", policy->error().c_str());
        std::exit(2);
    }
    return policy;
}

Subjects MakeSubjects(const Settings &s)
{
    Subjects all;
    all.emplace_back(new Subject("no filter", 0, nullptr));
    all.emplace_back(
        new Subject("LevelDB's own", s.bits,
                    leveldb::NewBloomFilterPolicy(static_cast<int>(s.bits))));
    all.emplace_back(new Subject("bloomgate", s.bits, Ours(s.bits, BG_KIND_AUTO)));
    for (uint32_t less : { 1u, 3u }) {
        if (s.bits > less) {
            all.emplace_back(
                new Subject("bloomgate", s.bits - less, Ours(s.bits - less, 0)));
        }
    }
    all.emplace_back(
        new Subject("bloomgate classic", s.bits, Ours(s.bits, BG_KIND_CLASSIC)));
    return all;
}

void Print(const Settings &s, const Subjects &all)
{
    double asked = static_cast<double>(s.gets * s.rounds);
    const Subject &own = *all[1];
    std::printf("%zu keys, %zu rounds of %zu gets of absent and present keys\n\n", s.n,
                s.rounds, s.gets);
    std::printf(
        "policy            bits  bits/   blocks read per   us per absent get   us per"
        " present get   CPU s to fill\n"
        "                         key  1000 absent gets      (speedup)          (speed"
        "up)\n");
    for (const auto &subject : all) {
        std::printf("%-17s %4u %6.2f %17.2f %10.3f (%5.2f) %10.3f (%5.2f) %14.1f\n",
                    subject->name, subject->bits, subject->bits_per_key,
                    1000 * static_cast<double>(subject->absent_reads) / asked,
                    Median(subject->absent), Faster(subject->absent, own.absent),
                    Median(subject->present), Faster(subject->present, own.present),
                    subject->fill_cpu);
    }
}

int Judge(const Settings &s, const Subjects &all)
{
    int bad = 0;
    for (const auto &subject : all) {
        if (subject->wrong) {
            std::printf("FAILED: %s: %zu wrong answers\n", subject->name,
                        subject->wrong);
            bad = 1;
        }
    }
    if (all[2]->absent_reads > all[1]->absent_reads) {
        std::printf(
            "FAILED: at %u bits per key, Bloomgate caused %zu reads, but LevelDB's own policy only %zu\n",
            s.bits, all[2]->absent_reads, all[1]->absent_reads);
        bad = 1;
    }
    return bad;
}

Settings TakeSettings(int count, char **words)
{
    Settings s;
    for (int i = 1; i + 1 < count; i += 2) {
        std::string name = words[i];
        double number = std::atof(words[i + 1]);
        if (name == "--folder") {
            s.folder = words[i + 1];
        } else if (name == "--n" && number >= 1000) {
            s.n = static_cast<size_t>(number);
        } else if (name == "--gets" && number >= 1) {
            s.gets = static_cast<size_t>(number);
        } else if (name == "--rounds" && number >= 1) {
            s.rounds = static_cast<size_t>(number);
        } else if (name == "--bits" && number >= 1 && number <= 24) {
            s.bits = static_cast<uint32_t>(number);
        } else {
            count = 0;
        }
    }
    if (count % 2 == 0) {
        std::fprintf(stderr,
                     "usage: bench_leveldb [--n 1e7] [--gets 5e4] [--rounds 31] "
                     "[--bits 10] [--folder FOLDER]\n");
        std::exit(2);
    }
    return s;
}

} // namespace

int main(int count, char **words)
{
    Settings s = TakeSettings(count, words);
    if (s.folder.empty()) {
        const char *said = std::getenv("TMPDIR");
        s.folder = said && *said ? said : "/tmp";
    }
    std::string pattern = s.folder + "/bench-leveldb-XXXXXX";
    if (!mkdtemp(&pattern[0])) {
        std::perror(pattern.c_str());
        return 1;
    }
    std::vector<uint64_t> numbers(s.n);
    for (size_t i = 0; i < s.n; i++) {
        numbers[i] = KeyNumber(2 * i);
    }
    std::sort(numbers.begin(), numbers.end());
    Subjects all = MakeSubjects(s);
    for (size_t i = 0; i < all.size(); i++) {
        all[i]->path = pattern + "/" + std::to_string(i);
        Fill(all[i].get(), numbers);
    }
    for (size_t round = 0; round < s.rounds; round++) {
        std::vector<char> absent = AskedKeys(s, round, false);
        std::vector<char> present = AskedKeys(s, round, true);
        for (size_t i = 0; i < all.size(); i++) {
            Subject *subject =
                all[(i + round) % all.size()].get(); /* rotates the order */
            subject->absent.push_back(
                Ask(subject, absent, false, &subject->absent_reads));
            subject->present.push_back(
                Ask(subject, present, true, &subject->present_reads));
        }
    }
    Print(s, all);
    for (auto &subject : all) {
        subject->db.reset();
        (void)leveldb::DestroyDB(subject->path, leveldb::Options());
    }
    (void)leveldb::Env::Default()->RemoveDir(pattern);
    return Judge(s, all);
}
