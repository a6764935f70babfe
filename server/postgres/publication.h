/*
 * postgres/publication.h - a gate's publication, which selects the tables that the server streams.
 *
 * The publication contains all tables with key columns, and publishes inserts, updates and truncates. Rows in
 * partitions are published as rows of the root table. The publication's COMMENT marks it as owned by the gate; a
 * publication without that comment is never changed. The fingerprint query verifies that a publication is sufficient
 * (postgres/schema.h).
 */
#ifndef SERVER_POSTGRES_PUBLICATION_H
#define SERVER_POSTGRES_PUBLICATION_H

#include "postgres/link.h"
#include "postgres/pgoutput.h"

/* Creates the publication, or replaces it if it belongs to this gate but is insufficient. With install=no, writes
 * the statements to the script instead. Errors: BG_EINVAL if the publication cannot be created, or if an operator
 * must create it. */
bg_err postgres_publication_install(struct postgres_link *link, const char *name,
                                    uint64_t deadline, bg_errinfo *info);

/* Drops the publication if it exists and belongs to this gate. */
void postgres_publication_drop(struct postgres_link *link, const char *name,
                               uint64_t deadline);

/* A published table and the positions of the keys in its rows. */
struct postgres_relation {
    uint32_t oid;
    /* bit i is set if the table contains the source's key column i */
    uint32_t columns;
    bool is_described; /* the stream has described the table's columns */
    uint16_t n;
    uint16_t at[KEY_COLUMNS]; /* indices of the values that are keys, ascending */
};

struct postgres_relations {
    struct postgres_relation *list; /* sorted by OID */
    size_t n;
    struct postgres_relation *last; /* table found by the last lookup */
};

/* In the current transaction, reads the tables that contain the key columns, along with their partitions, their
 * children, and the partitioned tables above them. */
bg_err postgres_relations_load(struct postgres_link *link, uint64_t deadline,
                               struct postgres_relations *relations, bg_errinfo *info);
void postgres_relations_free(struct postgres_relations *relations);

/* Returns the table with this OID, or NULL if that table contains no keys. */
struct postgres_relation *postgres_relations_find(struct postgres_relations *relations,
                                                  uint32_t oid);

/* Discards the table descriptions from the stream. A new stream sends the descriptions again. */
void postgres_relations_forget(struct postgres_relations *relations);

/* Finds the key columns in a table description. Returns the name of a missing column, or NULL if all columns are
 * present. */
const char *postgres_relation_describe(struct postgres_relation *relation,
                                       const struct key_columns *columns,
                                       const struct pgoutput_message *description);

#endif
