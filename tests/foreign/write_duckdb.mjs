// Writes a Parquet file with DuckDB and prints its content: write_duckdb.mjs FILE > JSON
// Run it in a directory whose node_modules contains @duckdb/node-api.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.cwd() + '/');
const { DuckDBInstance } =
    await import(pathToFileURL(require.resolve('@duckdb/node-api')).href);
const connection = await (await DuckDBInstance.create(':memory:')).connect();
const rows = async query => (await connection.runAndReadAll(query)).getRowObjectsJson();
const file = process.argv[2];

// DuckDB writes filters only for columns with a dictionary, so the dictionary limits are raised.
await connection.run(`
    copy (select 'host' || (i * 11) || '.example' as text, (i * 7919 % 3000)::bigint as long,
                 (i * 31 % 700)::integer as short, i / 8.0::double as real,
                 ('1999-12-31'::date + (i % 900)::int) as day,
                 case when i % 3 = 0 then null else 'sparse' || i end as sparse
          from range(12000) r(i) order by hash(i))
    to '${file}' (format parquet, row_group_size 4096, dictionary_size_limit 100000,
                  string_dictionary_page_size_limit 10000000)`);
const chunks = await rows(`
    select row_group_id as grp, path_in_schema as name, row_group_num_rows as n,
           bloom_filter_offset as place
    from parquet_metadata('${file}') order by row_group_id, column_id`);
const values = await rows(`
    select text, long, short, real::varchar as real,
           (day - '1970-01-01'::date)::int as day, sparse
    from read_parquet('${file}', file_row_number = true) order by file_row_number`);
console.log(JSON.stringify({ chunks, values }));
