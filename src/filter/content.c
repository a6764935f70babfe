#include "filter/content.h"

#include "base/checked.h"
#include "base/errinfo.h"

/* ---- Recipes --------------------------------------------------------------------- */

/* Flags that are part of a filter's shape. The process that opens the filter chooses all other
 * flags. */
enum { CONTENT_FLAGS = BG_SPEC_SCATTERED | BG_SPEC_ONE_WINNER };

void bgi_recipe_of(const bg_filter *filter, struct bgi_recipe *recipe)
{
    *recipe = (struct bgi_recipe){ .kind = filter->kind->id,
                                   .flags = filter->flags & CONTENT_FLAGS,
                                   .width = filter->kind->width,
                                   .k = filter->core.k,
                                   .units = filter->core.units,
                                   .items = filter->design_items,
                                   .rate = filter->design_rate };
    recipe->flags |= filter->kind->flags;
    if (filter->kind->composed) {
        filter->kind->composed->recipe(filter, recipe);
        recipe->items = filter->design_items;
    }
}

bg_err bgi_recipe_plain(const struct bgi_kind *kind, uint64_t units, uint32_t k,
                        struct bgi_geometry *geometry)
{
    *geometry = (struct bgi_geometry){ .kind = kind, .k = k, .units = units };
    bool exists = !kind->composed && k >= kind->k_min && k <= kind->k_max
                  && kind->unit_bytes(k) != 0 && units > 0 && units <= kind->units_max
                  && (!kind->round_units || kind->round_units(units, k) == units);
    return exists ? BG_OK : BG_EFORMAT;
}

static bg_err recipe_refuse(const struct bgi_recipe *r, bg_errinfo *info)
{
    return bgi_err_state(
        info, BG_EFORMAT, "kind, width, k, units",
        "the filter's parameters are invalid or do not match the size of the data (kind %u, width %u, k %u, size %llu)",
        r->kind, r->width, r->k, (unsigned long long)r->units);
}

static bg_err recipe_make_plain(const struct bgi_recipe *recipe, const bg_spec *spec,
                                const bg_hasher *hasher, uint64_t room,
                                bg_filter **filter, bg_errinfo *info)
{
    const struct bgi_kind *kind = bgi_kind_variant((bg_kind)recipe->kind, recipe->width,
                                                   recipe->flags & BG_SPEC_SCATTERED);
    struct bgi_geometry g;
    uint64_t bytes;
    if (!kind || bgi_recipe_plain(kind, recipe->units, recipe->k, &g) != BG_OK
        || !bgi_geometry_bytes(&g, &bytes) || bytes > room) {
        return recipe_refuse(recipe, info);
    }
    g.items = recipe->items;
    g.target = recipe->rate;
    return bgi_filter_make(&g, spec, hasher, filter, info);
}

bg_err bgi_recipe_make(const struct bgi_recipe *recipe, const bg_spec *spec,
                       const bg_hasher *hasher, uint64_t room, bg_filter **filter,
                       bg_errinfo *info)
{
    const struct bgi_kind *kind = bgi_kind_of((bg_kind)recipe->kind);
    const struct bgi_composed *composed = recipe->shards ? bgi_sharded()
                                          : kind         ? kind->composed
                                                         : NULL;
    bg_spec how = *spec;
    *filter = NULL;
    if (!kind || recipe->flags & ~(uint32_t)CONTENT_FLAGS || !(recipe->rate >= 0)
        || recipe->rate > 1) {
        return recipe_refuse(recipe, info);
    }
    how.flags |= recipe->flags;
    return composed ? composed->remake(recipe, &how, hasher, room, filter, info)
                    : recipe_make_plain(recipe, &how, hasher, room, filter, info);
}

/* ---- Nodes ----------------------------------------------------------------------- */

static bg_filter *content_part(const bg_filter *filter, uint32_t i)
{
    const struct bgi_composed *composed = filter->kind->composed;
    bg_filter *const *part =
        composed && composed->part ? composed->part(filter, i) : NULL;
    return part ? *part : NULL;
}

/* Writes the numbers of a single node, excluding its parts, to `to` unless `to` is NULL. Returns
 * how many numbers the node has. */
static uint64_t content_own(const bg_filter *filter, uint64_t *to)
{
    const struct bgi_composed *composed = filter->kind->composed;
    if (composed) {
        return composed->numbers ? composed->numbers(filter, to) : 0;
    }
    return filter->kind->numbers ? filter->kind->numbers(&filter->core, to) : 0;
}

uint64_t bgi_content_numbers(const bg_filter *filter, uint64_t *to)
{
    uint64_t n = 1 + content_own(filter, to ? to + 1 : NULL);
    bg_filter *part;
    if (to) {
        *to = n - 1;
    }
    for (uint32_t i = 0; (part = content_part(filter, i)) != NULL; i++) {
        n += bgi_content_numbers(part, to ? to + n : NULL);
    }
    return n;
}

bool bgi_content_each(const bg_filter *filter, bgi_content_visit *visit, void *context)
{
    bg_filter *part = content_part(filter, 0);
    if (!part) {
        return visit(context, (bg_filter *)(uintptr_t)filter);
    }
    for (uint32_t i = 0; part; part = content_part(filter, ++i)) {
        if (!bgi_content_each(part, visit, context)) {
            return false;
        }
    }
    return true;
}

bool bgi_content_is_steady(const bg_filter *filter)
{
    const bg_filter *part = filter->shards ? content_part(filter, 0) : filter;
    const uint32_t bloom = BGI_BLOOM_TRAITS, traits = part->kind->traits;
    return !part->kind->composed
           && ((traits & bloom) == bloom || traits & BG_TRAIT_STATIC);
}

/* ---- External words --------------------------------------------------------------- */

uint64_t bgi_content_place(bg_filter *filter, unsigned char *words, uint64_t line)
{
    uint64_t bytes = 0;
    bg_filter *part = content_part(filter, 0);
    filter->flags &= ~(uint32_t)BGI_BARE;
    if (!part) {
        filter->core.words = words;
        return (filter->bytes + line - 1) / line * line;
    }
    for (uint32_t i = 0; part; part = content_part(filter, ++i)) {
        bytes += bgi_content_place(part, words + bytes, line);
    }
    return bytes;
}

/* ---- Restoring -------------------------------------------------------------------- */

/* The numbers that have not been read yet. */
struct content_rest {
    const uint64_t *numbers;
    uint64_t n;
    uint64_t room; /* size of the unassigned words in bytes */
};

/* Reads the numbers of the next node. Returns false if the input ends too early. */
static bool content_next(struct content_rest *rest, struct content_rest *node)
{
    if (rest->n == 0 || *rest->numbers > rest->n - 1) {
        return false;
    }
    node->n = *rest->numbers;
    node->numbers = rest->numbers + 1;
    rest->numbers += 1 + node->n;
    rest->n -= 1 + node->n;
    return true;
}

static bg_err content_parts(bg_filter *filter, struct content_rest *rest)
{
    const struct bgi_composed *composed = filter->kind->composed;
    struct content_rest node;
    bg_filter *part;
    bg_err err = BG_OK;
    if (!content_next(rest, &node)) {
        return BG_EFORMAT;
    }
    if (composed && composed->restore) {
        err = composed->restore(filter, node.numbers, node.n, rest->room);
    } else if (node.n != content_own(filter, NULL)) {
        err = BG_EFORMAT;
    }
    if (err) {
        return err;
    }
    if (!content_part(filter, 0)) {
        rest->room -= filter->bytes < rest->room ? filter->bytes : rest->room;
    }
    for (uint32_t i = 0; !err && (part = content_part(filter, i)) != NULL; i++) {
        err = content_parts(part, rest);
    }
    return err;
}

bg_err bgi_content_restore_parts(bg_filter *filter, const uint64_t *numbers, uint64_t n,
                                 uint64_t room)
{
    struct content_rest rest = { numbers, n, room };
    const bg_err err = content_parts(filter, &rest);
    return err || rest.n == 0 ? err : BG_EFORMAT;
}

static bool content_state(bg_filter *filter, struct content_rest *rest)
{
    const struct bgi_kind *kind = filter->kind;
    struct content_rest node;
    bg_filter *part;
    if (!content_next(rest, &node)) {
        return false;
    }
    if (!kind->composed && kind->restore
        && !kind->restore(&filter->core, node.numbers)) {
        return false;
    }
    for (uint32_t i = 0; (part = content_part(filter, i)) != NULL; i++) {
        if (!content_state(part, rest)) {
            return false;
        }
    }
    return true;
}

bool bgi_content_restore_state(bg_filter *filter, const uint64_t *numbers, uint64_t n)
{
    struct content_rest rest = { numbers, n, 0 };
    return content_state(filter, &rest) && rest.n == 0;
}
