/*
 * bloomgate_rocksdb.h - a RocksDB filter policy with Bloomgate's filters.
 *
 *     rocksdb::BlockBasedTableOptions table;
 *     table.filter_policy.reset(bloomgate::NewFilterPolicy(10));
 *
 * or by name, in an OPTIONS file or wherever RocksDB accepts the name of a policy, once
 * libbloomgate_rocksdb.so is loaded (linked, or by LD_PRELOAD):
 *
 *     filter_policy=bloomgate:10            blocked filters, 10 bits per key
 *     filter_policy=bloomgate:10:ribbon     the same, with ribbon filters in the bottommost level
 *     filter_policy=bloomgate:9.5:fuse      ... or fuse filters
 *
 * Every bloomgate policy reads the filters of all others, regardless of bits and kind. Unknown
 * and damaged filters answer "maybe": the block is read, as it would be without a filter. See
 * docs/rocksdb.md.
 */
#ifndef BLOOMGATE_ROCKSDB_H
#define BLOOMGATE_ROCKSDB_H

#include <memory>
#include <string>

#include <rocksdb/filter_policy.h>
#include <rocksdb/status.h>

namespace ROCKSDB_NAMESPACE
{
class ObjectLibrary;
}

namespace bloomgate
{

/* The kind of filters in the bottommost level. All other levels have blocked filters, which are
 * fast to build: files there are short-lived. */
enum class BottomKind { kBlocked, kFuse, kRibbon };

/*
 * Creates a policy for RocksDB. The caller deletes it, usually by passing it to the table
 * options. `bits_per_key` is 2 to 64, and at least 9 for fuse; other values are clamped. Thread
 * safety: MT-Safe.
 */
const ROCKSDB_NAMESPACE::FilterPolicy *
NewFilterPolicy(double bits_per_key, BottomKind bottom = BottomKind::kBlocked);

/*
 * Creates the policy with this name: "bloomgate", which means "bloomgate:10"; "bloomgate:<bits>";
 * or "bloomgate:<bits>:<kind>". Errors: InvalidArgument, with the reason, for an invalid name;
 * *policy is then unchanged. Thread safety: MT-Safe.
 */
ROCKSDB_NAMESPACE::Status
MakeFilterPolicy(const std::string &name,
                 std::shared_ptr<const ROCKSDB_NAMESPACE::FilterPolicy> *policy);

/* Registers the names with a RocksDB object library. Done for ObjectLibrary::Default() when this
 * library is loaded. */
void RegisterFilterPolicy(ROCKSDB_NAMESPACE::ObjectLibrary *library);

} // namespace bloomgate

#endif
