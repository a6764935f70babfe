/*
 * bloomgate_leveldb.hpp - a LevelDB filter policy for C++ that uses Bloomgate filters.
 *
 *     leveldb::Options options;
 *     options.filter_policy = new bloomgate::LevelPolicy(10);   // bits per key
 *
 * The policy must outlive the database; LevelDB does not delete it. LevelDB packages are usually
 * built without RTTI. Code that derives from LevelDB's classes, such as a custom filter policy,
 * must then be compiled with -fno-rtti as well.
 *
 * Thread safety: the policy is immutable, so LevelDB may call it from any thread.
 */
#ifndef BLOOMGATE_LEVELDB_HPP
#define BLOOMGATE_LEVELDB_HPP

#include "bloomgate_leveldb.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>

namespace bloomgate
{

class LevelPolicy : public leveldb::FilterPolicy
{
  public:
    explicit LevelPolicy(uint32_t bits_per_key)
    {
        bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
        options.bits_per_key = bits_per_key;
        Create(options);
    }

    explicit LevelPolicy(const bg_leveldb_options &options)
    {
        Create(options);
    }

    ~LevelPolicy() override
    {
        bg_leveldb_codec_free(codec_);
    }

    LevelPolicy(const LevelPolicy &) = delete;
    LevelPolicy &operator=(const LevelPolicy &) = delete;

    /* Returns an empty string or, if the options are invalid, an error message. With
     * invalid options, no filters are built. */
    const std::string &error() const
    {
        return error_;
    }

    const char *Name() const override
    {
        return codec_ ? bg_leveldb_codec_name(codec_) : "bloomgate.none";
    }

    void CreateFilter(const leveldb::Slice *keys, int n,
                      std::string *dst) const override
    {
        if (!codec_ || n <= 0) {
            return;
        }
        std::vector<const char *> data;
        std::vector<size_t> lengths;
        for (int i = 0; i < n; i++) {
            data.push_back(keys[i].data());
            lengths.push_back(keys[i].size());
        }
        size_t bytes = 0;
        char *filter = bg_leveldb_codec_make(codec_, data.data(), lengths.data(),
                                             static_cast<size_t>(n), &bytes);
        if (bytes) {
            dst->append(filter, bytes);
        }
        std::free(filter);
    }

    bool KeyMayMatch(const leveldb::Slice &key,
                     const leveldb::Slice &filter) const override
    {
        return !codec_
               || bg_leveldb_codec_may_match(codec_, key.data(), key.size(),
                                             filter.data(), filter.size());
    }

  private:
    void Create(const bg_leveldb_options &options)
    {
        bg_errinfo why;
        if (bg_leveldb_codec_create(&options, &codec_, &why) != BG_OK) {
            error_ = why.message;
        }
    }

    bg_leveldb_codec *codec_ = nullptr;
    std::string error_;
};

} // namespace bloomgate

#endif
