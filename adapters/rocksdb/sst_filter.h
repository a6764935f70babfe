/*
 * sst_filter.h - the filter of a table file, built from hashes and queried in place.
 *
 * This file does not depend on RocksDB, so it can be tested and fuzzed separately. HashKey hashes
 * the keys of all filters in the same way; all other functions work on hashes.
 *
 * Layout, version 1 (little-endian):
 *
 *     [ zeros                    ]  up to 56 bytes, a multiple of 8
 *     [ packed filter            ]  bloomgate/packed.h: blocked, fuse or ribbon
 *     [ ways, 4 bits per group   ]  blocked: see below
 *     [ groups, 3 bytes          ]  0: hashes are used directly
 *     [ zeros, 1 byte            ]  the number of zeros at the start
 *     [ 1, the version           ]
 *     [ 'b' 'g' 'R'              ]
 *
 * Zeros. A line of the filter should not straddle two CPU cache lines. The address at which
 * RocksDB will store the block is not known, but an allocator tends to return blocks of the same
 * size at the same offset within a cache line (16 bytes after the start of a page in glibc). The
 * number of zeros is therefore chosen to suit the address at which the filter is laid out. If
 * RocksDB stores the block at a different offset, a query reads two cache lines instead of one.
 *
 * Balance. A blocked filter works best if its lines are evenly filled. With random placement, some
 * lines get many more keys than others, and have many more false positives. This can be avoided
 * because all keys are known when a filter is laid out. The lines are divided into groups of 16.
 * There are 16 ways to distribute a group's keys over its lines, and the way with the fewest false
 * positives is chosen. This choice avoids 6% of the false positives, at a cost of 1/4 bit per line
 * and one multiplication per lookup. Without balancing, a filter would have to be 1.2% larger for
 * the same rate.
 *
 *     hash x groups = [ group | rest ]            the two halves of one product
 *     place         = group x span + (turned x span >> 64)
 *
 * where span is 2^64 / groups, and `turned` is the rest, rotated left by 4 bits times the group's
 * way. Each way therefore uses 4 different bits of the rest to select the line. The number of
 * groups is odd, so all bits of the rest are as well distributed as the bits of the hash. A place
 * is used like a hash of the same group: its high bits select the line, and its low bits select the
 * bits within the line.
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

/* Returns the hash of a key: XXH3-64, seed 0. */
uint64_t HashKey(const char *data, size_t size);

/* The hashes of a future filter. They are stored in separate chunks, so that adding a hash never
 * copies existing hashes, and chunks can be freed one by one while the filter is laid out. A hash
 * that equals one of the last two hashes is dropped: the versions of a key arrive consecutively,
 * alternating with the key's prefix, and many consecutive keys share a prefix. */
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
            std::swap(last_[0], last_[1]); /* last_[0] is the more recent hash */
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

/* The parameters with which filters are laid out. Thread safety: immutable after creation. */
class SstShape
{
  public:
    explicit SstShape(double bits_per_key);

    /* Returns the number of bits per key, from `bits` to 64, at which a blocked filter has the same
     * false-positive rate as a filter of this kind with `bits` bits per key. */
    static double BlockedBits(SstKind kind, double bits);

    double bits_per_key() const
    {
        return bits_;
    }

    /* Bytes returns the size in bytes of a filter for this many keys. Keys returns the number of
     * keys that fit in a filter of this size. */
    size_t Bytes(size_t keys) const;
    size_t Keys(size_t bytes) const;
    /* Returns the false-positive rate of a blocked filter with this many keys and bytes. */
    double Rate(size_t keys, size_t bytes) const;

    /* Lays out a filter for these hashes. If no filter of this kind can be built from these hashes
     * with the given bits per key, lays out a blocked filter instead. Frees the hashes as it
     * proceeds, unless `keep` is set. Returns the number of bytes in *buffer, or 0 if there are no
     * hashes or memory runs out; a reader of an empty filter always answers "maybe". */
    size_t LayOut(SstKind kind, HashPieces *hashes, bool keep,
                  std::unique_ptr<const char[]> *buffer) const;

  private:
    size_t LayOutSealed(SstKind kind, HashPieces *hashes, bool keep,
                        std::unique_ptr<const char[]> *buffer) const;
    size_t LayOutBlocked(HashPieces *hashes, bool keep,
                         std::unique_ptr<const char[]> *buffer) const;
    size_t Lines(size_t keys) const;

    double bits_;
    uint32_t k_;               /* k of blocked filters */
    std::vector<float> price_; /* price of a line, indexed by its number of keys */
};

/* Maps hashes to their places in a blocked filter (see "Balance" above). */
struct SstPlaces {
    uint64_t groups = 0;                 /* 0 if each hash is used as its own place */
    uint64_t span = 0;                   /* size of a group */
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
 * A filter that can be queried. It refers to the caller's bytes, which must stay valid, and copies
 * them only if their address is not a multiple of 8, which is possible in a mapped file.
 * Thread safety: any number of threads may query the filter.
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

    /* Opens any bytes. Returns false if the bytes are not a filter of this format; all answers are
     * then "maybe". Call this function once per object. */
    bool Open(const char *data, size_t size);

    bool MayMatch(uint64_t hash) const;

    /* Queries up to 64 hashes, and returns one bit per hash. Modifies the hashes. */
    uint64_t MayMatch64(uint64_t *hashes, size_t count) const;

    bool copied() const
    {
        return copy_ != nullptr;
    }

  private:
    bg_packed *packed_ = nullptr;
    SstPlaces places_;
    const char *words_ = nullptr;
    size_t stride_ = 0; /* approximate size of a group in bytes */
    std::unique_ptr<uint64_t[]> copy_;
};

/* ---- Inline functions --------------------------------------------------------------- */

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

/* The line is known only after the group's 4-bit way has been loaded, but the page that contains
 * the line is known earlier. If the page has not been used for a while, translating its address
 * takes as long as loading the line, so a prefetch of the page starts the translation early. */
inline bool SstAsked::MayMatch(uint64_t hash) const
{
    __builtin_prefetch(words_ + SstHigh(hash, places_.groups) * stride_);
    return bg_packed_may_contain_hash(packed_, places_.Of(hash));
}

} // namespace bloomgate

#endif
