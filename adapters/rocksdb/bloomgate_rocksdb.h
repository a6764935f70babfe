/*
 * bloomgate_rocksdb.h - Bloomgate's filters inside of RocksDB.
 *
 *     rocksdb::BlockBasedTableOptions table;
 *     table.filter_policy.reset(bloomgate::NewFilterPolicy(10));
 *
 * or by name, in an OPTIONS file or wherever RocksDB takes the name of a policy, once
 * libbloomgate_rocksdb.so is loaded (linked, or by LD_PRELOAD):
 *
 *     filter_policy=bloomgate:10            blocked filters, 10 bits per key
 *     filter_policy=bloomgate:10:ribbon     the same, and ribbon in the bottommost level
 *     filter_policy=bloomgate:9.5:fuse      ... or fuse
 *
 * Any bloomgate policy reads the filters of any other, whatever bits and kind. Filters that
 * it does not know, and damaged ones, answer "maybe": the block is read, as it would be
 * without a filter. docs/rocksdb.md says more.
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

/* What filters of the bottommost level are. All other levels have blocked ones, which are
 * quick to make: files there do not live long. */
enum class BottomKind { kBlocked, kFuse, kRibbon };

/*
 * A policy for RocksDB, to be deleted by the caller, as a rule by the table options that it
 * is given to. `bits_per_key` is 2 to 64, for fuse at least 9; values outside are taken for
 * the nearest inside.
 * Thread safety: MT-Safe.
 */
const ROCKSDB_NAMESPACE::FilterPolicy *
NewFilterPolicy(double bits_per_key, BottomKind bottom = BottomKind::kBlocked);

/*
 * The policy of that name: "bloomgate", which is "bloomgate:10", "bloomgate:<bits>",
 * "bloomgate:<bits>:<kind>".
 * Errors: InvalidArgument says what is wrong with the name. *policy is unchanged then.
 * Thread safety: MT-Safe.
 */
ROCKSDB_NAMESPACE::Status
MakeFilterPolicy(const std::string &name,
                 std::shared_ptr<const ROCKSDB_NAMESPACE::FilterPolicy> *policy);

/* Makes the names known to a library of RocksDB's; done for ObjectLibrary::Default() when
 * this library is loaded. */
void RegisterFilterPolicy(ROCKSDB_NAMESPACE::ObjectLibrary *library);

} // namespace bloomgate

#endif
