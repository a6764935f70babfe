/*
 * peers_rocksdb.cc - RocksDB's built-in full filter: one 64-byte line per key.
 *
 * FilterPolicy is public and returns builders and readers, but the public headers only
 * forward-declare the classes of these builders and readers. All member functions of these classes
 * are virtual, so it is enough to declare the classes here with the functions in the same order:
 * calls go through the virtual tables of RocksDB's own objects. The order is known for the versions
 * listed below; this file does not compile with any other version.
 */
#include "peers.h"

#include <memory>
#include <string>
#include <vector>

#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#define PEERS_ROCKSDB_VERSION (ROCKSDB_MAJOR * 100 + ROCKSDB_MINOR)
#if PEERS_ROCKSDB_VERSION < 700 || PEERS_ROCKSDB_VERSION > 1099
#error "The order of RocksDB's virtual functions is unknown for this version."
#endif

namespace ROCKSDB_NAMESPACE
{

class FilterBitsBuilder
{
  public:
    virtual ~FilterBitsBuilder() = default;
    virtual void AddKey(const Slice &key) = 0;
#if PEERS_ROCKSDB_VERSION >= 906
    virtual void AddKeyAndAlt(const Slice &key, const Slice &alternative) = 0;
#endif
    virtual size_t EstimateEntriesAdded() = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *buffer) = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *buffer, Status *status) = 0;
    /* The remaining functions are not called here. */
};

class FilterBitsReader
{
  public:
    virtual ~FilterBitsReader() = default;
    virtual bool MayMatch(const Slice &key) = 0;
    virtual void MayMatch(int count, Slice **keys, bool *may_match) = 0;
};

} // namespace ROCKSDB_NAMESPACE

namespace
{

namespace rocks = ROCKSDB_NAMESPACE;

constexpr size_t kGroup = 32; /* keys per batch, as in MultiGet */

struct RocksFilter {
    std::unique_ptr<const rocks::FilterPolicy> policy;
    std::unique_ptr<const char[]> buffer;
    size_t bytes = 0;
    std::unique_ptr<rocks::FilterBitsReader> reader;
};

rocks::Slice RocksKey(const uint64_t *key)
{
    return rocks::Slice(reinterpret_cast<const char *>(key), sizeof *key);
}

void *RocksBuild(const uint64_t *keys, size_t n, double bits_per_key)
{
    auto filter = std::make_unique<RocksFilter>();
    filter->policy.reset(rocks::NewBloomFilterPolicy(bits_per_key));
    rocks::BlockBasedTableOptions table;
    rocks::FilterBuildingContext context(table);
    std::unique_ptr<rocks::FilterBitsBuilder> builder(
        filter->policy->GetBuilderWithContext(context));
    if (!builder) {
        return nullptr;
    }
    for (size_t i = 0; i < n; i++) {
        builder->AddKey(RocksKey(&keys[i]));
    }
    rocks::Slice content = builder->Finish(&filter->buffer);
    filter->bytes = content.size();
    filter->reader.reset(filter->policy->GetFilterBitsReader(content));
    return filter.release();
}

void RocksRelease(void *filter)
{
    delete static_cast<RocksFilter *>(filter);
}

size_t RocksBytes(const void *filter)
{
    return static_cast<const RocksFilter *>(filter)->bytes;
}

size_t RocksLook(const void *filter, const uint64_t *keys, size_t n)
{
    rocks::FilterBitsReader *reader =
        static_cast<const RocksFilter *>(filter)->reader.get();
    size_t positives = 0;
    for (size_t i = 0; i < n; i++) {
        positives += reader->MayMatch(RocksKey(&keys[i]));
    }
    return positives;
}

/* The measured time includes creating the slices, because any caller has to create slices for its
 * keys. */
size_t RocksLookMany(const void *filter, const uint64_t *keys, size_t n)
{
    rocks::FilterBitsReader *reader =
        static_cast<const RocksFilter *>(filter)->reader.get();
    rocks::Slice slices[kGroup];
    rocks::Slice *pointers[kGroup];
    bool answers[kGroup];
    size_t positives = 0;
    for (size_t i = 0; i < n; i += kGroup) {
        size_t count = n - i < kGroup ? n - i : kGroup;
        for (size_t j = 0; j < count; j++) {
            slices[j] = RocksKey(&keys[i + j]);
            pointers[j] = &slices[j];
            answers[j] = true;
        }
        reader->MayMatch(static_cast<int>(count), pointers, answers);
        for (size_t j = 0; j < count; j++) {
            positives += answers[j];
        }
    }
    return positives;
}

} // namespace

extern "C" const struct bgb_peer bgb_peer_rocksdb = {
    "RocksDB", RocksBuild, RocksRelease, RocksBytes, RocksLook, RocksLookMany, 9.93,
};
