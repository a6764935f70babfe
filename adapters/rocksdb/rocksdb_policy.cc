/*
 * rocksdb_policy.cc - the RocksDB filter policy: glue code only.
 *
 * Each table file has one builder. RocksDB passes keys and prefixes to the builder one by one, and
 * the builder hashes them immediately. The filter is laid out when the file (or a partition of its
 * filter) is complete. A reader is created for every filter block that is loaded into memory, and
 * queries the block in place; see sst_filter.h.
 *
 * Kinds. Static filters are smaller, but take several times as long to build, so they pay off where
 * files are long-lived. RocksDB reports the level of a file. Files on the bottommost level get
 * filters of the configured kind, and so do files whose level is unknown because they are written
 * for ingestion (SstFileWriter). All other files get blocked filters, with enough bits for the same
 * false-positive rate. The rate matters on every level, because a Get call queries all levels. The
 * extra bits cost little, because the upper levels hold few of the keys.
 *
 * Names. One factory handles "bloomgate" and "bloomgate:<anything>", so that invalid names get an
 * error message. The compatibility name, by which RocksDB finds filter blocks in files, contains
 * the layout version. The bits per key and the kind are not part of the name, because they are
 * stored in the filters.
 *
 * Thread safety: a policy is immutable. A builder is used by one thread; a reader can be used by
 * any number of threads.
 */
#include "bloomgate_rocksdb.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <rocksdb/table.h>
#include <rocksdb/utilities/object_registry.h>

#include "rocksdb_interface.h"
#include "sst_filter.h"

namespace bloomgate
{
namespace
{

namespace rocks = ROCKSDB_NAMESPACE;

constexpr char kName[] = "bloomgate";
constexpr char kCompatibilityName[] = "bloomgate.v1";
constexpr unsigned kLeastBits = 2000, kMostBits = 64000; /* thousandths of a bit */
constexpr unsigned kLeastFuseBits = 9000, kDefaultBits = 10000;

/* ---- Builders ------------------------------------------------------------------------ */

class Builder : public rocks::FilterBitsBuilder
{
  public:
    Builder(const SstShape *shape, SstKind kind, bool verify)
        : shape_(*shape), kind_(kind), verify_(verify)
    {
    }

    void AddKey(const rocks::Slice &key) override
    {
        if (finished_) { /* discard the old hashes, which were kept for verification */
            hashes_.Clear();
            finished_ = false;
        }
        hashes_.Add(HashKey(key.data(), key.size()));
    }

#if BLOOMGATE_ROCKSDB_HAS_ALT
    void AddKeyAndAlt(const rocks::Slice &key, const rocks::Slice &alt) override
    {
        AddKey(key);
        AddKey(alt);
    }
#endif

    size_t EstimateEntriesAdded() override
    {
        return finished_ ? 0 : hashes_.count();
    }

    rocks::Slice Finish(std::unique_ptr<const char[]> *buffer) override
    {
        return Finish(buffer, nullptr);
    }

    rocks::Slice Finish(std::unique_ptr<const char[]> *buffer,
                        rocks::Status *status) override
    {
        if (finished_) {
            hashes_.Clear();
        }
        const size_t bytes = shape_.LayOut(kind_, &hashes_, verify_, buffer);
        finished_ = verify_;
        if (status != nullptr) {
            *status = rocks::Status::OK();
        }
        return bytes == 0 ? rocks::Slice() : rocks::Slice(buffer->get(), bytes);
    }

    /* If detect_filter_construct_corruption is set, queries the filter for all keys that were
     * added. */
    rocks::Status MaybePostVerify(const rocks::Slice &content) override
    {
        if (!finished_) {
            return rocks::Status::OK();
        }
        SstAsked asked;
        bool whole = content.empty() || asked.Open(content.data(), content.size());
        for (size_t p = 0; p < hashes_.pieces() && whole; p++) {
            const uint64_t *hashes = hashes_.piece(p);
            whole = std::all_of(hashes, hashes + hashes_.piece_count(p),
                                [&](uint64_t hash) { return asked.MayMatch(hash); });
        }
        hashes_.Clear();
        finished_ = false;
        return whole ? rocks::Status::OK()
                     : rocks::Status::Corruption(
                         "bloomgate: the new filter answers \"no\" for a key that was "
                         "added");
    }

    size_t ApproximateNumEntries(size_t bytes) override
    {
        return shape_.Keys(bytes);
    }

#if BLOOMGATE_ROCKSDB_HAS_SPACE
    size_t CalculateSpace(size_t entries) override
    {
        return shape_.Bytes(entries);
    }
    double EstimatedFpRate(size_t entries, size_t bytes) override
    {
        return shape_.Rate(entries, bytes);
    }
#endif

  private:
    const SstShape shape_; /* a copy, because the policy may be deleted earlier */
    const SstKind kind_;
    const bool verify_;
    bool finished_ = false; /* whether the filter for hashes_ has been finished */
    HashPieces hashes_;
};

/* ---- Readers ------------------------------------------------------------------------- */

class Reader : public rocks::FilterBitsReader
{
  public:
    explicit Reader(const rocks::Slice &content)
    {
        (void)asked_.Open(content.data(),
                          content.size()); /* on failure, all answers are "maybe" */
    }

    bool MayMatch(const rocks::Slice &key) override
    {
        return asked_.MayMatch(HashKey(key.data(), key.size()));
    }

    void MayMatch(int count, rocks::Slice **keys, bool *may_match) override
    {
        uint64_t hashes[64];
        for (int begin = 0; begin < count; begin += 64) {
            const int n = std::min(64, count - begin);
            for (int i = 0; i < n; i++) {
                const rocks::Slice &key = *keys[begin + i];
                hashes[i] = HashKey(key.data(), key.size());
            }
            const uint64_t maybe = asked_.MayMatch64(hashes, static_cast<size_t>(n));
            for (int i = 0; i < n; i++) {
                may_match[begin + i] = (maybe >> i & 1) != 0;
            }
        }
    }

  private:
    SstAsked asked_;
};

/* ---- The policy ---------------------------------------------------------------------- */

struct Parsed {
    unsigned millibits = kDefaultBits;
    SstKind kind = SstKind::kBlocked;
};

struct NamedKind {
    const char *name;
    SstKind kind;
};
constexpr NamedKind kKinds[] = { { "blocked", SstKind::kBlocked },
                                 { "fuse", SstKind::kFuse },
                                 { "ribbon", SstKind::kRibbon } };

std::string BitsText(unsigned millibits)
{
    std::string text = std::to_string(millibits / 1000);
    if (millibits % 1000 != 0) {
        char digits[8];
        snprintf(digits, sizeof digits, ".%03u", millibits % 1000);
        text += digits;
        text.erase(text.find_last_not_of('0') + 1);
    }
    return text;
}

class Policy : public rocks::FilterPolicy
{
  public:
    explicit Policy(const Parsed &parsed)
        : shape_(parsed.millibits / 1000.0),
          above_(parsed.kind == SstKind::kBlocked
                     ? shape_
                     : SstShape(
                         SstShape::BlockedBits(parsed.kind, shape_.bits_per_key()))),
          kind_(parsed.kind), id_(kName)
    {
        id_ += ":" + BitsText(parsed.millibits);
        if (kind_ != SstKind::kBlocked) {
            id_ += std::string(":") + kKinds[static_cast<size_t>(kind_)].name;
        }
    }

    const char *Name() const override
    {
        return kName;
    }
    const char *CompatibilityName() const override
    {
        return kCompatibilityName;
    }
    std::string GetId() const override
    {
        return id_;
    }

    rocks::FilterBitsBuilder *
    GetBuilderWithContext(const rocks::FilterBuildingContext &context) const override
    {
        const bool to_be_ingested =
            context.level_at_creation < 0
            && context.reason == rocks::TableFileCreationReason::kMisc;
        const bool lasts = context.is_bottommost || to_be_ingested;
        return new Builder(lasts ? &shape_ : &above_, lasts ? kind_ : SstKind::kBlocked,
                           context.table_options.detect_filter_construct_corruption);
    }

    rocks::FilterBitsReader *
    GetFilterBitsReader(const rocks::Slice &content) const override
    {
        return new Reader(content);
    }

  private:
    const SstShape shape_; /* shape for the bottommost level */
    const SstShape above_; /* shape for all other levels */
    const SstKind kind_;
    std::string id_;
};

/* ---- Names --------------------------------------------------------------------------- */

/* Parses a number with at most three decimal places, independent of the locale. Returns false for
 * any other text. */
bool ParseBits(const std::string &text, unsigned *millibits)
{
    const size_t point = text.find('.');
    const std::string whole = text.substr(0, point);
    std::string part = point == std::string::npos ? "" : text.substr(point + 1);
    const auto digits = [](const std::string &s) {
        return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!digits(whole) || whole.size() > 3
        || (point != std::string::npos && (!digits(part) || part.size() > 3))) {
        return false;
    }
    part.resize(3, '0');
    *millibits = static_cast<unsigned>(std::stoul(whole) * 1000 + std::stoul(part));
    return true;
}

/* Parses a name. Returns an error message, or an empty string on success. */
std::string Parse(const std::string &name, Parsed *to)
{
    const size_t first = name.find(':');
    if (first == std::string::npos) {
        return "";
    }
    const size_t second = name.find(':', first + 1);
    const std::string bits = name.substr(
        first + 1, second == std::string::npos ? second : second - first - 1);
    const std::string kind =
        second == std::string::npos ? "blocked" : name.substr(second + 1);
    if (!ParseBits(bits, &to->millibits) || to->millibits < kLeastBits
        || to->millibits > kMostBits) {
        return "bloomgate:<bits>[:<kind>]: bits per key must be a number from 2 to "
               "64, with at most three decimals; found '"
               + bits + "'";
    }
    const auto *found =
        std::find_if(std::begin(kKinds), std::end(kKinds),
                     [&](const NamedKind &k) { return kind == k.name; });
    if (found == std::end(kKinds)) {
        return "bloomgate:<bits>[:<kind>]: kind must be blocked, fuse or ribbon; "
               "found '"
               + kind + "'";
    }
    to->kind = found->kind;
    if (to->kind == SstKind::kFuse && to->millibits < kLeastFuseBits) {
        return "bloomgate:<bits>:fuse: fuse requires at least 9 bits per key; found '"
               + bits + "'; use ribbon for fewer bits";
    }
    return "";
}

const rocks::FilterPolicy *Produce(const std::string &name,
                                   std::unique_ptr<const rocks::FilterPolicy> *guard,
                                   std::string *error)
{
    Parsed parsed;
    *error = Parse(name, &parsed);
    if (!error->empty()) {
        return nullptr;
    }
    guard->reset(new Policy(parsed));
    return guard->get();
}

/* The factory that RocksDB calls. If the name comes from an OPTIONS file, RocksDB discards the
 * error message and silently runs without a filter. The error is therefore also printed here. */
const rocks::FilterPolicy *
ProduceAloud(const std::string &name, std::unique_ptr<const rocks::FilterPolicy> *guard,
             std::string *error)
{
    const rocks::FilterPolicy *policy = Produce(name, guard, error);
    if (policy == nullptr) {
        fprintf(stderr, "%s\n", error->c_str());
    }
    return policy;
}

__attribute__((constructor)) void RegisterWhenLoaded()
{
    RegisterFilterPolicy(rocks::ObjectLibrary::Default().get());
}

} // namespace

const rocks::FilterPolicy *NewFilterPolicy(double bits_per_key, BottomKind bottom)
{
    Parsed parsed;
    parsed.kind = static_cast<SstKind>(bottom);
    const unsigned least = parsed.kind == SstKind::kFuse ? kLeastFuseBits : kLeastBits;
    const double wanted = bits_per_key * 1000 + 0.5;
    parsed.millibits = !(wanted > least)    ? least
                       : wanted > kMostBits ? kMostBits
                                            : static_cast<unsigned>(wanted);
    return new Policy(parsed);
}

rocks::Status MakeFilterPolicy(const std::string &name,
                               std::shared_ptr<const rocks::FilterPolicy> *policy)
{
    std::unique_ptr<const rocks::FilterPolicy> guard;
    std::string error;
    if (name != kName && name.compare(0, sizeof kName, std::string(kName) + ":") != 0) {
        return rocks::Status::InvalidArgument(
            "the name must be 'bloomgate' or start with 'bloomgate:'", name);
    }
    if (Produce(name, &guard, &error) == nullptr) {
        return rocks::Status::InvalidArgument(error, name);
    }
    policy->reset(guard.release());
    return rocks::Status::OK();
}

void RegisterFilterPolicy(rocks::ObjectLibrary *library)
{
    library->AddFactory<const rocks::FilterPolicy>(
        rocks::ObjectLibrary::PatternEntry(kName, true).AddSeparator(":", false),
        ProduceAloud);
}

} // namespace bloomgate
