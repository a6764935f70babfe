/*
 * sst_filter.h - one filter of a table file: laid out from hashes, and asked where it lies.
 *
 * Knows nothing of RocksDB, so that it can be tested and fuzzed alone. Keys are hashed by
 * HashKey, for all filters alike; the rest is about hashes.
 *
 * Layout, version 1 (low bytes first):
 *
 *     [ zeros                    ]  up to 56 bytes, a multiple of 8
 *     [ packed filter            ]  bloomgate/packed.h: blocked, fuse or ribbon
 *     [ ways, 4 bits per group   ]  blocked: see below
 *     [ groups, 3 bytes          ]  0: hashes are used as they are
 *     [ zeros, 1 byte            ]  how many there are at the beginning
 *     [ 1, the version           ]
 *     [ 'b' 'g' 'R'              ]
 *
 * Zeros. A line should not straddle two lines of the processor's cache. Where in memory
 * RocksDB will put the block is not known, but memory of this size tends to begin at the same
 * place within a line whenever one allocator gives it (glibc: 16 bytes into a page), so the
 * memory that the filter is laid out in tells how many zeros are wanted. If it turns out
 * otherwise, two lines are read instead of one.
 *
 * Balance. A blocked filter is as good as its lines are evenly filled: by chance some get
 * many more keys than others, and these answer "maybe" far too often. Here all keys are
 * known when a filter is laid out, so the lines are taken in groups of 16, and for each
 * group that one of 16 ways to deal its keys to its lines is chosen which gives the fewest
 * false positives. That takes 6 % of them away, for 1/4 bit per line and one multiplication
 * per look-up: what a filter would have that is 1.2 % larger.
 *
 *     hash x groups = [ group | rest ]            the two halves of one product
 *     place         = group x span + (turned x span >> 64)
 *
 * with span = 2^64 / groups, and `turned` being the rest, rotated by 4 bits times what the
 * group has chosen: so the ways differ in which 4 bits of it name the line. The number of
 * groups is odd, which makes all bits of the rest as good as those of the hash. A place is a
 * hash again, in the same group: its high bits choose the line, its low bits the pattern.
 */
#ifndef SST_FILTER_H
#define SST_FILTER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bloomgate/hash.h"
#include "bloomgate/packed.h"

namespace bloomgate
{

enum class SstKind { kBlocked, kFuse, kRibbon };

/* The hash of a key: XXH3-64, seed 0. */
uint64_t HashKey(const char *data, size_t size);

/* Hashes of a filter to be, in pieces, so that growing copies none of them and laying out
 * can give each piece back. A hash that equals one of the last two is dropped: versions of
 * one key follow each other, with their prefix in between, which stays the same for many
 * keys. */
class HashPieces
{
  public:
    static constexpr size_t kPiece = 8192;

    void Add(uint64_t hash)
    {
        if (count_ != 0 && hash == last_[0]) {
            return;
        }
        if (count_ != 0 && hash == last_[1]) {
            std::swap(last_[0], last_[1]); /* the other one is older now */
            return;
        }
        if (count_ % kPiece == 0) {
            pieces_.emplace_back(new uint64_t[kPiece]);
        }
        pieces_.back()[count_ % kPiece] = hash;
        last_[1] = count_ != 0 ? last_[0] : hash;
        last_[0] = hash;
        count_++;
    }

    size_t count() const
    {
        return count_;
    }
    size_t pieces() const
    {
        return pieces_.size();
    }
    const uint64_t *piece(size_t i) const
    {
        return pieces_[i].get();
    }
    size_t piece_count(size_t i) const
    {
        return i + 1 < pieces_.size() ? kPiece : count_ - i * kPiece;
    }
    void Drop(size_t i)
    {
        pieces_[i].reset();
    }
    void Clear();

  private:
    std::vector<std::unique_ptr<uint64_t[]>> pieces_;
    uint64_t last_[2] = { 0, 0 };
    size_t count_ = 0;
};

/* What filters are wanted. Thread safety: const after it was made. */
class SstShape
{
  public:
    explicit SstShape(double bits_per_key);

    /* The bits per key with which blocked filters have the rate of that kind in `bits`, at
     * least as many and up to 64. */
    static double BlockedBits(SstKind kind, double bits);

    double bits_per_key() const
    {
        return bits_;
    }

    /* Bytes of a filter for so many keys, and the other way round. */
    size_t Bytes(size_t keys) const;
    size_t Keys(size_t bytes) const;
    /* The rate of a blocked filter of that size. */
    double Rate(size_t keys, size_t bytes) const;

    /* Lays out the filter of these hashes, or one of kind blocked when they are too few for
     * that kind in so many bits. The pieces are given back on the way, unless `keep`.
     * Returns the number of bytes in *buffer; 0, which any reader answers "maybe" for, when
     * there are no hashes or no memory. */
    size_t LayOut(SstKind kind, HashPieces *hashes, bool keep,
                  std::unique_ptr<const char[]> *buffer) const;

  private:
    size_t LayOutSealed(SstKind kind, HashPieces *hashes, bool keep,
                        std::unique_ptr<const char[]> *buffer) const;
    size_t LayOutBlocked(HashPieces *hashes, bool keep,
                         std::unique_ptr<const char[]> *buffer) const;
    size_t Lines(size_t keys) const;

    double bits_;
    uint32_t k_;               /* of blocked filters */
    std::vector<float> price_; /* of a line with so many keys */
};

/* Where hashes of a blocked filter are. */
struct SstPlaces {
    uint64_t groups = 0;                 /* 0: where they say themselves */
    uint64_t span = 0;                   /* of a group */
    const unsigned char *ways = nullptr; /* 4 bits per group */

    void Begin(uint64_t how_many, const unsigned char *of_groups)
    {
        groups = how_many;
        span = how_many != 0 ? UINT64_MAX / how_many : 0;
        ways = of_groups;
    }
    unsigned Way(uint64_t group) const;
    uint64_t Of(uint64_t hash) const;
};

/*
 * A filter that is being asked. It refers to the bytes, which must stay, and copies them
 * only where their address is not a multiple of 8, as it may be in a mapped file.
 * Thread safety: any number of threads may ask.
 */
class SstAsked
{
  public:
    SstAsked() = default;
    ~SstAsked()
    {
        bg_packed_free(packed_);
    }
    SstAsked(const SstAsked &) = delete;
    SstAsked &operator=(const SstAsked &) = delete;

    /* Any bytes will do. False when they are no filter of ours: then all answers are
     * "maybe". Once per object. */
    bool Open(const char *data, size_t size);

    bool MayMatch(uint64_t hash) const;

    /* The same for up to 64 hashes, one bit of the result each. Changes them. */
    uint64_t MayMatch64(uint64_t *hashes, size_t count) const;

    bool copied() const
    {
        return copy_ != nullptr;
    }

  private:
    bg_packed *packed_ = nullptr;
    SstPlaces places_;
    const char *words_ = nullptr;
    size_t stride_ = 0; /* bytes from group to group, about */
    std::unique_ptr<uint64_t[]> copy_;
};

/* ---- What is short enough to be here ------------------------------------------------ */

inline uint64_t SstHigh(uint64_t a, uint64_t b)
{
    __extension__ using wide = unsigned __int128;
    return static_cast<uint64_t>(static_cast<wide>(a) * b >> 64);
}

inline uint64_t SstTurn(uint64_t rest, unsigned way)
{
    const unsigned by = 4 * way;
    return rest << by | rest >> (-by & 63);
}

inline unsigned SstPlaces::Way(uint64_t group) const
{
    return ways[group / 2] >> group % 2 * 4 & 15;
}

inline uint64_t SstPlaces::Of(uint64_t hash) const
{
    if (groups == 0) {
        return hash;
    }
    const uint64_t group = SstHigh(hash, groups);
    return group * span + SstHigh(SstTurn(hash * groups, Way(group)), span);
}

/* The line is known only when the way of its group is. But the page that it is in is known
 * before, and if it has not been used for a while finding it takes as long as the line: so it
 * is asked for first. */
inline bool SstAsked::MayMatch(uint64_t hash) const
{
    __builtin_prefetch(words_ + SstHigh(hash, places_.groups) * stride_);
    return bg_packed_may_contain_hash(packed_, places_.Of(hash));
}

} // namespace bloomgate

#endif
