/*
 * fuzz_sst_filter.cc - an input is a filter block as RocksDB passes it: arbitrary bytes at any
 * address, bytes with corrected magic bytes at the end, or a damaged filter. Queries never read
 * outside the block, and batches agree with single queries. Alternatively, the input is a list of
 * keys and a geometry. A filter built from the keys answers "maybe" for all of them, and a block
 * that cannot be opened answers "maybe" for every key.
 */
#include <cstdlib>
#include <cstring>
#include <memory>

#include "sst_filter.h"

extern "C" {
#include "fuzz.h"
#include "fuzz_input.h"
}

namespace
{

using bloomgate::HashPieces;
using bloomgate::SstAsked;
using bloomgate::SstKind;
using bloomgate::SstShape;

constexpr size_t kAsked = 40;

uint64_t Some(uint64_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u;
}

void Ask(const SstAsked &asked, bool opened, uint64_t seed)
{
    uint64_t hashes[kAsked], placed[kAsked];
    for (size_t i = 0; i < kAsked; i++) {
        hashes[i] = placed[i] = i == 0 ? UINT64_MAX : Some(seed + i);
    }
    const uint64_t maybe = asked.MayMatch64(placed, kAsked);
    for (size_t i = 0; i < kAsked; i++) {
        FUZZ_MUST(asked.MayMatch(hashes[i]) == ((maybe >> i & 1) != 0));
        FUZZ_MUST(opened || asked.MayMatch(hashes[i]));
    }
}

/* Opens a copy of the bytes that starts at `offset` in a buffer and ends with the buffer, so that
 * an overrun is detected. */
void OpenBytes(const unsigned char *bytes, size_t n, size_t offset)
{
    const std::unique_ptr<char[]> own(new char[n + offset]);
    if (n != 0) {
        memcpy(own.get() + offset, bytes, n);
    }
    SstAsked asked;
    const bool opened = asked.Open(own.get() + offset, n);
    Ask(asked, opened, n);
}

/* Writes the magic bytes of the block and of the packed filter inside it, so that both pass the
 * checks for them. */
void MakeGood(unsigned char *bytes, size_t n)
{
    static const unsigned char outer[] = { 1, 'b', 'g', 'R' },
                               inner[] = { 1, 'b', 'g' };
    if (n < 24) {
        return;
    }
    unsigned char *trailer = bytes + n - 8;
    memcpy(trailer + 4, outer, sizeof outer);
    trailer[1] = trailer[2] = trailer[3] = 0;
    trailer[0] &= 15;
    const size_t packed = n - 8 - (trailer[0] + 1u) / 2;
    memcpy(bytes + packed - 3, inner, sizeof inner);
}

/* Each shape (the geometry for a number of bits per key) is created only once, because planning it
 * takes longer than everything else. */
const SstShape &Shape(size_t which)
{
    static std::unique_ptr<const SstShape> shapes[16];
    if (shapes[which] == nullptr) {
        shapes[which].reset(new SstShape(2.0 + static_cast<double>(which)));
    }
    return *shapes[which];
}

void LayOutKeys(struct fuzz_input *in)
{
    const uint8_t what = fuzz_byte(in);
    const SstShape &shape = Shape(what % 16);
    const SstKind kind = static_cast<SstKind>(what / 16 % 3);
    const size_t few = fuzz_byte(in), random = few < 240 ? few / 8 : (few - 239) * 64;
    const size_t given = fuzz_byte(in) % 16;
    HashPieces hashes;
    for (size_t i = 0; i < random; i++) {
        hashes.Add(Some(i * 7));
    }
    for (size_t i = 0; i < given; i++) {
        hashes.Add(fuzz_u64(in));
    }
    std::unique_ptr<const char[]> block;
    const size_t n = shape.LayOut(kind, &hashes, true, &block);
    FUZZ_MUST((n == 0) == (hashes.count() == 0));
    SstAsked asked;
    FUZZ_MUST(asked.Open(block.get(), n) == (n != 0));
    for (size_t p = 0; p < hashes.pieces(); p++) {
        for (size_t i = 0; i < hashes.piece_count(p); i++) {
            FUZZ_MUST(asked.MayMatch(hashes.piece(p)[i]));
        }
    }
    Ask(asked, n != 0, n);
    if (n != 0) {
        /* A damaged filter can give any answer, but queries must not read outside the block. */
        std::unique_ptr<unsigned char[]> damaged(new unsigned char[n]);
        memcpy(damaged.get(), block.get(), n);
        for (unsigned i = 0; i < 3; i++) {
            const size_t far = fuzz_u32(in) % n;
            damaged[i == 0 ? n - 1 - far % 24 % n : far] = fuzz_byte(in);
        }
        OpenBytes(damaged.get(), n, what % 9);
        OpenBytes(damaged.get(), fuzz_u32(in) % n, 0);
    }
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint8_t mode = fuzz_byte(&in);
    if (mode % 4 == 3) {
        LayOutKeys(&in);
        return 0;
    }
    const size_t n = in.left;
    const std::unique_ptr<unsigned char[]> bytes(new unsigned char[n + 1]);
    fuzz_take(&in, bytes.get(), n);
    if (mode % 4 != 0) {
        MakeGood(bytes.get(), n);
    }
    OpenBytes(bytes.get(), n, mode / 4 % 9);
    return 0;
}
