// Uses the installed RocksDB adapter.
#include <bloomgate_rocksdb.h>

#include <rocksdb/convenience.h>
#include <rocksdb/table.h>

int main()
{
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(
        bloomgate::NewFilterPolicy(10, bloomgate::BottomKind::kRibbon));
    std::shared_ptr<const rocksdb::FilterPolicy> by_name;
    const rocksdb::Status made = rocksdb::FilterPolicy::CreateFromString(
        rocksdb::ConfigOptions(), "bloomgate:10:ribbon", &by_name);
    return made.ok() && by_name && by_name->GetId() == table.filter_policy->GetId() ? 0
                                                                                    : 1;
}
