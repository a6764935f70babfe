-- An example product catalog. `make run` puts a gate in front of it.
--
--     sqlite3 catalog.db < catalog.sql        or        catalog.py catalog.db --products 5000
--
-- The content is always the same. Keys are SKUs such as BG-000042-6. The last digit is a check digit:
-- a SKU with a wrong check digit is a typo and is not in the catalog.

PRAGMA journal_mode = WAL;
BEGIN;

CREATE TEMP TABLE wanted AS SELECT 5000 AS products;

CREATE TABLE products (
    id       INTEGER PRIMARY KEY,
    sku      TEXT NOT NULL UNIQUE,
    name     TEXT NOT NULL,
    category TEXT NOT NULL,
    cents    INTEGER NOT NULL,
    added    TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

WITH RECURSIVE
    numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers, wanted WHERE i < products),
    sorts (s, sort) AS (VALUES (0, 'oak'), (1, 'steel'), (2, 'linen'), (3, 'blue'), (4, 'folding'),
                               (5, 'small'), (6, 'garden'), (7, 'travel'), (8, 'wool'), (9, 'glass'),
                               (10, 'red')),
    things (t, thing, category) AS (VALUES (0, 'chair', 'furniture'), (1, 'lamp', 'light'),
                                           (2, 'kettle', 'kitchen'), (3, 'knife', 'kitchen'),
                                           (4, 'table', 'furniture'), (5, 'clock', 'home'),
                                           (6, 'blanket', 'home'), (7, 'lantern', 'light'),
                                           (8, 'shelf', 'furniture'), (9, 'bowl', 'kitchen'),
                                           (10, 'basket', 'home'), (11, 'mirror', 'home'),
                                           (12, 'bench', 'furniture'))
INSERT INTO products (sku, name, category, cents, added)
SELECT printf('BG-%06d-%d', i, (i * 7 + i / 10 * 3 + i / 100 * 9 + i / 1000) % 10),
       sort || ' ' || thing || ' no. ' || i, category,
       195 + i * 37 % 20000, datetime('2026-01-01', '+' || i || ' minutes')
FROM numbers JOIN sorts ON s = i % 11 JOIN things ON t = i % 13
ORDER BY i;

COMMIT;
ANALYZE;
