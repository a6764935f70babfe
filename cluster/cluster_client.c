/* cluster_client.c - see cluster_client.h. */
#include "cluster_client.h"

#include "text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_PASSWORD = 1024 };

struct cluster {
    struct cluster_options options;
    struct cluster_tally own, *tally; /* the counters to update */
    struct node_tls *tls;
    struct link_how how; /* options for all links */
    char password[CLUSTER_PASSWORD];
    struct slot_map map;
    bool stale;      /* the map is out of date; refresh it before the next round */
    uint16_t teller; /* the node that last provided the map */
    int64_t end;     /* deadline of the current call (cluster_now) */
    unsigned marker; /* number in the last marker's name (see cluster_marker) */
    char wrong[400]; /* the last error */
};

enum {
    CLUSTER_PAUSE = 50,     /* milliseconds between attempts */
    CLUSTER_BOUNCES = 5,    /* consecutive rounds of redirections before a pause */
    CLUSTER_OPENING = 1000, /* milliseconds to find a node that responds */
};

/* Stores a node's error: a connection error or an error reply. */
static void cluster_note(struct cluster *c, uint16_t node, const char *what, size_t n)
{
    (void)snprintf(c->wrong, sizeof c->wrong, "%.120s:%u: %.*s",
                   c->map.nodes[node]->host, c->map.nodes[node]->port,
                   (int)(n < 200 ? n : 200), what);
}

static void cluster_note_text(struct cluster *c, uint16_t node, const char *text)
{
    cluster_note(c, node, text, strlen(text));
}

static void cluster_note_link(struct cluster *c, uint16_t node)
{
    cluster_note_text(c, node, c->map.nodes[node]->wrong);
}

/* Waits between attempts. Errors: BG_ECANCELED if stop_fd became readable. */
static bg_err cluster_pause(const struct cluster *c, bg_errinfo *info)
{
    struct pollfd stop = { .fd = c->options.stop_fd, .events = POLLIN };
    return poll(&stop, 1, CLUSTER_PAUSE) > 0 ? error_fail(info, BG_ECANCELED, "stopped")
                                             : BG_OK;
}

/* ---- One node -------------------------------------------------------------------------------- */

/* Returns whether a link sends AUTH at the start of this round. */
static bool cluster_signs_in(const struct cluster *c, const struct node_link *link)
{
    return link->fresh && c->options.password;
}

/* Returns the number of greetings that a link sends before a round's requests. A new link sends
 * AUTH, if a password is set, and INFO. */
static size_t cluster_greetings(const struct cluster *c, const struct node_link *link)
{
    return (size_t)cluster_signs_in(c, link) + link->fresh;
}

static bool cluster_put_auth(struct cluster *c, struct node_link *link)
{
    const char *user = c->options.user;
    const bg_bytes words[] = { link_word("AUTH"), link_word(user ? user : ""),
                               link_word(c->options.password) };
    const bg_bytes without[] = { words[0], words[2] };
    return user ? link_put(link, words, 3) : link_put(link, without, 2);
}

static bool cluster_put_info(struct node_link *link)
{
    const bg_bytes info[] = { link_word("INFO"), link_word("server"),
                              link_word("replication") };
    return link_put(link, info, 3);
}

/* Opens a node's link for a round, and sends the greetings (AUTH, INFO) if the link is new. Returns
 * false if the link cannot be opened. */
static bool cluster_begin(struct cluster *c, uint16_t node)
{
    struct node_link *link = c->map.nodes[node];
    if (!link_begin(link)) {
        cluster_note_link(c, node);
        return false;
    }
    return (!cluster_signs_in(c, link) || cluster_put_auth(c, link))
           && (!link->fresh || cluster_put_info(link));
}

/* Handles the reply to AUTH. If the reply is an error, closes the link and returns false. */
static bool cluster_take_auth(struct cluster *c, struct node_link *link)
{
    bg_bytes reply;
    if (!link_take(link, &reply)) {
        return false;
    }
    const struct reply_item item = reply_first(reply);
    if (item.type == '-') {
        const char *user = c->options.user;
        link_break(link, "AUTH: %.*s: check the password of user '%.40s'",
                   (int)(item.text.len < 80 ? item.text.len : 80),
                   (const char *)item.text.data, user ? user : "default");
    }
    return item.type != '-';
}

/* Returns the value of the first 16 hexadecimal digits of a field in the reply to INFO, such as
 * "run_id:", or 0 if the field is missing. */
static uint64_t cluster_read_field(bg_bytes text, const char *name)
{
    const size_t skip = strlen(name);
    const char *p = text.data;
    for (size_t i = 0; i + skip + 16 <= text.len; i++) {
        if ((i == 0 || p[i - 1] == '\n') && memcmp(p + i, name, skip) == 0) {
            char digits[17], *end = NULL;
            (void)snprintf(digits, sizeof digits, "%.16s", p + i + skip);
            const uint64_t number = strtoull(digits, &end, 16);
            return *end ? 0 : number;
        }
    }
    return 0;
}

/* Reads a reply to INFO. If the reply is a transient error, closes the link and returns false. */
static bool cluster_read_info(struct node_link *link, bg_bytes reply)
{
    const struct reply_item item = reply_first(reply);
    link->process =
        (struct link_process){ .refused = item.type == '-'
                                          && reply_begins(item.text, "NOPERM") };
    if (item.type == '$' && !item.null) {
        link->process.run = cluster_read_field(item.text, "run_id:");
        link->process.history = cluster_read_field(item.text, "master_replid:");
        link->process.before = cluster_read_field(item.text, "master_replid2:");
    }
    if (item.type == '-' && !link->process.refused && !reply_begins(item.text, "ERR")
        && !reply_begins(item.text, "NOAUTH")) {
        link_break(link, "INFO: %.*s", (int)(item.text.len < 150 ? item.text.len : 150),
                   (const char *)item.text.data);
        return false;
    }
    return true;
}

/* Handles the next reply, which is the reply to INFO. Returns false if there is no reply, or if
 * cluster_read_info fails. */
static bool cluster_take_info(struct node_link *link)
{
    bg_bytes reply;
    return link_take(link, &reply) && cluster_read_info(link, reply);
}

/* Handles the replies to greetings, if any are due. Returns false if the link was closed. */
static bool cluster_greeted(struct cluster *c, uint16_t node)
{
    struct node_link *link = c->map.nodes[node];
    const bool good = (!cluster_signs_in(c, link) || cluster_take_auth(c, link))
                      && (!link->fresh || cluster_take_info(link));
    if (!good) {
        cluster_note_link(c, node);
    }
    return good;
}

static const char *cluster_password_option(const struct cluster *c)
{
    return c->options.password_option ? c->options.password_option : "password-file";
}

/* ---- The map --------------------------------------------------------------------------------- */

/* Handles a node's reply to CLUSTER SLOTS. If the reply cannot be used, returns false and stores
 * the reason in `wrong`. */
static bool cluster_read_map(struct cluster *c, uint16_t node, bg_bytes reply)
{
    const struct reply_item item = reply_first(reply);
    if (item.type == '-'
        && (reply_begins(item.text, "ERR")
            || (c->options.single && reply_begins(item.text, "NOPERM")))) {
        map_give_all(&c->map, node); /* not a cluster, so the server owns all slots */
        return true;
    }
    if (item.type == '-' && reply_begins(item.text, "NOAUTH")) {
        char text[120];
        (void)snprintf(text, sizeof text,
                       "NOAUTH: the node requires a password: set %.50s",
                       cluster_password_option(c));
        cluster_note_text(c, node, text);
        return false;
    }
    if (item.type == '-') {
        cluster_note(c, node, item.text.data, item.text.len);
        return false;
    }
    if (!map_read(&c->map, reply, node)) {
        cluster_note_text(c, node, "the node reported no slots");
        return false;
    }
    return true;
}

/* Requests the map from one node. */
static bool cluster_ask_map(struct cluster *c, uint16_t node, bg_err *err)
{
    struct node_link *link = c->map.nodes[node];
    const bg_bytes words[] = { link_word("CLUSTER"), link_word("SLOTS") };
    bg_bytes reply;
    if (!cluster_begin(c, node)) {
        return false;
    }
    if (!link_put(link, words, 2)) {
        *err = BG_ENOMEM;
        return false;
    }
    if (!links_exchange(&link, 1, (int)c->options.timeout, c->options.stop_fd)) {
        *err = BG_ECANCELED;
        return false;
    }
    c->tally->refreshed++;
    if (!cluster_greeted(c, node)) {
        return false;
    }
    if (!link_take(link, &reply)) {
        cluster_note_link(c, node);
        return false;
    }
    const bool good = cluster_read_map(c, node, reply);
    if (good) {
        atomic_store(&c->tally->told, cluster_now());
    }
    return good;
}

/* Requests the map from one node after another, until a node provides it or the deadline has
 * passed. Tries at least one node. Returns false if no node provides the map. Sets *err if out of
 * memory or canceled. */
static bool cluster_refresh(struct cluster *c, bg_err *err)
{
    const size_t count = c->map.count; /* nodes may be added in the meantime */
    for (size_t i = 0; i < count && !*err && (i == 0 || cluster_now() < c->end); i++) {
        const uint16_t node = (uint16_t)((c->teller + i) % count);
        if (cluster_ask_map(c, node, err)) {
            c->teller = node;
            c->stale = false;
            return true;
        }
    }
    return false;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static bg_err cluster_read_nodes(struct cluster *c, bg_errinfo *info)
{
    const char *text = c->options.nodes ? c->options.nodes : "";
    while (*text) {
        const size_t n = strcspn(text, ",");
        if (map_address(&c->map, (bg_bytes){ text, n }, MAP_NOBODY) == MAP_NOBODY) {
            return error_fail(info, BG_EINVAL,
                              "nodes: found '%.*s', expected HOST:PORT",
                              (int)(n < 100 ? n : 100), text);
        }
        text += n + (text[n] == ',');
    }
    return c->map.count ? BG_OK
                        : error_fail(info, BG_EINVAL,
                                     "nodes: found nothing, expected HOST:PORT[,...]");
}

static bg_err cluster_find(struct cluster *c, bg_errinfo *info)
{
    const uint32_t patience =
        c->options.patience < CLUSTER_OPENING ? c->options.patience : CLUSTER_OPENING;
    bg_err err = BG_OK;
    c->end = cluster_now() + patience;
    while (!cluster_refresh(c, &err)) {
        if (err) {
            return error_fail(info, err, "%s", bg_strerror(err));
        }
        if (cluster_now() >= c->end) {
            return error_fail(info, BG_EIO, "%s", c->wrong);
        }
        err = cluster_pause(c, info);
        if (err) {
            return err;
        }
    }
    return BG_OK;
}

/* Reads the first line of a file. */
static bg_err cluster_read_password(const char *path, char to[CLUSTER_PASSWORD],
                                    bg_errinfo *info)
{
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(to, CLUSTER_PASSWORD, file);
    const int code = errno;
    const bool whole = read && (strchr(to, '\n') || feof(file));
    if (file) {
        (void)fclose(file);
    }
    to[read ? strcspn(to, "\r\n") : 0] = 0;
    if (!file) {
        return error_fail(info, BG_EINVAL, "password-file: %.150s: %s", path,
                          text_errno(code));
    }
    return whole && *to ? BG_OK
                        : error_fail(info, BG_EINVAL,
                                     "password-file: %.100s: the first line must be a "
                                     "password of 1 to %d bytes",
                                     path, CLUSTER_PASSWORD - 2);
}

/* Reads the files specified in the options. */
static bg_err cluster_load(struct cluster *c, bg_errinfo *info)
{
    char why[NODE_TLS_WHY];
    bg_err err = BG_OK;
    if (c->options.tls.on) {
        c->tls = node_tls_create(&c->options.tls, why);
        if (!c->tls) {
            return error_fail(info, BG_EINVAL, "%s", why);
        }
    }
    if (c->options.password_file) {
        err = cluster_read_password(c->options.password_file, c->password, info);
        c->options.password = c->password;
    }
    if (!err && c->options.user && !c->options.password) {
        err = error_fail(info, BG_EINVAL, "user %.100s: no password is set: set %.50s",
                         c->options.user, cluster_password_option(c));
    }
    return err;
}

static struct cluster *cluster_make(const struct cluster_options *options)
{
    struct cluster *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    c->options = *options;
    c->options.timeout = options->timeout ? options->timeout : 5000;
    c->options.patience = options->patience ? options->patience : 30000;
    c->options.wait = options->wait ? options->wait : 1000;
    c->tally = options->tally ? options->tally : &c->own;
    map_init(&c->map);
    return c;
}

bg_err cluster_open(const struct cluster_options *options, struct cluster **cluster,
                    bg_errinfo *info)
{
    struct cluster *c = cluster_make(options);
    *cluster = NULL;
    if (!c) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    bg_err err = cluster_load(c, info);
    c->how = (struct link_how){ .tls = c->tls,
                                .connect = options->connect,
                                .most = options->reply_max,
                                .unopened = &c->tally->unopened,
                                .broken = &c->tally->broken };
    c->map.how = &c->how;
    err = err ? err : cluster_read_nodes(c, info);
    err = err ? err : cluster_find(c, info);
    if (err) {
        cluster_close(c);
    } else {
        *cluster = c;
    }
    return err;
}

bg_err cluster_options_check(const struct cluster_options *options, bg_errinfo *info)
{
    struct cluster *c = cluster_make(options);
    bg_err err =
        c ? cluster_load(c, info) : error_fail(info, BG_ENOMEM, "out of memory");
    err = err ? err : cluster_read_nodes(c, info);
    cluster_close(c);
    return err;
}

void cluster_close(struct cluster *c)
{
    if (c) {
        map_free(&c->map);
        node_tls_free(c->tls);
        explicit_bzero(c->password, sizeof c->password);
        free(c);
    }
}

/* Marks the nodes that own slots, and returns how many there are. */
static size_t cluster_owners(const struct cluster *c, bool has[MAP_NODES])
{
    size_t n = 0;
    memset(has, 0, MAP_NODES * sizeof *has);
    for (size_t i = 0; i < SHARD_SLOTS; i++) {
        const uint16_t owner = c->map.owner[i];
        if (owner != MAP_NOBODY && !has[owner]) {
            has[owner] = true;
            n++;
        }
    }
    return n;
}

size_t cluster_nodes(const struct cluster *c)
{
    bool has[MAP_NODES];
    return cluster_owners(c, has);
}

size_t cluster_list_nodes(const struct cluster *c, uint16_t nodes[MAP_NODES])
{
    bool has[MAP_NODES];
    size_t n = 0;
    (void)cluster_owners(c, has);
    for (size_t i = 0; i < c->map.count; i++) {
        if (has[i]) {
            nodes[n++] = (uint16_t)i;
        }
    }
    return n;
}

bg_err cluster_read_owners(struct cluster *c, uint16_t owners[SHARD_SLOTS],
                           bg_errinfo *info)
{
    const bg_err err = cluster_find(c, info);
    memcpy(owners, c->map.owner, sizeof c->map.owner);
    return err;
}

uint64_t cluster_run_of(const struct cluster *c, uint16_t node)
{
    return c->map.nodes[node]->process.run;
}

/* Sends INFO to all nodes that own slots, and to their replicas. Returns the number of links
 * that could be opened. */
static size_t cluster_put_survey(struct cluster *c, const bool has[MAP_NODES],
                                 uint16_t asked[MAP_NODES],
                                 struct node_link *links[MAP_NODES], bg_err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < c->map.count && !*err; i++) {
        if ((has[i] || c->map.replica[i]) && cluster_begin(c, (uint16_t)i)) {
            asked[count] = (uint16_t)i;
            links[count++] = c->map.nodes[i];
            *err = cluster_put_info(c->map.nodes[i]) ? BG_OK : BG_ENOMEM;
        }
    }
    return count;
}

bg_err cluster_survey(struct cluster *c, uint32_t age, struct cluster_view *view,
                      bg_errinfo *info)
{
    struct node_link *links[MAP_NODES];
    uint16_t asked[MAP_NODES];
    bool has[MAP_NODES];
    bg_err err = BG_OK;
    *view = (struct cluster_view){ 0 };
    c->end = cluster_now() + c->options.timeout;
    if (c->stale || cluster_now() - atomic_load(&c->tally->told) >= age) {
        (void)cluster_refresh(c, &err); /* if this fails, the old map is used */
    }
    view->nodes = cluster_owners(c, has);
    const size_t count = cluster_put_survey(c, has, asked, links, &err);
    if (!err
        && !links_exchange(links, count, (int)c->options.timeout, c->options.stop_fd)) {
        err = BG_ECANCELED;
    }
    for (size_t i = 0; i < count && !err; i++) {
        if (cluster_greeted(c, asked[i]) && cluster_take_info(links[i])) {
            view->reached += has[asked[i]];
            view->processes[view->count] = links[i]->process;
            view->count += links[i]->process.run != 0;
        }
    }
    return err ? error_fail(info, err, "%s", bg_strerror(err)) : BG_OK;
}

void cluster_where(const struct cluster *c, unsigned slot, char *text, size_t room)
{
    const uint16_t owner = c->map.owner[slot % SHARD_SLOTS];
    if (owner == MAP_NOBODY) {
        (void)snprintf(text, room, "nobody");
    } else {
        (void)snprintf(text, room, "%s:%u", c->map.nodes[owner]->host,
                       c->map.nodes[owner]->port);
    }
}

/* ---- A round: sending ------------------------------------------------------------------------ */

/* The state of a node in a round. */
struct cluster_turn {
    bool begun, failed, writes, steady;
};

/* Adds a request to its node's pipeline. Returns false if the request has to wait for a later
 * round. Sets *err if out of memory. */
static bool cluster_send(struct cluster *c, struct cluster_ask *ask,
                         struct cluster_turn *turns, bg_err *err)
{
    const bg_bytes asking = link_word("ASKING");
    const uint16_t node = ask->next != MAP_NOBODY ? ask->next : c->map.owner[ask->slot];
    ask->node = MAP_NOBODY;
    if (node == MAP_NOBODY) {
        (void)snprintf(c->wrong, sizeof c->wrong, "no node owns slot %u", ask->slot);
        return false;
    }
    struct node_link *link = c->map.nodes[node];
    if (!turns[node].begun && !turns[node].failed) {
        turns[node].begun = cluster_begin(c, node);
        turns[node].failed = !turns[node].begun;
    }
    if (turns[node].failed) {
        return false;
    }
    if ((ask->asking && !link_put(link, &asking, 1))
        || !link_put(link, ask->argv, ask->argc)) {
        *err = BG_ENOMEM;
        return false;
    }
    ask->node = node;
    turns[node].writes = turns[node].writes || ask->write;
    turns[node].steady =
        turns[node].steady || ask->steady || (ask->write && c->options.replicas);
    c->tally->requests++;
    return true;
}

/* Writes the name of a marker key in a slot that the node owns. Each call uses a new number in the
 * name, because the slot of an earlier marker may be migrating. Returns false if the node owns no
 * slots. */
static bool cluster_marker(struct cluster *c, uint16_t node, char *text, size_t room)
{
    enum { TRIED = 4096 };
    for (unsigned i = 0; i < TRIED; i++) {
        c->marker = (c->marker + 1) % TRIED;
        const int n = snprintf(text, room, "{%u}bloomgate/wait", c->marker);
        if (c->map.owner[shard_slot((bg_bytes){ text, (size_t)n })] == node) {
            return true;
        }
    }
    return false;
}

/* Adds the marker and WAIT after a node's writes. A node that owns no slots receives no marker, so
 * its writes have to be retried later. */
static bool cluster_put_wait(struct cluster *c, uint16_t node)
{
    struct node_link *link = c->map.nodes[node];
    char marker[40], replicas[16], wait[16];
    (void)snprintf(replicas, sizeof replicas, "%u", c->options.replicas);
    (void)snprintf(wait, sizeof wait, "%u", c->options.wait);
    if (!cluster_marker(c, node, marker, sizeof marker)) {
        const bg_bytes pings[] = { link_word("PING"), link_word("PING") };
        /* Send two PINGs instead of the marker and WAIT. Their replies confirm nothing. */
        return link_put(link, &pings[0], 1) && link_put(link, &pings[1], 1);
    }
    const bg_bytes set[] = { link_word("SET"), link_word(marker), link_word("1"),
                             link_word("EX"), link_word("60") };
    const bg_bytes words[] = { link_word("WAIT"), link_word(replicas),
                               link_word(wait) };
    return link_put(link, set, 5) && link_put(link, words, 3);
}

/* ---- A round: replies ------------------------------------------------------------------------ */

static bool cluster_is_passing(bg_bytes text)
{
    static const char *const words[] = { "TRYAGAIN",   "CLUSTERDOWN", "LOADING",
                                         "MASTERDOWN", "READONLY",    "NOREPLICAS",
                                         "UNBLOCKED" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (reply_begins(text, words[i])) {
            return true;
        }
    }
    return false;
}

enum cluster_verdict { VERDICT_ANSWER, VERDICT_ELSEWHERE, VERDICT_LATER };

static void cluster_count_passing(struct cluster_tally *tally, bg_bytes text)
{
    _Atomic uint64_t *count = reply_begins(text, "TRYAGAIN")      ? &tally->tryagain
                              : reply_begins(text, "CLUSTERDOWN") ? &tally->clusterdown
                                                                  : &tally->passing;
    atomic_fetch_add(count, 1);
}

/* Decides what to do with a reply. If the reply is a redirection, stores the node for the next
 * attempt in `ask`. */
static enum cluster_verdict cluster_judge(struct cluster *c, struct cluster_ask *ask,
                                          bg_bytes reply)
{
    const struct reply_item item = reply_first(reply);
    unsigned slot = 0;
    uint16_t node = MAP_NOBODY;
    ask->next = MAP_NOBODY;
    ask->asking = false;
    if (item.type != '-') {
        return VERDICT_ANSWER;
    }
    const bool moved = reply_begins(item.text, "MOVED");
    if (moved || reply_begins(item.text, "ASK")) {
        const size_t skip = moved ? 6 : 4;
        const bg_bytes rest = { (const char *)item.text.data + skip,
                                item.text.len > skip ? item.text.len - skip : 0 };
        cluster_note(c, ask->node, item.text.data, item.text.len);
        if (!map_redirection(&c->map, rest, ask->node, &slot, &node)) {
            return VERDICT_LATER;
        }
        if (moved) {
            c->map.owner[slot] = node;
            c->stale = true; /* other slots have probably moved, too */
            c->tally->moved++;
        } else {
            c->tally->asked++;
        }
        ask->next = node;
        ask->asking = !moved;
        return VERDICT_ELSEWHERE;
    }
    if (cluster_is_passing(item.text)) {
        cluster_count_passing(c->tally, item.text);
        cluster_note(c, ask->node, item.text.data, item.text.len);
        return VERDICT_LATER;
    }
    return VERDICT_ANSWER;
}

/* Returns whether WAIT confirms that enough replicas have received all writes. The reply to WAIT is
 * meaningful only if the marker was written. Writing the marker fails if the user lacks permission
 * or the slot has moved. */
static bool cluster_waited(struct cluster *c, uint16_t node, bg_bytes marker,
                           bg_bytes wait)
{
    const struct reply_item set = reply_first(marker), item = reply_first(wait);
    if (set.type != '+') {
        cluster_note(c, node, set.text.data, set.type == '-' ? set.text.len : 0);
        return false;
    }
    if (item.type == ':' && item.number >= (int64_t)c->options.replicas) {
        return true;
    }
    if (item.type == '-') {
        cluster_note(c, node, item.text.data, item.text.len);
    } else {
        char text[80];
        (void)snprintf(text, sizeof text, "only %lld of %u replicas received the write",
                       (long long)item.number, c->options.replicas);
        cluster_note_text(c, node, text);
    }
    return false;
}

/* Returns whether WAIT succeeded. Looks ahead to the replies to the marker and WAIT, which follow
 * `before` other replies. */
static bool cluster_check_wait(struct cluster *c, uint16_t node, size_t before)
{
    struct node_link *link = c->map.nodes[node];
    const size_t taken = link->taken;
    bg_bytes marker = { NULL, 0 }, wait = { NULL, 0 };
    bool good = true;
    for (size_t i = 0; good && i < before; i++) {
        good = link_take(link, &wait);
    }
    good = good && link_take(link, &marker) && link_take(link, &wait);
    link->taken = taken;
    return good && cluster_waited(c, node, marker, wait);
}

/* Returns whether a node's process and history were the same before and after a round's
 * requests. */
static bool cluster_check_steady(struct cluster *c, uint16_t node)
{
    struct node_link *link = c->map.nodes[node];
    const struct link_process before = link->process;
    bg_bytes reply = { NULL, 0 };
    if (!link_last(link, &reply) || !cluster_read_info(link, reply)) {
        cluster_note_link(c, node);
        return false;
    }
    const bool same = link->process.run == before.run
                      && link->process.history == before.history
                      && link->process.before == before.before
                      && link->process.refused == before.refused;
    if (!same) {
        cluster_note_text(c, node, "the node's data was replaced during a request");
    }
    return same;
}

struct cluster_round {
    struct cluster *cluster;
    struct cluster_ask *asks;
    size_t n, left;
    size_t number;  /* index of this round within its call */
    bool later;     /* some requests must be retried after a pause */
    bool oversized; /* a reply in this round exceeds reply_max */
};

/* Handles the replies of one node, in the order of its requests. */
static void cluster_collect(struct cluster_round *r, uint16_t node,
                            const struct cluster_turn *turn)
{
    struct cluster *c = r->cluster;
    struct node_link *link = c->map.nodes[node];
    const bool waits = turn->writes && c->options.replicas;
    const bool greeted = cluster_greeted(c, node);
    const bool kept = !waits
                      || (greeted
                          && cluster_check_wait(c, node,
                                                link->expected - 2 - turn->steady
                                                    - cluster_greetings(c, link)));
    const bool steady = !turn->steady || (greeted && cluster_check_steady(c, node));
    bool oversized = greeted && link->oversized; /* the next missing reply */
    for (size_t i = 0; i < r->n; i++) {
        struct cluster_ask *ask = &r->asks[i];
        bg_bytes reply = { NULL, 0 };
        if (ask->done || ask->node != node) {
            continue;
        }
        if (!greeted || (ask->asking && !link_take(link, &reply))
            || !link_take(link, &reply)) {
            ask->next = MAP_NOBODY;
            ask->asking = false;
            ask->oversized = oversized;
            r->oversized = r->oversized || oversized;
            oversized = false;
            r->later = true;
            if (greeted) {
                cluster_note_link(c, node);
            }
            continue;
        }
        const enum cluster_verdict verdict = cluster_judge(c, ask, reply);
        if (verdict == VERDICT_ANSWER && (kept || !ask->write)
            && (steady || !(ask->steady || ask->write))) {
            ask->done = true;
            ask->oversized = false;
            ask->round = r->number;
            ask->by = &link->process;
            r->left--;
            ask->answered(ask, reply);
        } else if (verdict != VERDICT_ELSEWHERE) {
            r->later = true;
        }
    }
}

static bg_err cluster_round(struct cluster_round *r, struct cluster_turn *turns,
                            struct node_link **links)
{
    struct cluster *c = r->cluster;
    bg_err err = BG_OK;
    size_t count = 0;
    memset(turns, 0, MAP_NODES * sizeof *turns);
    r->number++;
    for (size_t i = 0; i < r->n && !err; i++) {
        if (!r->asks[i].done && !cluster_send(c, &r->asks[i], turns, &err)) {
            r->asks[i].next = MAP_NOBODY;
            r->asks[i].asking = false;
            r->later = true;
        }
    }
    for (size_t i = 0; i < c->map.count && !err; i++) {
        if (turns[i].begun) {
            links[count++] = c->map.nodes[i];
            if ((turns[i].writes && c->options.replicas
                 && !cluster_put_wait(c, (uint16_t)i))
                || (turns[i].steady && !cluster_put_info(c->map.nodes[i]))) {
                err = BG_ENOMEM;
            }
        }
    }
    const uint32_t wait = c->options.replicas ? c->options.wait : 0;
    if (!err
        && !links_exchange(links, count, (int)(c->options.timeout + wait),
                           c->options.stop_fd)) {
        err = BG_ECANCELED;
    }
    const size_t nodes = c->map.count; /* redirections may add nodes */
    for (size_t i = 0; i < nodes && !err; i++) {
        if (turns[i].begun) {
            cluster_collect(r, (uint16_t)i, &turns[i]);
        }
    }
    return err;
}

static bg_err cluster_rounds(struct cluster_round *r, struct cluster_turn *turns,
                             struct node_link **links, bg_errinfo *info)
{
    struct cluster *c = r->cluster;
    int bounces = 0;
    bg_err err = BG_OK;
    c->end = cluster_now() + c->options.patience;
    while (r->left && !err) {
        if (c->stale) {
            (void)cluster_refresh(c, &err); /* if this fails, the old map is used */
        }
        const size_t before = r->left;
        r->later = r->oversized = false;
        err = err ? err : cluster_round(r, turns, links);
        if (err) {
            return error_fail(info, err, "%s", bg_strerror(err));
        }
        if (r->left < before) {
            c->end = cluster_now() + c->options.patience;
            bounces = 0;
        } else if (r->oversized) { /* the reply to another attempt would be as large */
            return error_fail(info, BG_EIO, "%s", c->wrong);
        }
        if (r->left && cluster_now() >= c->end) {
            return error_fail(info, BG_EIO, "gave up retrying: %s", c->wrong);
        }
        c->tally->repeated += r->left;
        if (r->left && (r->later || ++bounces >= CLUSTER_BOUNCES)) {
            c->stale = true;
            err = cluster_pause(c, info);
        }
    }
    return err;
}

bg_err cluster_call(struct cluster *c, struct cluster_ask *asks, size_t n,
                    bg_errinfo *info)
{
    struct cluster_round round = { .cluster = c, .asks = asks, .n = n, .left = n };
    struct cluster_turn *turns = calloc(MAP_NODES, sizeof *turns);
    struct node_link **links = calloc(MAP_NODES, sizeof(struct node_link *));
    if (!turns || !links) {
        free(links);
        free(turns);
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        asks[i].done = false;
        asks[i].slot = shard_slot(asks[i].argv[1]);
        asks[i].next = asks[i].node = MAP_NOBODY;
        asks[i].asking = asks[i].oversized = false;
    }
    const bg_err err = cluster_rounds(&round, turns, links, info);
    free(links);
    free(turns);
    return err;
}

/* Sends a request to a node once. Returns false if there is no reply or the reply is a transient
 * error; the caller may then retry. For other failures, returns false and sets *err. */
static bool cluster_try_node(struct cluster *c, uint16_t node, const bg_bytes *argv,
                             size_t argc, bg_bytes *reply, bg_err *err)
{
    struct node_link *link = c->map.nodes[node];
    if (!cluster_begin(c, node)) {
        return false;
    }
    if (!link_put(link, argv, argc)) {
        *err = BG_ENOMEM;
        return false;
    }
    c->tally->requests++;
    if (!links_exchange(&link, 1, (int)c->options.timeout, c->options.stop_fd)) {
        *err = BG_ECANCELED;
        return false;
    }
    if (!cluster_greeted(c, node)) {
        return false;
    }
    if (!link_take(link, reply)) {
        cluster_note_link(c, node);
        return false;
    }
    const struct reply_item item = reply_first(*reply);
    const bool passing = item.type == '-' && cluster_is_passing(item.text);
    if (passing) {
        cluster_count_passing(c->tally, item.text);
        cluster_note(c, node, item.text.data, item.text.len);
    }
    return !passing;
}

bg_err cluster_call_node(struct cluster *c, uint16_t node, const bg_bytes *argv,
                         size_t argc, void (*told)(void *context, bg_bytes reply),
                         void *context, bg_errinfo *info)
{
    bg_bytes reply = { NULL, 0 };
    bg_err err = BG_OK;
    const int64_t end = cluster_now() + c->options.patience;
    while (!cluster_try_node(c, node, argv, argc, &reply, &err)) {
        if (err) {
            return error_fail(info, err, "%s", bg_strerror(err));
        }
        if (cluster_now() >= end) {
            return error_fail(info, BG_EIO, "gave up retrying: %s", c->wrong);
        }
        c->tally->repeated++;
        err = cluster_pause(c, info);
        if (err) {
            return err;
        }
    }
    told(context, reply);
    return BG_OK;
}
