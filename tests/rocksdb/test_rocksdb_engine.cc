/*
 * Tests real databases. Get, MultiGet and iterators find every key, regardless of the kind and size
 * of the filter, and of the policy that reads it. Lookups of absent keys read almost no blocks, the
 * kind of a filter depends on its level, and invalid policy names are rejected with an error
 * message.
 */
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <stdlib.h>

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>

#include "bloomgate_rocksdb.h"
#include "must.h"
#include "rocksdb_interface.h"

namespace
{

using namespace ROCKSDB_NAMESPACE;

constexpr int kKeys = 10000;

/* Returns the key for a number. Keys with even numbers exist; keys with odd numbers are absent. */
std::string Key(int number)
{
    char text[32];
    snprintf(text, sizeof text, "user%04d/%08d", number / 100, number);
    return text;
}

/* A temporary directory, which the destructor deletes. */
class Scratch
{
  public:
    Scratch()
    {
        path_ = std::filesystem::temp_directory_path() / "bloomgate_rocksdb.XXXXXX";
        if (!mkdtemp(path_.data())) {
            std::abort();
        }
    }
    ~Scratch()
    {
        std::filesystem::remove_all(path_);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    std::string operator/(const char *name) const
    {
        return path_ + "/" + name;
    }

  private:
    std::string path_;
};

struct Setting {
    std::string policy = "bloomgate:10";
    bool partitioned = false;
    bool prefixes = false;
    bool whole_keys = true;
    bool verify = true;
    bool mapped = false;
};

Options MakeOptions(const Setting &setting)
{
    Options options;
    BlockBasedTableOptions table;
    options.create_if_missing = true;
    options.statistics = CreateDBStatistics();
    options.compression = kNoCompression;
    options.write_buffer_size = 512 << 10;
    options.target_file_size_base = 256 << 10;
    options.allow_mmap_reads = setting.mapped;
    if (setting.policy == "none") {
        table.filter_policy = nullptr;
    } else {
        const Status made = FilterPolicy::CreateFromString(
            ConfigOptions(), setting.policy, &table.filter_policy);
        MUST(made.ok() && table.filter_policy != nullptr);
    }
    table.no_block_cache = !setting.partitioned;
    table.whole_key_filtering = setting.whole_keys;
    table.detect_filter_construct_corruption = setting.verify;
    if (setting.partitioned) {
        table.partition_filters = true;
        table.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
        table.metadata_block_size = 1024;
    }
    if (setting.prefixes) {
        options.prefix_extractor.reset(NewFixedPrefixTransform(8));
    }
    options.table_factory.reset(NewBlockBasedTableFactory(table));
    return options;
}

/* An open database. */
class Store
{
  public:
    Store(const std::string &path, const Setting &setting)
        : options_(MakeOptions(setting))
    {
        DB *db = nullptr;
        const Status opened = DB::Open(options_, path, &db);
        if (!opened.ok()) {
            std::printf("%s\n", opened.ToString().c_str());
        }
        MUST(opened.ok());
        db_.reset(db);
    }

    void Fill(int from, int to)
    {
        for (int i = from; i < to; i += 2) {
            MUST(db_->Put({}, Key(i), "value of " + Key(i)).ok());
        }
        MUST(db_->Flush({}).ok());
    }

    /* Overwrites and deletes keys, and then compacts files with several versions of a key. */
    void Churn()
    {
        for (int i = 0; i < kKeys; i += 6) {
            MUST(db_->Put({}, Key(i), "value of " + Key(i)).ok());
            MUST(db_->Put({}, Key(i + 1), "short-lived").ok());
            MUST(db_->Delete({}, Key(i + 1)).ok());
        }
        MUST(db_->Flush({}).ok());
        Compact();
    }

    void Compact()
    {
        MUST(db_->CompactRange({}, nullptr, nullptr).ok());
    }

    int Lost()
    {
        int lost = 0;
        std::string value;
        for (int i = 0; i < kKeys; i += 2) {
            lost += !db_->Get({}, Key(i), &value).ok() || value != "value of " + Key(i);
        }
        return lost;
    }

    /* Reads keys in batches of 50 that include absent keys. Returns the number of keys with a wrong
     * result: existing keys that are lost, and absent keys that are found. */
    int LostInBatches()
    {
        int lost = 0;
        for (int begin = 0; begin + 50 <= kKeys; begin += 50) {
            std::vector<std::string> texts;
            for (int i = begin; i < begin + 50; i++) {
                texts.push_back(Key(i));
            }
            const std::vector<Slice> keys(texts.begin(), texts.end());
            std::vector<PinnableSlice> values(50);
            std::vector<Status> states(50);
            db_->MultiGet({}, db_->DefaultColumnFamily(), 50, keys.data(),
                          values.data(), states.data());
            for (int i = begin; i < begin + 50; i++) {
                const Status &state = states[static_cast<size_t>(i - begin)];
                lost += i % 2 == 0 ? !state.ok() : !state.IsNotFound();
            }
        }
        return lost;
    }

    /* Reads the keys of each prefix with an iterator that can query the filter for that prefix.
     * Returns the number of prefixes with the wrong number of keys. */
    int LostByPrefix()
    {
        int lost = 0;
        ReadOptions read;
        read.prefix_same_as_start = true;
        for (int prefix = 0; prefix < kKeys / 100; prefix++) {
            const std::unique_ptr<Iterator> it(db_->NewIterator(read));
            int found = 0;
            for (it->Seek(Key(prefix * 100).substr(0, 8)); it->Valid(); it->Next()) {
                found++;
            }
            lost += found != 50;
        }
        return lost;
    }

    /* Returns the number of blocks read by Get calls for absent keys, which have the same prefixes
     * as existing keys. */
    uint64_t ReadsOfAbsent(int step)
    {
        std::string value;
        SetPerfLevel(kEnableCount);
        get_perf_context()->Reset();
        for (int i = 1; i < kKeys; i += step) {
            MUST(db_->Get({}, Key(i), &value).IsNotFound());
        }
        return get_perf_context()->block_read_count;
    }

    uint64_t Ticker(Tickers which)
    {
        return options_.statistics->getTickerCount(which);
    }

    uint64_t FilterBytes()
    {
        TablePropertiesCollection all;
        uint64_t bytes = 0;
        MUST(db_->GetPropertiesOfAllTables(&all).ok());
        for (const auto &file : all) {
            bytes += file.second->filter_size;
        }
        return bytes;
    }

    DB *operator->()
    {
        return db_.get();
    }

  private:
    Options options_;
    std::unique_ptr<DB> db_;
};

void CheckAll(Store *store, const Setting &setting)
{
    MUST(store->Lost() == 0);
    MUST(store->LostInBatches() == 0);
    if (setting.prefixes) {
        MUST(store->LostByPrefix() == 0);
    }
}

Setting Named(const char *policy)
{
    Setting setting;
    setting.policy = policy;
    return setting;
}

std::vector<Setting> Settings()
{
    std::vector<Setting> all;
    for (const char *policy :
         { "bloomgate:10", "bloomgate:9.5:fuse", "bloomgate:8:ribbon" }) {
        all.push_back(Named(policy));
        all.push_back(Named(policy));
        all.back().partitioned = true;
        all.push_back(Named(policy));
        all.back().prefixes = true;
        all.push_back(all.back());
        all.back().whole_keys = false;
    }
    all.push_back(Named("bloomgate:10:ribbon"));
    all.back().mapped = true;
    all.push_back(Named("bloomgate:10"));
    all.back().prefixes = all.back().partitioned = true;
    return all;
}

void no_key_is_lost()
{
    for (const Setting &setting : Settings()) {
        const Scratch scratch;
        {
            Store store(scratch / "db", setting);
            store.Fill(0, kKeys / 2);
            store.Fill(kKeys / 2, kKeys);
            CheckAll(&store, setting); /* filters in level 0 */
            store.Churn();
            CheckAll(&store, setting); /* filters in the bottommost level */
            MUST(store.FilterBytes() > 0);
        }
        Store again(scratch / "db", setting);
        CheckAll(&again, setting);
    }
}

void absent_keys_cost_no_reads()
{
    const Scratch scratch;
    for (const char *policy :
         { "none", "bloomgate:10", "bloomgate:10:fuse", "bloomgate:10:ribbon" }) {
        const bool filtered = strcmp(policy, "none") != 0;
        Store store(scratch / policy, Named(policy));
        store.Fill(0, kKeys);
        store.Compact();
        const uint64_t reads = store.ReadsOfAbsent(2);
        MUST(filtered ? reads < kKeys / 2 / 30 : reads >= kKeys / 2 - 100);
        MUST(store.LostInBatches() == 0);
        if (filtered) {
            MUST(store.Ticker(BLOOM_FILTER_USEFUL) > kKeys / 2 * 2 * 95 / 100);
            MUST(store.Ticker(BLOOM_FILTER_FULL_TRUE_POSITIVE) == kKeys / 2);
        }
    }
}

/* The bottommost level uses the policy's kind of filter, and other levels use blocked filters. The
 * test infers the kind from the size of the filters. */
void the_bottom_has_its_own_kind()
{
    const Scratch scratch;
    Store store(scratch / "db", Named("bloomgate:12:fuse"));
    store.Fill(0, kKeys);
    const double keys = kKeys / 2,
                 above = 8 * static_cast<double>(store.FilterBytes()) / keys;
    MUST(above > 11.9 && above < 13);
    store.Compact();
    CompactRangeOptions all;
    all.bottommost_level_compaction = BottommostLevelCompaction::kForce;
    MUST(store->CompactRange(all, nullptr, nullptr).ok());
    const double below = 8 * static_cast<double>(store.FilterBytes()) / keys;
    MUST(below > 8 && below < 11.5);
    MUST(store.Lost() == 0);
}

void files_to_be_ingested_are_for_the_bottom()
{
    const Scratch scratch;
    const Setting setting = Named("bloomgate:12:fuse");
    const std::string path = scratch / "extra.sst";
    SstFileWriter writer(EnvOptions(), MakeOptions(setting));
    MUST(writer.Open(path).ok());
    for (int i = 0; i < kKeys; i += 2) {
        MUST(writer.Put(Key(i), "value of " + Key(i)).ok());
    }
    MUST(writer.Finish().ok());
    Store store(scratch / "db", setting);
    MUST(store->IngestExternalFile({ path }, IngestExternalFileOptions()).ok());
    CheckAll(&store, setting);
    MUST(8 * store.FilterBytes() < kKeys / 2 * 23 / 2);
    MUST(store.ReadsOfAbsent(2) < 60);
}

/* Every Bloomgate policy can use the filters of all other Bloomgate policies. */
void policies_read_each_other()
{
    const char *policies[] = { "bloomgate:10", "bloomgate:16", "bloomgate:12:fuse",
                               "bloomgate:7.5:ribbon" };
    for (const char *writes : policies) {
        const Scratch scratch;
        {
            Store store(scratch / "db", Named(writes));
            store.Fill(0, kKeys);
            store.Compact();
        }
        for (const char *reads : policies) {
            Store store(scratch / "db", Named(reads));
            CheckAll(&store, Named(reads));
            MUST(store.ReadsOfAbsent(10) < 60);
        }
        for (const char *other : { "none", "bloomfilter:10" }) {
            Store store(scratch / "db", Named(other)); /* ignored */
            MUST(store.Lost() == 0);
            MUST(store.ReadsOfAbsent(10) > kKeys / 10 - 100);
        }
    }
}

void built_in_filters_are_left_alone()
{
    const Scratch scratch;
    {
        Store store(scratch / "db", Named("bloomfilter:10"));
        store.Fill(0, kKeys / 2);
    }
    Store store(scratch / "db", Named("bloomgate:10"));
    store.Fill(kKeys / 2, kKeys);
    CheckAll(&store, Named("bloomgate:10"));
    store.Churn();
    CheckAll(&store, Named("bloomgate:10"));
    MUST(store.ReadsOfAbsent(2) < 300);
}

/* ---- Builders and readers, as used by RocksDB ----------------------------------------- */

struct Made {
    explicit Made(const char *name, bool verify)
    {
        table.detect_filter_construct_corruption = verify;
        MUST(bloomgate::MakeFilterPolicy(name, &policy).ok());
        builder.reset(policy->GetBuilderWithContext(FilterBuildingContext(table)));
    }
    BlockBasedTableOptions table;
    std::shared_ptr<const FilterPolicy> policy;
    std::unique_ptr<FilterBitsBuilder> builder;
    std::unique_ptr<const char[]> buffer;
};

void verification_finds_what_is_missing()
{
    for (const char *name :
         { "bloomgate:10", "bloomgate:10:fuse", "bloomgate:10:ribbon" }) {
        Made made(name, true);
        for (int round = 0; round < 3;
             round++) { /* a builder is reused for consecutive partitions */
            MUST(made.builder->EstimateEntriesAdded() == 0);
            for (int i = 0; i < 3000; i++) {
                made.builder->AddKey(Key(round * 5000 + i));
            }
            MUST(made.builder->EstimateEntriesAdded() == 3000);
            Status status = Status::Corruption();
            const Slice content = made.builder->Finish(&made.buffer, &status);
            MUST(status.ok());
            if (round == 1) {
                std::string damaged = content.ToString();
                memset(&damaged[0], 0, 1000);
                MUST(made.builder->MaybePostVerify(damaged).IsCorruption());
            } else {
                MUST(made.builder->MaybePostVerify(content).ok());
            }
            MUST(made.builder->MaybePostVerify("anything")
                     .ok()); /* the hashes were discarded after verification */
            const std::unique_ptr<FilterBitsReader> reader(
                made.policy->GetFilterBitsReader(content));
            int denied = 0;
            for (int i = 0; i < 3000; i++) {
                denied += !reader->MayMatch(Key(round * 5000 + i));
            }
            MUST(denied == 0);
        }
        Made bare(name, false);
        bare.builder->AddKey("a");
        (void)bare.builder->Finish(&bare.buffer);
        MUST(bare.builder->MaybePostVerify("damaged")
                 .ok()); /* verification was not requested */
        MUST(bare.builder->Finish(&bare.buffer).empty());
    }
}

void readers_take_any_bytes_and_any_batch()
{
    Made made("bloomgate:10", false);
    for (int i = 0; i < 1000; i++) {
        made.builder->AddKey(Key(i));
    }
    const std::string good = made.builder->Finish(&made.buffer).ToString();
    for (const std::string &content : { good, good.substr(1), good + "x", std::string(),
                                        std::string(100, '\xff') }) {
        const std::unique_ptr<FilterBitsReader> reader(
            made.policy->GetFilterBitsReader(content));
        for (const int n : { 1, 32, 64, 65, 200 }) {
            std::vector<std::string> texts;
            std::vector<Slice> keys;
            std::vector<Slice *> pointers;
            for (int i = 0; i < n; i++) {
                texts.push_back(Key(900 + i));
            }
            keys.assign(texts.begin(), texts.end());
            for (Slice &key : keys) {
                pointers.push_back(&key);
            }
            const std::unique_ptr<bool[]> maybe(new bool[static_cast<size_t>(n)]);
            reader->MayMatch(n, pointers.data(), maybe.get());
            for (int i = 0; i < n; i++) {
                MUST(maybe[static_cast<size_t>(i)]
                     == reader->MayMatch(keys[static_cast<size_t>(i)]));
                MUST(maybe[static_cast<size_t>(i)] || (content == good && i >= 100));
            }
        }
    }
    MUST(made.builder->ApproximateNumEntries(4096) > 3000);
    MUST(made.builder->ApproximateNumEntries(4096) < 3500);
}

/* ---- Names ----------------------------------------------------------------------------- */

void names_are_explained()
{
    struct Wrong {
        const char *name, *said;
    };
    for (const Wrong &wrong :
         { Wrong{ "bloomgate:0", "from 2 to 64" }, Wrong{ "bloomgate:x", "found 'x'" },
           Wrong{ "bloomgate:10:nothing", "blocked, fuse or ribbon; found 'nothing'" },
           Wrong{ "bloomgate:", "found ''" }, Wrong{ "bloomgate:65", "from 2 to 64" },
           Wrong{ "bloomgate:-3", "found '-3'" },
           Wrong{ "bloomgate:1e1", "found '1e1'" },
           Wrong{ "bloomgate:10.1234", "three decimals" },
           Wrong{ "bloomgate:.5", "found '.5'" }, Wrong{ "bloomgate:10:", "found ''" },
           Wrong{ "bloomgate:10:fuse:", "found 'fuse:'" },
           Wrong{ "bloomgate:8:fuse", "at least 9" } }) {
        std::shared_ptr<const FilterPolicy> policy;
        const Status ours = bloomgate::MakeFilterPolicy(wrong.name, &policy);
        MUST(ours.IsInvalidArgument() && policy == nullptr);
        MUST(ours.ToString().find(wrong.said) != std::string::npos);
        const Status theirs =
            FilterPolicy::CreateFromString(ConfigOptions(), wrong.name, &policy);
        MUST(theirs.IsInvalidArgument() && policy == nullptr);
        MUST(theirs.ToString().find(wrong.said) != std::string::npos);
    }
    std::shared_ptr<const FilterPolicy> policy;
    MUST(bloomgate::MakeFilterPolicy("bloomfilter:10", &policy).IsInvalidArgument());
    MUST(bloomgate::MakeFilterPolicy("bloomgate10", &policy).IsInvalidArgument());
}

void names_come_back()
{
    for (const char *name :
         { "bloomgate:10", "bloomgate:9.5:fuse", "bloomgate:7.125:ribbon",
           "bloomgate:64", "bloomgate:2:ribbon" }) {
        std::shared_ptr<const FilterPolicy> policy, again;
        MUST(bloomgate::MakeFilterPolicy(name, &policy).ok());
        MUST(policy->GetId() == name);
        MUST(std::string(policy->CompatibilityName()) == "bloomgate.v1");
        MUST(FilterPolicy::CreateFromString(ConfigOptions(), policy->GetId(), &again)
                 .ok());
        MUST(again->GetId() == name);
    }
    std::shared_ptr<const FilterPolicy> policy;
    MUST(bloomgate::MakeFilterPolicy("bloomgate", &policy).ok());
    MUST(policy->GetId() == "bloomgate:10");
    MUST(bloomgate::MakeFilterPolicy("bloomgate:12.50:blocked", &policy).ok());
    MUST(policy->GetId() == "bloomgate:12.5");
    policy.reset(bloomgate::NewFilterPolicy(9.9, bloomgate::BottomKind::kRibbon));
    MUST(policy->GetId() == "bloomgate:9.9:ribbon");
    policy.reset(bloomgate::NewFilterPolicy(1, bloomgate::BottomKind::kFuse));
    MUST(policy->GetId() == "bloomgate:9:fuse");
    policy.reset(bloomgate::NewFilterPolicy(1e9));
    MUST(policy->GetId() == "bloomgate:64");
}

} // namespace

int main()
{
    static const MustCase cases[] = {
        { "no key is lost", no_key_is_lost },
        { "absent keys cost no reads", absent_keys_cost_no_reads },
        { "the bottommost level uses the policy's kind of filter",
          the_bottom_has_its_own_kind },
        { "files to be ingested use the bottommost level's kind of filter",
          files_to_be_ingested_are_for_the_bottom },
        { "policies read each other's filters", policies_read_each_other },
        { "built-in filters keep working", built_in_filters_are_left_alone },
        { "verification finds missing keys", verification_finds_what_is_missing },
        { "readers accept any bytes and any batch",
          readers_take_any_bytes_and_any_batch },
        { "invalid policy names are rejected with an error message",
          names_are_explained },
        { "policy names are preserved", names_come_back },
    };
    return MustRun(cases);
}
