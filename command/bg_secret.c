/*
 * bg_secret.c - BG.SECRET: exports the secret of a keyed filter, so that copies of the filter (BG.DUMP,
 * bloomgate cluster dump) can be queried elsewhere with a keyring.
 *
 * No other reply contains a secret. Therefore:
 *
 *   (I1) the command is in the categories admin and dangerous, but not in read or gate;
 *   (I2) the host logs the client before the reply is sent (host_ops.disclose);
 *   (I3) the secret is compared with the filter's own hash first. A host may have a different secret
 *        under the filter's key ID, and that secret does not belong to the filter;
 *   (I4) copies of the secret are wiped, except for the reply.
 */
#include "bg_handlers.h"
#include "error_text.h"

#include <stdio.h>
#include <string.h>

enum { SECRET_HEX = 2 * BG_SECRET_BYTES + 1 };

static void secret_write(const uint8_t secret[BG_SECRET_BYTES], char hex[SECRET_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
        hex[2 * i] = digits[secret[i] >> 4];
        hex[2 * i + 1] = digits[secret[i] & 15];
    }
    hex[SECRET_HEX - 1] = 0;
}

/* Checks that the object's filter was created with this hash (I3). */
static bg_err secret_check(const struct object *object, const bg_hash_spec *hash,
                           bg_errinfo *info)
{
    bg_hasher hasher;
    bg_pin pin;
    const bg_err err = bg_hasher_init(&hasher, hash, info);
    if (err) {
        return err;
    }
    bg_slot_pin(object->slot, &pin);
    const bg_filter *filter = object_base(&pin);
    const bool fits =
        filter && bg_hasher_check(&hasher) == bg_hasher_check(bg_filter_hasher(filter));
    bg_slot_unpin(object->slot, &pin);
    bg_hasher_wipe(&hasher);
    return fits     ? BG_OK
           : filter ? error_fail(info, BG_EINVAL,
                                 "the secret of this filter is missing: its key ID "
                                 "belongs to a different secret")
                    : object_unavailable(object, info);
}

void bgc_secret(struct request *request)
{
    const struct object *object = args_find_any(request, request->argv[1]);
    char text[64], hex[SECRET_HEX], key_id[BG_KEY_ID_BYTES + 1] = "";
    bg_errinfo info = { 0 };
    bg_hash_spec hash;
    if (!object) {
        return;
    }
    if (object->foreign || !object_shape_is_keyed(&object->shape)) {
        reply_errorf(&request->reply,
                     "ERR filter '%s' has no secret, because its hash is not keyed",
                     args_show(request->argv[1], text));
        return;
    }
    bg_err err = object_is_whole(object) ? BG_OK : object_unavailable(object, &info);
    err = err ? err
              : object_hash_spec(&object->shape, request->host->settings, &hash, &info);
    err = err ? err : secret_check(object, &hash, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
        return;
    }
    request->host->ops->disclose(request->host, request->argv[1]);
    memcpy(key_id, object->shape.key_id, BG_KEY_ID_BYTES);
    secret_write(hash.secret, hex);
    reply_array(&request->reply, 2);
    reply_text(&request->reply, key_id);
    reply_text(&request->reply, hex);
    explicit_bzero(hex, sizeof hex);
}
