/*
 * gate_life.c - creates and frees gates: checks the options and allocates the parts. The handle,
 * its counters and the write counters share one block of memory. The negative cache and the flights
 * have their own blocks.
 */
#define _GNU_SOURCE /* getrandom */

#include "base/monotonic.h"
#include "gate/gate_body.h"

#include <errno.h>
#include <sys/random.h>

const char *bg_outcome_name(bg_outcome outcome)
{
    switch (outcome) {
#define GATE_NAME(NAME, number, name)                                                  \
    case BG_OUTCOME_##NAME: return name;
        BG_OUTCOMES(GATE_NAME)
#undef GATE_NAME
    }
    return "unknown outcome";
}

static bg_err gate_check_options(const bg_gate_options *how, bg_errinfo *info)
{
    const uint32_t flags = BG_GATE_FAIL_CLOSED | BG_GATE_SINGLE_FLIGHT;
    if (how->struct_size != sizeof *how) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_gate_options): use BG_GATE_OPTIONS_INIT", "%u",
                       how->struct_size);
    }
    if (how->flags & ~flags) {
        return bgi_err(info, BG_EINVAL, "flags", "the flags of bg_gate_options", "0x%x",
                       how->flags);
    }
    if (how->reserved) {
        return bgi_err(info, BG_EINVAL, "reserved", "0", "%u", how->reserved);
    }
    if (!(how->audit >= 0 && how->audit <= 1)) {
        return bgi_err(info, BG_EINVAL, "audit", "a number from 0 to 1", "%g",
                       how->audit);
    }
    if (how->negative_key > BGI_RECENT_KEY_MAX) {
        return bgi_err(info, BG_EINVAL, "negative_key", "at most 65536 bytes", "%u",
                       how->negative_key);
    }
    return BG_OK;
}

static void gate_set_defaults(bg_gate_options *how)
{
    const uint64_t second = UINT64_C(1000000000);
    how->clock = how->clock ? how->clock : bgi_monotonic;
    how->negative_key = how->negative_key ? how->negative_key : 128;
    how->negative_ttl = how->negative_ttl ? how->negative_ttl : second;
    how->breaker_rest = how->breaker_rest ? how->breaker_rest : second;
}

/* Returns the threshold t for which a random 64-bit number is at most t with probability
 * `share`. */
static uint64_t gate_audit_most(double share)
{
    return share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1p63) * 2;
}

/* Generates a random secret, so that an attacker cannot predict a key's position in the tables or
 * which answers are audited. */
static bool gate_make_secret(bgi_siphash_key secret)
{
    size_t got = 0;
    while (got < sizeof(bgi_siphash_key)) {
        ssize_t n =
            getrandom((unsigned char *)secret + got, sizeof(bgi_siphash_key) - got, 0);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Allocates the handle, its counters and, if the gate audits answers, the write counters. Returns
 * NULL if out of memory. */
static bg_gate *gate_allocate(const bg_gate_options *how)
{
    const uint32_t lines = bgi_stripes();
    const size_t cells = how->audit > 0 ? GATE_WRITING : 0;
    const size_t counters = lines * sizeof(struct gate_line);
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, sizeof(bg_gate) + counters + cells * sizeof(uint32_t),
                         how->allocator, true)) {
        return NULL;
    }
    bg_gate *gate = memory.base;
    gate->memory = memory;
    gate->how = *how;
    gate->lines = (struct gate_line *)(void *)(gate + 1);
    gate->lines_count = lines;
    gate->writing = cells ? (_Atomic uint32_t *)(void *)(gate->lines + lines) : NULL;
    (void)pthread_mutex_init(&gate->lock, NULL);
    bgi_breaker_init(&gate->own_breaker, how->breaker_failures, how->breaker_rest);
    gate->breaker = how->breaker_of ? how->breaker_of->breaker : &gate->own_breaker;
    return gate;
}

/* Adds the optional parts of a gate. */
static bool gate_add_parts(bg_gate *gate)
{
    const bg_gate_options *how = &gate->how;
    if (how->negative_entries) {
        gate->recent = bgi_recent_create(how->negative_entries, how->negative_key,
                                         how->negative_ttl, how->allocator);
    }
    if (how->flags & BG_GATE_SINGLE_FLIGHT) {
        gate->flights = bgi_flights_create(how->allocator);
    }
    return (gate->recent || !how->negative_entries)
           && (gate->flights || !(how->flags & BG_GATE_SINGLE_FLIGHT));
}

bg_err bg_gate_create(bg_slot *slot, const bg_gate_options *options, bg_gate **gate,
                      bg_errinfo *info)
{
    static const bg_gate_options usual = BG_GATE_OPTIONS_INIT;
    bg_gate_options how = options ? *options : usual;
    bgi_err_clear(info);
    if (gate) {
        *gate = NULL;
    }
    if (!slot || !gate) {
        return bgi_err(info, BG_EINVAL, "slot, gate",
                       "a slot and a pointer to receive the gate", "NULL");
    }
    bg_err err = gate_check_options(&how, info);
    if (err) {
        return err;
    }
    gate_set_defaults(&how);
    bg_gate *made = gate_allocate(&how);
    if (!made || !gate_add_parts(made)) {
        bg_gate_free(made);
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the gate");
    }
    if (!gate_make_secret(made->secret)) {
        bg_gate_free(made);
        return bgi_err_state(info, BG_EIO, "getrandom",
                             "cannot read random bytes from the OS");
    }
    made->slot = slot;
    made->audits = how.audit > 0;
    made->plain = !made->audits && !how.trace;
    made->audit_most = gate_audit_most(how.audit);
    atomic_store(&made->bases, slot_bases(slot));
    *gate = made;
    return BG_OK;
}

void bg_gate_free(bg_gate *gate)
{
    if (gate) {
        bgi_recent_free(gate->recent);
        bgi_flights_free(gate->flights);
        (void)pthread_mutex_destroy(&gate->lock);
        struct bgi_memory memory = gate->memory;
        bgi_wipe(gate->secret, sizeof gate->secret);
        bgi_memory_give(&memory);
    }
}

bg_slot *bg_gate_slot(const bg_gate *gate)
{
    return gate ? gate->slot : NULL;
}
