/*
 * bloomgate_rocksdb.h - a RocksDB filter policy that uses Bloomgate filters.
 *
 *     rocksdb::BlockBasedTableOptions table;
 *     table.filter_policy.reset(bloomgate::NewFilterPolicy(10));
 *
 * Once libbloomgate_rocksdb.so is loaded (by linking or with LD_PRELOAD), you can also select a
 * policy by name, in an OPTIONS file or wherever RocksDB accepts a policy name:
 *
 *     filter_policy=bloomgate:10            blocked filters, 10 bits per key
 *     filter_policy=bloomgate:10:ribbon     the same, with ribbon filters in the bottommost level
 *     filter_policy=bloomgate:9.5:fuse      ... or fuse filters
 *
 * Every Bloomgate policy reads the filters of all other Bloomgate policies, regardless of the bits
 * per key and the kind. Unrecognized and damaged filters answer "maybe", so the block is read as it
 * would be without a filter. See docs/rocksdb.md.
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

/*
 * The kind of filters in the bottommost level. All other levels use blocked filters, which are
 * fast to build, because their files are short-lived.
 */
enum class BottomKind { kBlocked, kFuse, kRibbon };

/*
 * Creates a policy for RocksDB. The caller owns the policy, and usually passes ownership to the
 * table options. `bits_per_key` ranges from 2 to 64, or from 9 to 64 for fuse; other values are
 * clamped.
 * Thread safety: MT-Safe.
 */
const ROCKSDB_NAMESPACE::FilterPolicy *
NewFilterPolicy(double bits_per_key, BottomKind bottom = BottomKind::kBlocked);

/*
 * Creates the policy with the given name: "bloomgate" (the same as "bloomgate:10"),
 * "bloomgate:<bits>" or "bloomgate:<bits>:<kind>". Errors: InvalidArgument, with the reason, for
 * an invalid name; *policy is then unchanged. Thread safety: MT-Safe.
 */
ROCKSDB_NAMESPACE::Status
MakeFilterPolicy(const std::string &name,
                 std::shared_ptr<const ROCKSDB_NAMESPACE::FilterPolicy> *policy);

/*
 * Registers the policy names with a RocksDB object library. Loading this library registers them
 * with ObjectLibrary::Default().
 */
void RegisterFilterPolicy(ROCKSDB_NAMESPACE::ObjectLibrary *library);

} // namespace bloomgate

#endif
