/*
 * rocksdb_interface.h - declares two RocksDB classes whose definitions are not in its public
 * headers.
 *
 * Since RocksDB 7.0, FilterBitsBuilder and FilterBitsReader are private, although the public
 * FilterPolicy returns them. All of their functions are virtual, and the classes have no data
 * members, so it is enough to declare them with the same functions in the same order: RocksDB calls
 * these functions through the vtables of the objects. No RocksDB symbols are needed.
 *
 * The order has changed twice, and may change again:
 *
 *     7.0 to 9.5      AddKey, EstimateEntriesAdded, Finish, Finish with a status,
 *                     MaybePostVerify, ApproximateNumEntries
 *     9.6 to 10.8     AddKeyAndAlt after AddKey
 *     10.9 to 11.9    CalculateSpace and EstimatedFpRate at the end
 *
 * The compiler rejects versions that are not in this list. Before you raise the limit, compare the
 * declarations with table/block_based/filter_policy_internal.h in the new version. The headers and
 * the loaded library must have the same version, as RocksDB itself requires.
 */
#ifndef ROCKSDB_INTERFACE_H
#define ROCKSDB_INTERFACE_H

#include <cstddef>
#include <memory>

#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/version.h>

#define BLOOMGATE_ROCKSDB_VERSION (ROCKSDB_MAJOR * 100 + ROCKSDB_MINOR)

#if BLOOMGATE_ROCKSDB_VERSION < 700
#error "RocksDB versions before 7.0 have a different filter API (use 7.0 to 11.9)."
#elif BLOOMGATE_ROCKSDB_VERSION > 1109
#error "This RocksDB version has an unknown vtable layout (use 7.0 to 11.9). See above."
#endif

#define BLOOMGATE_ROCKSDB_HAS_ALT   (BLOOMGATE_ROCKSDB_VERSION >= 906)
#define BLOOMGATE_ROCKSDB_HAS_SPACE (BLOOMGATE_ROCKSDB_VERSION >= 1009)

namespace ROCKSDB_NAMESPACE
{

class FilterBitsBuilder
{
  public:
    virtual ~FilterBitsBuilder() = default;
    virtual void AddKey(const Slice &key) = 0;
#if BLOOMGATE_ROCKSDB_HAS_ALT
    virtual void AddKeyAndAlt(const Slice &key, const Slice &alt) = 0;
#endif
    virtual size_t EstimateEntriesAdded() = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *buffer) = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *buffer, Status *status) = 0;
    virtual Status MaybePostVerify(const Slice &content) = 0;
    virtual size_t ApproximateNumEntries(size_t bytes) = 0;
#if BLOOMGATE_ROCKSDB_HAS_SPACE
    virtual size_t CalculateSpace(size_t entries) = 0;
    virtual double EstimatedFpRate(size_t entries, size_t bytes) = 0;
#endif
};

class FilterBitsReader
{
  public:
    virtual ~FilterBitsReader() = default;
    virtual bool MayMatch(const Slice &key) = 0;
    virtual void MayMatch(int count, Slice **keys, bool *may_match) = 0;
};

} // namespace ROCKSDB_NAMESPACE

#endif
