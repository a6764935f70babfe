// Writes a table file with the real RocksDB:
//   write_rocksdb FILE KEYS POLICY CHECKSUM VERSION
// POLICY, CHECKSUM and VERSION are, for example, bloomfilter:10 4 5. POLICY may start with
// "partitioned:".
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <cstdlib>
#include <string>

static void must(const rocksdb::Status &status)
{
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        return 2;
    }
    std::string policy = argv[3];
    rocksdb::BlockBasedTableOptions table;
    if (policy.rfind("partitioned:", 0) == 0) {
        policy = policy.substr(12);
        table.partition_filters = true;
        table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    }
    must(rocksdb::FilterPolicy::CreateFromString(rocksdb::ConfigOptions(), policy,
                                                 &table.filter_policy));
    table.checksum = static_cast<rocksdb::ChecksumType>(std::atoi(argv[4]));
    table.format_version = static_cast<uint32_t>(std::atoi(argv[5]));
    rocksdb::Options options;
    options.db_host_id = ""; // so that the file does not record where it was created
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    must(writer.Open(argv[1]));
    const long keys = std::strtol(argv[2], nullptr, 10);
    for (long i = 0; i < keys; i++) {
        char key[64];
        std::snprintf(key, sizeof key, "/a/rather/long/common/path/key%09ld", 2 * i);
        must(writer.Put(key, std::string(100, 'x')));
    }
    must(writer.Finish());
    return 0;
}
