/* consumer_leveldb.cc - uses the installed LevelDB adapter from C++ and from C with the same
 * database.
 * usage: consumer_leveldb DIRECTORY */
#include <bloomgate_leveldb.hpp>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <leveldb/db.h>

static bool FromCxx(const char *folder)
{
    bloomgate::LevelPolicy policy(10), refused(25);
    leveldb::Options options;
    leveldb::DB *opened = nullptr;
    options.create_if_missing = true;
    options.filter_policy = &policy;
    if (!policy.error().empty() || refused.error().empty()
        || !leveldb::DB::Open(options, folder, &opened).ok()) {
        return false;
    }
    std::unique_ptr<leveldb::DB> db(opened);
    for (int i = 0; i < 1000; i++) {
        if (!db->Put(leveldb::WriteOptions(), "key" + std::to_string(i), "value")
                 .ok()) {
            return false;
        }
    }
    db->CompactRange(nullptr, nullptr);
    std::string value;
    return db->Get(leveldb::ReadOptions(), "key17", &value).ok() && value == "value"
           && db->Get(leveldb::ReadOptions(), "key1000", &value).IsNotFound();
}

static bool FromC(const char *folder)
{
    char *error = nullptr;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_readoptions_t *read = leveldb_readoptions_create();
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    leveldb_options_set_filter_policy(options, policy);
    leveldb_t *db = leveldb_open(options, folder, &error);
    size_t bytes = 0;
    char *value = db ? leveldb_get(db, read, "key17", 5, &bytes, &error) : nullptr;
    char *none = db ? leveldb_get(db, read, "keyhole", 7, &bytes, &error) : nullptr;
    bool right = value && std::memcmp(value, "value", 5) == 0 && !none && !error;
    leveldb_free(value);
    leveldb_close(db);
    leveldb_filterpolicy_destroy(policy);
    leveldb_readoptions_destroy(read);
    leveldb_options_destroy(options);
    return right;
}

int main(int count, char **words)
{
    if (count != 2 || !FromCxx(words[1]) || !FromC(words[1])) {
        std::puts("a lookup in LevelDB with Bloomgate filters failed");
        return 1;
    }
    return 0;
}
