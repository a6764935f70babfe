/*
 * sst_filter.cc - lays out and opens the filters of table files.
 *
 * Invariants
 *   (I1) A filter answers "maybe" for every hash it was built from.
 *   (I2) Open() accepts arbitrary bytes. If they are not a valid filter, all answers are "maybe".
 *   (I3) All places (see sst_filter.h) in a group are below the places in the next group, so
 *        adjacent groups share at most one line. packed.h treats a place like any other hash.
 *
 * The price of a line is its false-positive rate, given that each of its n keys has set one bit in
 * each of k lanes. A line has 8 lanes of 64 bits or 16 lanes of 32 bits.
 */
#include "sst_filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bloomgate/builder.h"
#include "bloomgate/filter.h"
#include "bloomgate/hasher.h"
#include "bloomgate/inspect.h"
#include "bloomgate/plan.h"

namespace bloomgate
{

namespace
{

constexpr size_t kTrailer = 8;
constexpr size_t kLineBytes = 64;
constexpr size_t kGroupLines = 16;
constexpr size_t kEvenLines =
    1024; /* with at least this many lines, groups have exactly 16 lines */
constexpr size_t kAlignedFrom = 128
                                << 10; /* filters of at least this size are aligned */
constexpr uint64_t kMostGroups = 0xffffff;
constexpr size_t kPriced =
    512; /* size of the price table; its last price applies to all fuller lines */
constexpr unsigned char kVersion = 1;
constexpr unsigned char kMark[3] = { 'b', 'g', 'R' };

struct FilterFree {
    void operator()(bg_filter *filter) const
    {
        bg_filter_free(filter);
    }
    void operator()(bg_builder *builder) const
    {
        bg_builder_free(builder);
    }
};
using FilterPointer = std::unique_ptr<bg_filter, FilterFree>;
using BuilderPointer = std::unique_ptr<bg_builder, FilterFree>;

const bg_hasher &Hasher()
{
    static const bg_hasher hasher = [] {
        bg_hasher made;
        bg_hash_spec spec = {};
        spec.profile = BG_HASH_FAST;
        if (bg_hasher_init(&made, &spec, nullptr) != BG_OK) {
            abort(); /* the default profile always exists */
        }
        return made;
    }();
    return hasher;
}

/* ---- The bytes before and after a packed filter ------------------------------------ */

void PutTrailer(unsigned char *to, uint64_t groups, size_t zeros)
{
    for (unsigned i = 0; i < 3; i++) {
        to[i] = static_cast<unsigned char>(groups >> 8 * i);
    }
    to[3] = static_cast<unsigned char>(zeros);
    to[4] = kVersion;
    memcpy(to + 5, kMark, sizeof kMark);
}

/* Returns the number of groups, which is odd. A filter of fewer than 32 lines is a single group.
 * Otherwise, a group has about 11 to 21 lines, or exactly 16 if there are at least kEvenLines
 * lines. */
uint64_t Groups(size_t lines)
{
    return lines / kGroupLines | 1;
}

size_t WayBytes(uint64_t groups)
{
    return static_cast<size_t>((groups + 1) / 2);
}

/* Writes the packed filter, the ways and the trailer to a buffer allocated with new[], as RocksDB
 * expects. */
size_t Pack(const bg_filter *filter, uint64_t groups,
            const std::vector<unsigned char> &ways,
            std::unique_ptr<const char[]> *buffer)
{
    size_t packed = 0;
    if (bg_packed_encode(filter, nullptr, 0, &packed, nullptr) != BG_OK) {
        return 0;
    }
    const size_t most = packed >= kAlignedFrom ? kLineBytes - 8 : 0;
    std::unique_ptr<char[]> block(new char[most + packed + ways.size() + kTrailer]);
    const size_t zeros =
        std::min(most, -reinterpret_cast<uintptr_t>(block.get()) % kLineBytes);
    char *at = block.get() + zeros;
    memset(block.get(), 0, zeros);
    if (bg_packed_encode(filter, at, packed, &packed, nullptr) != BG_OK) {
        return 0;
    }
    at += packed;
    if (!ways.empty()) {
        memcpy(at, ways.data(), ways.size());
        at += ways.size();
    }
    PutTrailer(reinterpret_cast<unsigned char *>(at), groups, zeros);
    const size_t all = static_cast<size_t>(at - block.get()) + kTrailer;
    *buffer = std::move(block);
    return all;
}

/* ---- Balance ------------------------------------------------------------------------- */

/* The hashes of a filter, sorted by group. */
struct Grouped {
    std::unique_ptr<uint64_t[]> hashes;
    size_t count = 0;
    std::vector<size_t> ends; /* end index of each group in `hashes` */
};

void Group(HashPieces *from, bool keep, uint64_t groups, Grouped *to)
{
    to->hashes.reset(new uint64_t[from->count()]); /* not zeroed */
    to->count = from->count();
    to->ends.assign(groups + 1, 0);
    for (size_t p = 0; p < from->pieces(); p++) {
        for (size_t i = 0; i < from->piece_count(p); i++) {
            to->ends[SstHigh(from->piece(p)[i], groups) + 1]++;
        }
    }
    for (size_t g = 0; g < groups; g++) {
        to->ends[g + 1] += to->ends[g];
    }
    for (size_t p = 0; p < from->pieces(); p++) {
        for (size_t i = 0; i < from->piece_count(p); i++) {
            const uint64_t hash = from->piece(p)[i];
            to->hashes[to->ends[SstHigh(hash, groups)]++] = hash;
        }
        if (!keep) {
            from->Drop(p);
        }
    }
}

/* Finds the way to distribute a group's keys over its lines that has the lowest total price. */
class Balance
{
  public:
    Balance(uint64_t groups, uint64_t lines, const std::vector<float> &price)
        : groups_(groups), lines_(lines), span_(UINT64_MAX / groups), price_(price)
    {
    }

    unsigned Best(uint64_t group, const uint64_t *hashes, size_t count)
    {
        rests_.resize(count);
        for (size_t i = 0; i < count; i++) {
            rests_[i] = hashes[i] * groups_;
        }
        unsigned best = 0;
        float least = Price(group, 0);
        for (unsigned i = 1; i < 16; i++) {
            const float price = Price(group, i);
            if (price < least) {
                least = price;
                best = i;
            }
        }
        return best;
    }

  private:
    /* Computes the total price of a group's lines if its keys are distributed as `way` specifies.
     * Positions are in units of 1/2^24 of a line, which is precise enough for computing the
     * price, but not for placing keys. */
    float Price(uint64_t group, unsigned way)
    {
        uint16_t loads[2 * kGroupLines] = { 0 };
        const uint64_t begin = group * span_ * lines_ >> 40;
        const uint64_t wide = SstHigh(span_, lines_ << 24);
        for (const uint64_t rest : rests_) {
            loads[(begin + ((SstTurn(rest, way) >> 40) * wide >> 24)) >> 24
                  & (2 * kGroupLines - 1)]++;
        }
        float sum = 0;
        for (const uint16_t load : loads) {
            sum += price_[load < kPriced ? load : kPriced - 1];
        }
        return sum;
    }

    const uint64_t groups_, lines_, span_;
    const std::vector<float> &price_;
    std::vector<uint64_t> rests_;
};

/* Maps each hash to its place, and adds the place to the filter. */
void AddPlaced(bg_filter *filter, const SstPlaces &places, const Grouped &grouped)
{
    uint64_t placed[512];
    for (size_t i = 0; i < grouped.count;) {
        const size_t n = std::min(std::size(placed), grouped.count - i);
        for (size_t j = 0; j < n; j++) {
            placed[j] = places.Of(grouped.hashes[i + j]);
        }
        /* Bloom filters accept every key, so this call cannot fail. */
        (void)!bg_filter_add_many(filter, bg_keys_hashes(placed, n), nullptr, nullptr,
                                  nullptr);
        i += n;
    }
}

/* ---- Static kinds -------------------------------------------------------------------- */

/* Fills in the spec of the best filter of this static kind that fits in `bytes` bytes. Returns
 * false if there is no such filter. */
bool SealedSpec(SstKind kind, size_t keys, size_t bytes, bg_spec *spec)
{
    struct Choice {
        uint32_t k, width;
    };
    static const Choice fuse[] = { { 32, 3 }, { 32, 4 }, { 16, 3 },
                                   { 16, 4 }, { 8, 3 },  { 8, 4 } };
    bg_plan_request request = bg_plan_request_default();
    bg_plan plan;
    bg_spec &s = request.spec;
    s.items = keys;
    s.kind = kind == SstKind::kFuse ? BG_KIND_FUSE : BG_KIND_RIBBON;
    const auto fits = [&](uint32_t k, uint32_t width) {
        s.k = k;
        s.width = width;
        s.rate = std::ldexp(1.0, -static_cast<int>(k));
        return static_cast<double>(k) * static_cast<double>(keys)
                   <= 8.0 * static_cast<double>(bytes)
               && bg_plan_compute(&request, &plan, nullptr) == BG_OK
               && plan.bytes <= bytes;
    };
    bool found = false;
    if (kind == SstKind::kFuse) {
        for (const Choice &choice : fuse) {
            found = found || fits(choice.k, choice.width);
        }
    } else {
        const size_t most = std::min<size_t>(32, 8 * bytes / keys);
        for (size_t k = most; k > 0 && k + 3 > most && !found; k--) {
            found = fits(static_cast<uint32_t>(k), 0);
        }
    }
    *spec = s;
    return found;
}

} // namespace

uint64_t HashKey(const char *data, size_t size)
{
    return bg_hash_bytes(&Hasher(), data, size);
}

void HashPieces::Clear()
{
    pieces_.clear();
    count_ = 0;
}

/* ---- Shapes -------------------------------------------------------------------------- */

SstShape::SstShape(double bits_per_key) : bits_(bits_per_key), k_(6), price_(kPriced)
{
    bg_plan_request request = bg_plan_request_default();
    bg_plan plan;
    request.spec.kind = BG_KIND_BLOCKED;
    request.spec.items = 1000000;
    request.spec.bits_per_key = bits_;
    if (bg_plan_compute(&request, &plan, nullptr) == BG_OK) {
        k_ = plan.k;
    }
    const double lanes = k_ <= 8 ? 8 : 16, lane_bits = 512 / lanes, k = k_;
    for (size_t n = 0; n < kPriced; n++) {
        const double free =
            std::pow(1 - 1 / lane_bits, k / lanes * static_cast<double>(n));
        price_[n] = static_cast<float>(std::pow(1 - free, k));
    }
}

double SstShape::BlockedBits(SstKind kind, double bits)
{
    constexpr size_t keys = 1000000;
    bg_plan_request request = bg_plan_request_default();
    bg_plan plan;
    bg_spec sealed;
    if (kind == SstKind::kBlocked
        || !SealedSpec(kind, keys, static_cast<size_t>(keys * bits / 8), &sealed)) {
        return bits;
    }
    request.spec.kind = BG_KIND_BLOCKED;
    request.spec.items = keys;
    request.spec.rate = sealed.rate;
    if (bg_plan_compute(&request, &plan, nullptr) != BG_OK) {
        return 64; /* no blocked filter achieves this rate */
    }
    return std::min(64.0, std::max(bits, plan.bits_per_key));
}

size_t SstShape::Lines(size_t keys) const
{
    const double bytes = static_cast<double>(keys) * bits_ / 8 - 2 * kTrailer;
    const double lines = std::ceil(bytes / (kLineBytes + 0.5 / kGroupLines));
    if (lines < kEvenLines) {
        return lines < 1 ? 1 : static_cast<size_t>(lines);
    }
    /* Round to an odd number of whole groups, because groups that end at line boundaries are better
     * balanced. */
    return (2 * static_cast<size_t>(lines / (2 * kGroupLines)) + 1) * kGroupLines;
}

size_t SstShape::Bytes(size_t keys) const
{
    const size_t lines = Lines(keys);
    return lines * kLineBytes + WayBytes(Groups(lines)) + 2 * kTrailer;
}

size_t SstShape::Keys(size_t bytes) const
{
    const double keys = 8.0 * static_cast<double>(bytes) / bits_;
    return keys < 1 ? 1 : static_cast<size_t>(keys);
}

double SstShape::Rate(size_t keys, size_t bytes) const
{
    const double rate =
        bg_predict_rate(BG_KIND_BLOCKED, bytes / kLineBytes * kLineBytes, k_,
                        std::max<size_t>(1, keys));
    return rate >= 0 ? rate : 1;
}

size_t SstShape::LayOut(SstKind kind, HashPieces *hashes, bool keep,
                        std::unique_ptr<const char[]> *buffer) const
{
    size_t bytes = 0;
    if (hashes->count() != 0 && kind != SstKind::kBlocked) {
        bytes = LayOutSealed(kind, hashes, keep, buffer);
    }
    if (hashes->count() != 0 && bytes == 0) {
        bytes = LayOutBlocked(hashes, keep, buffer);
    }
    if (!keep) {
        hashes->Clear();
    }
    return bytes;
}

size_t SstShape::LayOutSealed(SstKind kind, HashPieces *hashes, bool keep,
                              std::unique_ptr<const char[]> *buffer) const
{
    bg_spec spec;
    bg_builder *builder = nullptr;
    bg_filter *filter = nullptr;
    const double room = static_cast<double>(hashes->count()) * bits_ / 8;
    if (!SealedSpec(kind, hashes->count(), static_cast<size_t>(room), &spec)
        || bg_builder_create(&spec, &builder, nullptr) != BG_OK) {
        return 0;
    }
    const BuilderPointer builder_owner(builder);
    for (size_t p = 0; p < hashes->pieces(); p++) {
        if (bg_builder_add_many(
                builder, bg_keys_hashes(hashes->piece(p), hashes->piece_count(p)))
            != BG_OK) {
            return 0;
        }
    }
    (void)keep; /* the hashes are always kept, in case finishing the filter fails */
    if (bg_builder_finish(builder, &filter, nullptr) != BG_OK) {
        return 0;
    }
    const FilterPointer filter_owner(filter);
    return Pack(filter, 0, {}, buffer);
}

size_t SstShape::LayOutBlocked(HashPieces *hashes, bool keep,
                               std::unique_ptr<const char[]> *buffer) const
{
    const size_t lines = Lines(hashes->count());
    const uint64_t groups = Groups(lines);
    bg_spec spec = bg_spec_default();
    bg_filter *filter = nullptr;
    spec.kind = BG_KIND_BLOCKED;
    spec.flags = BG_SPEC_EXCLUSIVE;
    spec.bytes = lines * kLineBytes;
    spec.k = k_;
    if (groups > kMostGroups || bg_filter_create(&spec, &filter, nullptr) != BG_OK) {
        return 0;
    }
    const FilterPointer filter_owner(filter);
    Grouped grouped;
    Group(hashes, keep, groups, &grouped);
    std::vector<unsigned char> ways(WayBytes(groups), 0);
    Balance balance(groups, lines, price_);
    for (size_t g = 0, begin = 0; g < groups; begin = grouped.ends[g++]) {
        const unsigned best =
            balance.Best(g, grouped.hashes.get() + begin, grouped.ends[g] - begin);
        ways[g / 2] = static_cast<unsigned char>(ways[g / 2] | best << g % 2 * 4);
    }
    SstPlaces places;
    places.Begin(groups, ways.data());
    AddPlaced(filter, places, grouped);
    return Pack(filter, groups, ways, buffer);
}

/* ---- Queries ------------------------------------------------------------------------- */

bool SstAsked::Open(const char *data, size_t size)
{
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(data);
    if (size < kTrailer || bytes[size - 4] != kVersion
        || memcmp(bytes + size - 3, kMark, sizeof kMark) != 0) {
        return false;
    }
    const unsigned char *trailer = bytes + size - kTrailer;
    const uint64_t groups = trailer[0] | static_cast<uint64_t>(trailer[1]) << 8
                            | static_cast<uint64_t>(trailer[2]) << 16;
    const size_t zeros = trailer[3];
    if (zeros % 8 != 0 || WayBytes(groups) + zeros > size - kTrailer) {
        return false;
    }
    const size_t packed = size - kTrailer - WayBytes(groups) - zeros;
    words_ = data + zeros;
    if (reinterpret_cast<uintptr_t>(data) % BG_PACKED_ALIGNMENT != 0) {
        copy_.reset(new uint64_t[packed / 8 + 1]);
        memcpy(copy_.get(), words_, packed);
        words_ = reinterpret_cast<const char *>(copy_.get());
    }
    if (bg_packed_open(words_, packed, &packed_, nullptr) != BG_OK) {
        copy_.reset();
        return false;
    }
    places_.Begin(groups, bytes + zeros + packed);
    stride_ = packed / std::max<uint64_t>(1, groups);
    return true;
}

uint64_t SstAsked::MayMatch64(uint64_t *hashes, size_t count) const
{
    uint64_t maybe = 0;
    for (size_t i = 0; i < count; i++) {
        hashes[i] = places_.Of(hashes[i]);
    }
    (void)bg_packed_may_contain_hashes(packed_, hashes, count, &maybe);
    return maybe;
}

} // namespace bloomgate
