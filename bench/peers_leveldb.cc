/*
 * peers_leveldb.cc - LevelDB's Bloom filter policy: a classic filter based on one 32-bit
 * hash. LevelDB creates small filters, one per 2 KiB of data. The policy is not designed for
 * filters with millions of keys, where the 32-bit hash increases the false-positive rate.
 */
#include "peers.h"

#include <climits>
#include <memory>
#include <string>
#include <vector>

#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>

namespace
{

struct LevelFilter {
    std::unique_ptr<const leveldb::FilterPolicy> policy;
    std::string content;
};

leveldb::Slice LevelKey(const uint64_t *key)
{
    return leveldb::Slice(reinterpret_cast<const char *>(key), sizeof *key);
}

void *LevelBuild(const uint64_t *keys, size_t n, double bits_per_key)
{
    if (static_cast<double>(n) * bits_per_key > 0.99 * UINT_MAX || n > INT_MAX) {
        return nullptr;
    }
    auto filter = std::make_unique<LevelFilter>();
    filter->policy.reset(leveldb::NewBloomFilterPolicy(static_cast<int>(bits_per_key)));
    std::vector<leveldb::Slice> slices;
    slices.reserve(n);
    for (size_t i = 0; i < n; i++) {
        slices.push_back(LevelKey(&keys[i]));
    }
    filter->policy->CreateFilter(slices.data(), static_cast<int>(n), &filter->content);
    return filter.release();
}

void LevelRelease(void *filter)
{
    delete static_cast<LevelFilter *>(filter);
}

size_t LevelBytes(const void *filter)
{
    return static_cast<const LevelFilter *>(filter)->content.size();
}

size_t LevelLook(const void *filter, const uint64_t *keys, size_t n)
{
    const LevelFilter *level = static_cast<const LevelFilter *>(filter);
    const leveldb::FilterPolicy *policy = level->policy.get();
    const leveldb::Slice content(level->content);
    size_t positives = 0;
    for (size_t i = 0; i < n; i++) {
        positives += policy->KeyMayMatch(LevelKey(&keys[i]), content);
    }
    return positives;
}

} // namespace

/* The setting is a whole number of bits per key; 10 comes closest to a rate of 1%. */
extern "C" const struct bgb_peer bgb_peer_leveldb = {
    "LevelDB", LevelBuild, LevelRelease, LevelBytes, LevelLook, nullptr, 10,
};
