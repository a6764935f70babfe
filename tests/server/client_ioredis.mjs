// Tests ioredis: the BF and CF commands called by name, pipelines, transactions, and scan streams.
// ioredis returns the same replies in both protocols: booleans as numbers, and maps as lists.
// usage: node client_ioredis.mjs PORT 2|3 PATH-OF-SOCKET
//        in a directory whose node_modules contains ioredis
import { fails, finish, holds, load, range, same } from "./client_checks.mjs";

const loaded = load("ioredis");
const Redis = loaded.Redis ?? loaded.default ?? loaded;
const [port, protocol, path] = process.argv.slice(2);
const client = new Redis({ port: Number(port), protocol: Number(protocol), connectionName: "io", enableReadyCheck: true, connectTimeout: 300000 });
client.on("error", (error) => {
  console.log(`WRONG error event: ${error}`);
  process.exit(1);
});
const call = (...words) => client.call(...words.map(String));

async function bloom() {
  same("BF.RESERVE", await call("BF.RESERVE", "k", 0.01, 1000), "OK");
  await fails("BF.RESERVE twice", call("BF.RESERVE", "k", 0.01, 1000), "item exists");
  same("BF.RESERVE NONSCALING", await call("BF.RESERVE", "n", 0.01, 10, "NONSCALING"), "OK");
  same("BF.ADD", await call("BF.ADD", "k", "apple"), 1);
  same("BF.ADD again", await call("BF.ADD", "k", "apple"), 0);
  same("BF.MADD", await call("BF.MADD", "k", "apple", "pear", "a fig"), [0, 1, 1]);
  same("BF.EXISTS", await call("BF.EXISTS", "k", "a fig"), 1);
  same("BF.MEXISTS", await call("BF.MEXISTS", "k", "apple", "plum"), [1, 0]);
  same("BF.INSERT", await call("BF.INSERT", "i", "CAPACITY", 500, "ERROR", 0.001, "ITEMS", "a", "b"),
    [1, 1]);
  await fails("BF.INSERT missing", call("BF.INSERT", "missing", "NOCREATE", "ITEMS", "a"), "not found");
  same("BF.CARD", await call("BF.CARD", "i"), 2);
  const info = await call("BF.INFO", "i");
  same("BF.INFO", info.filter((_, i) => i !== 3),
    ["Capacity", 500, "Size", "Number of filters", 1, "Number of items inserted", 2, "Expansion rate", 2]);
  same("BF.INFO one", await call("BF.INFO", "i", "CAPACITY"),
    protocol === "3" ? ["Capacity", 500] : [500]);
  same("BF.INFO NONSCALING", (await call("BF.INFO", "n"))[9], null);
  same("BF.EXISTS missing", await call("BF.EXISTS", "missing", "x"), 0);
  await fails("WRONGTYPE", call("CF.ADD", "k", "x"), "WRONGTYPE");
}

async function cuckoo() {
  same("CF.RESERVE", await call("CF.RESERVE", "c", 1000, "BUCKETSIZE", 4), "OK");
  same("CF.ADD", await call("CF.ADD", "c", "apple"), 1);
  same("CF.ADDNX", await call("CF.ADDNX", "c", "apple"), 0);
  same("CF.ADD again", await call("CF.ADD", "c", "apple"), 1);
  same("CF.COUNT", await call("CF.COUNT", "c", "apple"), 2);
  same("CF.DEL", await call("CF.DEL", "c", "apple"), 1);
  same("CF.DEL absent", await call("CF.DEL", "c", "plum"), 0);
  same("CF.INSERT", await call("CF.INSERT", "c", "ITEMS", "a", "b"), [1, 1]);
  same("CF.INSERTNX", await call("CF.INSERTNX", "c", "ITEMS", "a", "d"), [0, 1]);
  same("CF.EXISTS", await call("CF.EXISTS", "c", "apple"), 1);
  same("CF.MEXISTS", await call("CF.MEXISTS", "c", "apple", "plum"), [1, 0]);
  same("CF.COMPACT", await call("CF.COMPACT", "c"), "OK");
  const info = await call("CF.INFO", "c");
  same("CF.INFO", info.filter((_, i) => i % 2 === 0),
    ["Size", "Number of buckets", "Number of filters", "Number of items inserted",
      "Number of items deleted", "Bucket size", "Expansion rate", "Max iterations"]);
  same("CF.INFO items", info[7], 4);
}

async function dumps() {
  for (const family of ["BF", "CF"]) {
    const from = `${family}:from`, to = `${family}:to`;
    await call(`${family}.INSERT`, from, "ITEMS", ...range(3000));
    for (let iterator = 0; ;) {
      const [next, chunk] = await client.callBuffer(`${family}.SCANDUMP`, from, String(iterator));
      iterator = Number(next);
      if (iterator === 0) break;
      same(`${family}.LOADCHUNK`, await client.call(`${family}.LOADCHUNK`, to, String(iterator), chunk),
        "OK");
    }
    same(`${family} after LOADCHUNK`, await call(`${family}.MEXISTS`, to, ...range(3000)),
      range(3000).map(() => 1));
  }
}

async function pipelines() {
  const pipeline = client.pipeline();
  for (const i of range(5000)) pipeline.call("BF.ADD", "p", i);
  for (const i of range(10000)) pipeline.call("BF.EXISTS", "p", i);
  const answers = await pipeline.exec();
  holds("no errors", answers.every(([error]) => error === null));
  const found = answers.slice(5000).map(([, value]) => value);
  holds("all are found", found.slice(0, 5000).every((value) => value === 1));
  holds("few others are", found.slice(5000).filter(Boolean).length < 150);
  same("MULTI", await client.multi().call("BF.ADD", "m", "x").call("BF.EXISTS", "m", "x").exec(),
    [[null, 1], [null, 1]]);
  await client.multi({ pipeline: false });
  await client.call("BF.ADD", "m", "y");
  same("EXEC later", (await client.exec())[0][1] ?? 1, 1);
}

async function generic() {
  same("PING", await client.ping(), "PONG");
  holds("CLIENT INFO resp", (await client.client("INFO")).includes(` resp=${protocol} `));
  same("CLIENT GETNAME", await client.client("GETNAME"), "io");
  same("TYPE", await client.type("c"), "MBbloomCF");
  const names = [];
  for await (const some of client.scanStream({ count: 3 })) names.push(...some);
  same("SCAN", names.sort(), (await client.keys("*")).sort());
  same("EXPIRE", await client.expire("k", 100), 1);
  holds("PTTL", (await client.pttl("k")) > 90000);
  same("RENAMENX", await client.renamenx("k", "r"), 1);
  same("COPY", await client.copy("r", "s"), 1);
  same("UNLINK", await client.unlink("r", "s", "nothing"), 2);
  same("CONFIG GET", await client.config("GET", "databases"), ["databases", "1"]);
  holds("INFO", (await client.info()).includes("bloomgate_version:"));
  same("COMMAND COUNT", await client.command("COUNT"), (await client.command()).length);
  same("OBJECT", await client.object("ENCODING", "p"), "scalable");
  same("ROLE", (await client.role())[0], "master");
  await fails("GET", client.get("k"), "unknown command");
  await fails("SUBSCRIBE", client.subscribe("channel"), "unknown command");
  const unix = new Redis({ path });
  same("unix socket", await unix.call("BF.EXISTS", "p", "1"), 1);
  await unix.quit();
  same("FLUSHALL", await client.flushall(), "OK");
  same("DBSIZE", await client.dbsize(), 0);
}

for (const part of [bloom, cuckoo, dumps, pipelines, generic]) await part();
same("QUIT", await client.quit(), "OK");
finish();
