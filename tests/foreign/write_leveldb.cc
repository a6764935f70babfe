// Writes a database with the real LevelDB, at 10 bits per key: write_leveldb DIRECTORY KEYS
// plain|snappy
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

static void must(const leveldb::Status &status)
{
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    std::unique_ptr<const leveldb::FilterPolicy> policy(
        leveldb::NewBloomFilterPolicy(10));
    leveldb::Options options;
    options.create_if_missing = true;
    options.filter_policy = policy.get();
    options.max_file_size = 256 << 20; // so that all keys are in one file
    options.compression = std::string(argv[3]) == "snappy" ? leveldb::kSnappyCompression
                                                           : leveldb::kNoCompression;
    leveldb::DB *db = nullptr;
    must(leveldb::DB::Open(options, argv[1], &db));
    const long keys = std::strtol(argv[2], nullptr, 10);
    for (long i = 0; i < keys; i++) {
        char key[64];
        std::snprintf(key, sizeof key, "/a/rather/long/common/path/key%09ld", 2 * i);
        must(db->Put(leveldb::WriteOptions(), key, std::string(100, 'x')));
    }
    db->CompactRange(nullptr, nullptr);
    delete db;
    return 0;
}
