/*
 * 15_routing_leveldb.c - filters at three levels of a distributed store, and the work that each
 * of them avoids.
 *
 * There are four nodes, each with its own LevelDB. Each record is on the node that wrote it, but
 * readers do not know which node that is. To look up a key, a client calls a router, the router
 * calls the nodes, and a node reads blocks of its tables. Most lookups are for keys that do not
 * exist.
 *
 *   client   has a filter over the whole cluster: on a "no", there is no call
 *   router   has a filter per node: calls only nodes that may have the key
 *   tables   have a filter per block (bg_leveldb): LevelDB reads only blocks that may have the key
 *
 * The client's and the router's filters are published through Redis. A node keeps two filters, its
 * own filter and its share of the cluster's filter, and hashes each key once for both. It publishes
 * both filters before it acknowledges a write, and the shares are merged into the cluster's filter.
 * A client that fetches the filters after an acknowledgment therefore never gets a "no" for an
 * acknowledged record.
 *
 *   example_15_routing_leveldb [SOCKET]     socket of a Redis server; default: starts redis-server
 */
#define _DEFAULT_SOURCE /* mkdtemp */

#include <bloomgate/bloomgate.h>
#include <bloomgate/combine.h>
#include <bloomgate/file_tools.h>
#include <bloomgate/hasher.h>
#include <bloomgate_leveldb.h>

#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 4, RECORDS = 15000, LATER = 1000, ASKED = 40000, SKIPPED = 77 };
enum { TABLES = 1, ROUTER = 2, CLIENT = 4 }; /* levels in use */

struct node {
    leveldb_t *db;
    leveldb_options_t *options;
    bg_filter *own, *share;
    char path[96];
};

struct cluster {
    struct node nodes[NODES];
    leveldb_filterpolicy_t *policy;
    bg_leveldb_codec *codec;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    bg_hasher hasher;
    redisContext *redis;
    int levels;
    bg_filter *at_router[NODES], *at_client; /* filters fetched from Redis */
    unsigned long router_calls, node_calls,
        blocks_read; /* number of calls made and blocks read */
    unsigned long spared_router, spared_nodes,
        spared_blocks; /* number of calls and reads avoided */
    unsigned long lost;
    char folder[64];
};

static pid_t server = -1; /* the Redis server started by this program */

static void must(bool good, const char *what)
{
    if (!good) {
        (void)(server > 0 && kill(server, SIGTERM));
        (void)fprintf(stderr, "15_routing: %s failed\n", what);
        exit(1); // NOLINT(concurrency-mt-unsafe): one thread
    }
}

/* ---- Tables: a filter policy that counts queries and can be switched off ----------------- */

static char *tables_make(void *cluster, const char *const *keys, const size_t *lengths,
                         int n, size_t *bytes)
{
    return bg_leveldb_codec_make(((struct cluster *)cluster)->codec, keys, lengths,
                                 (size_t)n, bytes);
}

static unsigned char tables_may_match(void *cluster, const char *key, size_t len,
                                      const char *filter, size_t bytes)
{
    struct cluster *c = cluster;
    bool maybe = !(c->levels & TABLES)
                 || bg_leveldb_codec_may_match(c->codec, key, len, filter, bytes);
    c->blocks_read += maybe; /* LevelDB will read the block next */
    c->spared_blocks += !maybe;
    return maybe;
}

static const char *tables_name(void *cluster)
{
    return bg_leveldb_codec_name(((struct cluster *)cluster)->codec);
}

static void tables_free(void *cluster)
{
    bg_leveldb_codec_free(((struct cluster *)cluster)->codec);
}

/* ---- Redis: filters encoded as files and stored as keys ---------------------------------- */

static void publish(redisContext *redis, const char *name, int number,
                    const bg_filter *filter)
{
    size_t bytes = 0;
    must(bg_encode(filter, NULL, NULL, 0, &bytes, NULL) == BG_OK,
         "getting the encoded size");
    char *file = malloc(bytes);
    must(file && bg_encode(filter, NULL, file, bytes, &bytes, NULL) == BG_OK,
         "encoding");
    redisReply *reply =
        redisCommand(redis, "SET routing:%s:%d %b", name, number, file, bytes);
    must(reply && reply->type == REDIS_REPLY_STATUS, "SET");
    freeReplyObject(reply);
    free(file);
}

/* Replaces *filter. bg_decode validates the untrusted bytes first. */
static void fetch(redisContext *redis, const char *name, int number, bg_filter **filter)
{
    bg_filter *fresh = NULL;
    redisReply *reply = redisCommand(redis, "GET routing:%s:%d", name, number);
    must(reply && reply->type == REDIS_REPLY_STRING
             && bg_decode(reply->str, (size_t)reply->len, NULL, &fresh, NULL) == BG_OK,
         "GET");
    freeReplyObject(reply);
    bg_filter_free(*filter);
    *filter = fresh;
}

/* Connects as soon as the server listens. */
static redisContext *connect_to(const char *socket)
{
    for (int tries = 0; tries < 1000; tries++) {
        redisContext *redis = redisConnectUnix(socket);
        if (redis && !redis->err) {
            return redis;
        }
        redisFree(redis);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    must(false, "connecting to Redis");
    return NULL;
}

static pid_t start_redis(char *socket)
{
    extern char **environ;
    char *words[] = {
        "redis-server", "--port", "0", "--unixsocket", socket, "--logfile", "/dev/null",
        "--save",       "",       NULL
    };
    pid_t pid;
    return posix_spawnp(&pid, words[0], NULL, NULL, words, environ) == 0 ? pid : -1;
}

/* ---- Writing ----------------------------------------------------------------------------- */

static size_t key_of(unsigned long number, char key[32])
{
    return (size_t)snprintf(key, 32, "order-%lu", number * 2654435761u % 1000000007u);
}

/* Writes the record first, then updates the filters. */
static void node_write(struct cluster *c, struct node *node, unsigned long number)
{
    char key[32], value[100] = "a record", *error = NULL;
    size_t len = key_of(number, key);
    leveldb_put(node->db, c->write, key, len, value, sizeof value, &error);
    must(!error, "put");
    uint64_t hash = bg_hash_bytes(&c->hasher, key, len); /* one hash for both filters */
    must(bg_filter_add_hash(node->own, hash, NULL) == BG_OK
             && bg_filter_add_hash(node->share, hash, NULL) == BG_OK,
         "adding");
}

/* Writes records [from, to) to various nodes, and publishes the filters for the router and the
 * client. */
static void write_and_publish(struct cluster *c, unsigned long from, unsigned long to)
{
    for (unsigned long i = from; i < to; i++) {
        node_write(c, &c->nodes[i * 7 / 3 % NODES], i);
    }
    bg_filter *all = NULL;
    for (int i = 0; i < NODES; i++) {
        leveldb_compact_range(c->nodes[i].db, NULL, 0, NULL,
                              0); /* moves records from memory to tables */
        publish(c->redis, "node", i, c->nodes[i].own);
        publish(c->redis, "share", i, c->nodes[i].share);
    }
    for (int i = 0; i < NODES;
         i++) { /* any process may merge the shares, not only a node */
        bg_filter *share = NULL;
        fetch(c->redis, "share", i, i ? &share : &all);
        must(!share || bg_filter_merge(all, share, NULL) == BG_OK, "merging");
        bg_filter_free(share);
    }
    publish(c->redis, "cluster", 0, all);
    bg_filter_free(all); /* the writes can be acknowledged now */
}

static void fetch_all(struct cluster *c)
{
    for (int i = 0; i < NODES; i++) {
        fetch(c->redis, "node", i, &c->at_router[i]);
    }
    fetch(c->redis, "cluster", 0, &c->at_client);
}

/* ---- Reading ----------------------------------------------------------------------------- */

static bool node_get(struct cluster *c, struct node *node, const char *key, size_t len)
{
    char *error = NULL;
    size_t bytes;
    char *value = leveldb_get(node->db, c->read, key, len, &bytes, &error);
    must(!error, "get");
    bool found = value != NULL;
    leveldb_free(value);
    c->node_calls++;
    return found;
}

static bool router_get(struct cluster *c, const char *key, size_t len, uint64_t hash)
{
    bool found = false;
    c->router_calls++;
    for (int i = 0; !found && i < NODES; i++) {
        if (!(c->levels & ROUTER)
            || bg_filter_may_contain_hash(c->at_router[i], hash)) {
            found = node_get(c, &c->nodes[i], key, len);
        } else {
            c->spared_nodes++;
        }
    }
    return found;
}

static bool client_get(struct cluster *c, unsigned long number)
{
    char key[32];
    size_t len = key_of(number, key);
    uint64_t hash = bg_hash_bytes(&c->hasher, key, len);
    if (!(c->levels & CLIENT) || bg_filter_may_contain_hash(c->at_client, hash)) {
        return router_get(c, key, len, hash);
    }
    c->spared_router++;
    return false;
}

/* Looks up `ASKED` keys, one in five of which exists, and checks the results. */
static unsigned long ask(struct cluster *c, int levels, unsigned long records,
                         const char *name)
{
    c->levels = levels;
    c->router_calls = c->node_calls = c->blocks_read = 0;
    c->spared_router = c->spared_nodes = c->spared_blocks = 0;
    for (unsigned long i = 0; i < ASKED; i++) {
        unsigned long number = i * 7919 % (5 * records);
        c->lost += client_get(c, number) != (number < records);
    }
    printf("%-23s %7lu %7lu %7lu %14lu %7lu %7lu\n", name, c->router_calls,
           c->node_calls, c->blocks_read, c->spared_router, c->spared_nodes,
           c->spared_blocks);
    return c->router_calls + c->node_calls + c->blocks_read;
}

static bool show(struct cluster *c, unsigned long records)
{
    printf(
        "\n%d gets, %lu records on %d nodes\n"
        "                         router    node  blocks     avoided by\n"
        "filters in use            calls   calls    read         client  router  tables\n",
        ASKED, records, NODES);
    unsigned long none = ask(c, 0, records, "none");
    unsigned long tables = ask(c, TABLES, records, "tables");
    unsigned long router = ask(c, TABLES | ROUTER, records, "tables, router");
    unsigned long client =
        ask(c, TABLES | ROUTER | CLIENT, records, "tables, router, client");
    (void)ask(c, CLIENT, records, "client only");
    return client < router && router < tables && tables < none && client < none / 8;
}

/* ---- Setup and cleanup ----------------------------------------------------------- */

static void cluster_start(struct cluster *c)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.rate = 0.01;
    must(bg_hasher_init(&c->hasher, &spec.hash, NULL) == BG_OK
             && bg_leveldb_codec_create(NULL, &c->codec, NULL) == BG_OK,
         "creating the hasher and the codec");
    c->policy = leveldb_filterpolicy_create(c, tables_free, tables_make,
                                            tables_may_match, tables_name);
    c->read = leveldb_readoptions_create();
    c->write = leveldb_writeoptions_create();
    for (int i = 0; i < NODES; i++) {
        struct node *node = &c->nodes[i];
        char *error = NULL;
        (void)snprintf(node->path, sizeof node->path, "%s/node-%d", c->folder, i);
        node->options = leveldb_options_create();
        leveldb_options_set_create_if_missing(node->options, 1);
        leveldb_options_set_filter_policy(node->options, c->policy);
        node->db = leveldb_open(node->options, node->path, &error);
        must(node->db != NULL, "opening a node");
        spec.items =
            (RECORDS + LATER) / NODES; /* approximate number of records per node */
        must(bg_filter_create(&spec, &node->own, NULL) == BG_OK,
             "creating a node's filter");
        spec.items =
            RECORDS
            + LATER; /* sized for the whole cluster, so that shares can be merged */
        must(bg_filter_create(&spec, &node->share, NULL) == BG_OK, "creating a share");
    }
}

static void cluster_end(struct cluster *c)
{
    char *error = NULL;
    for (int i = 0; i < NODES; i++) {
        struct node *node = &c->nodes[i];
        leveldb_close(node->db);
        leveldb_destroy_db(node->options, node->path, &error);
        leveldb_options_destroy(node->options);
        bg_filter_free(node->own);
        bg_filter_free(node->share);
        bg_filter_free(c->at_router[i]);
    }
    bg_filter_free(c->at_client);
    leveldb_filterpolicy_destroy(c->policy);
    leveldb_readoptions_destroy(c->read);
    leveldb_writeoptions_destroy(c->write);
    redisFree(c->redis);
    must(!error && rmdir(c->folder) == 0, "removing the directory");
}

int main(int count, char **words)
{
    /* Does not use TMPDIR, because a socket path must be short. */
    static struct cluster c = { .folder = "/tmp/bloomgate-example-XXXXXX" };
    char socket[96];
    must(mkdtemp(c.folder) != NULL, "creating a directory");
    (void)snprintf(socket, sizeof socket, "%s/redis.sock", c.folder);
    if (count < 2 && (server = start_redis(socket)) < 0) {
        printf("skipped: redis-server not found\n");
        return rmdir(c.folder) == 0 ? SKIPPED : 1;
    }
    c.redis = connect_to(count < 2 ? socket : words[1]);
    cluster_start(&c);
    write_and_publish(&c, 0, RECORDS);
    fetch_all(&c);
    bool right = show(&c, RECORDS);
    write_and_publish(&c, RECORDS, RECORDS + LATER);
    fetch_all(&c); /* from now on, all acknowledged records are found */
    right = show(&c, RECORDS + LATER) && right;
    printf("\n%lu wrong answers\n", c.lost);
    if (server > 0) {
        freeReplyObject(redisCommand(c.redis, "SHUTDOWN NOSAVE"));
        must(waitpid(server, NULL, 0) == server, "waiting for Redis");
        (void)unlink(socket);
    }
    cluster_end(&c);
    return right && c.lost == 0 ? 0 : 1;
}
