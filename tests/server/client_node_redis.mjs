// Tests node-redis: all of its BF and CF commands, pipelines, transactions, and scans.
// usage: node client_node_redis.mjs PORT 2|3
//        in a directory whose node_modules contains redis
import { fails, finish, holds, load, range, same } from "./client_checks.mjs";

const { createClient, RESP_TYPES } = load("redis");
const [port, protocol] = process.argv.slice(2).map(Number);

const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP: protocol, name: "noddy", commandOptions: { timeout: 300000 }, socket: { connectTimeout: 300000 } });
client.on("error", (error) => {
  console.log(`WRONG error event: ${error}`);
  process.exit(1);
});
await client.connect();

async function bloom() {
  const bf = client.bf;
  same("BF.RESERVE", await bf.reserve("k", 0.01, 1000), "OK");
  await fails("BF.RESERVE twice", bf.reserve("k", 0.01, 1000), "item exists");
  same("BF.RESERVE EXPANSION", await bf.reserve("e", 0.01, 1000, { EXPANSION: 4 }), "OK");
  same("BF.RESERVE NONSCALING", await bf.reserve("n", 0.01, 10, { NONSCALING: true }), "OK");
  same("BF.ADD", await bf.add("k", "apple"), true);
  same("BF.ADD again", await bf.add("k", "apple"), false);
  same("BF.MADD", await bf.mAdd("k", ["apple", "pear", "a fig"]), [false, true, true]);
  same("BF.EXISTS", await bf.exists("k", "a fig"), true);
  same("BF.EXISTS absent", await bf.exists("k", "plum"), false);
  same("BF.EXISTS missing", await bf.exists("missing", "plum"), false);
  same("BF.MEXISTS", await bf.mExists("k", ["apple", "plum"]), [true, false]);
  same("BF.INSERT", await bf.insert("i", ["a", "b"], { CAPACITY: 500, ERROR: 0.001, EXPANSION: 2 }),
    [true, true]);
  same("BF.INSERT NOCREATE", await bf.insert("i", ["a", "c"], { NOCREATE: true }), [false, true]);
  await fails("BF.INSERT missing", bf.insert("missing", ["a"], { NOCREATE: true }), "not found");
  same("BF.CARD", await bf.card("i"), 3);
  const info = await bf.info("i");
  same("BF.INFO Capacity", info["Capacity"], 500);
  same("BF.INFO items", info["Number of items inserted"], 3);
  same("BF.INFO filters", info["Number of filters"], 1);
  same("BF.INFO expansion", info["Expansion rate"], 2);
  holds("BF.INFO Size", info["Size"] > 0);
  same("BF.INFO fields", Object.keys(info).length, 5);
  same("BF.INFO NONSCALING", (await bf.info("n"))["Expansion rate"], null);
  await fails("BF.INFO missing", bf.info("missing"), "not found");
}

async function cuckoo() {
  const cf = client.cf;
  same("CF.RESERVE", await cf.reserve("c", 1000), "OK");
  same("CF.RESERVE options",
    await cf.reserve("o", 1000, { BUCKETSIZE: 4, MAXITERATIONS: 20, EXPANSION: 1 }), "OK");
  await fails("CF.RESERVE twice", cf.reserve("c", 1000), "item exists");
  same("CF.ADD", await cf.add("c", "apple"), true);
  same("CF.ADD again", await cf.add("c", "apple"), true);
  same("CF.ADDNX", await cf.addNX("c", "apple"), false);
  same("CF.ADDNX new", await cf.addNX("c", "pear"), true);
  same("CF.COUNT", await cf.count("c", "apple"), 2);
  same("CF.EXISTS", await cf.exists("c", "apple"), true);
  if (cf.mExists) {
    same("CF.MEXISTS", await cf.mExists("c", ["apple", "plum"]), [true, false]);
  }
  same("CF.DEL", await cf.del("c", "apple"), true);
  same("CF.DEL absent", await cf.del("c", "plum"), false);
  await fails("CF.DEL missing", cf.del("missing", "x"), "ot found");
  same("CF.INSERT", await cf.insert("ci", ["a", "b"], { CAPACITY: 500 }), [true, true]);
  same("CF.INSERTNX", (await cf.insertNX("ci", ["a", "d"])).map(Number), [0, 1]);
  await fails("CF.INSERT missing", cf.insert("missing", ["a"], { NOCREATE: true }), "not found");
  const info = await cf.info("c");
  same("CF.INFO items", info["Number of items inserted"], 2);
  same("CF.INFO deleted", info["Number of items deleted"], 1);
  same("CF.INFO fields", Object.keys(info).sort(),
    ["Bucket size", "Expansion rate", "Max iterations", "Number of buckets", "Number of filters",
      "Number of items deleted", "Number of items inserted", "Size"]);
  same("CF.INFO bucket size", (await cf.info("o"))["Bucket size"], 4);
}

async function dumps() {
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  for (const family of ["bf", "cf"]) {
    await client[family].insert(`${family}:from`, range(3000));
    for (let iterator = 0; ;) {
      const piece = await bytes[family].scanDump(`${family}:from`, iterator);
      iterator = piece.iterator;
      if (iterator === 0) break;
      same(`${family} LOADCHUNK`,
        String(await bytes[family].loadChunk(`${family}:to`, iterator, piece.chunk)), "OK");
    }
    const there = await Promise.all(range(3000).map((i) => client[family].exists(`${family}:to`, i)));
    holds(`${family} after LOADCHUNK`, there.every(Boolean));
  }
}

async function pipelines() {
  const many = await Promise.all(range(5000).map((i) => client.bf.add("p", i)));
  holds("most keys added in one pipeline are new", many.filter(Boolean).length > 4900);
  const found = await Promise.all(range(10000).map((i) => client.bf.exists("p", i)));
  holds("all added keys are found", found.slice(0, 5000).every(Boolean));
  holds("few absent keys are found", found.slice(5000).filter(Boolean).length < 150);
  same("MULTI", await client.multi().bf.add("m", "x").bf.exists("m", "x").cf.count("c", "pear").exec(),
    [true, true, 1]);
  same("pipeline", await client.multi().bf.exists("m", "x").ping().execAsPipeline(), [true, "PONG"]);
  await fails("MULTI with a syntax error", client.multi().addCommand(["BF.ADD", "m"]).exec(), "");
}

async function generic() {
  same("PING", await client.ping(), "PONG");
  same("CLIENT GETNAME", await client.clientGetName(), "noddy");
  const info = await client.clientInfo();
  same("CLIENT INFO lib-name", info.libName, "node-redis");
  same("CLIENT INFO resp", info.resp, protocol);
  holds("CLIENT LIST", (await client.clientList()).some((c) => c.id === info.id));
  same("TYPE", await client.type("k"), "MBbloom--");
  const names = [];
  for await (const some of client.scanIterator({ COUNT: 3 })) names.push(...[].concat(some));
  same("SCAN", names.sort(), (await client.keys("*")).sort());
  same("EXPIRE", await client.expire("k", 100), 1);
  holds("TTL", (await client.ttl("k")) > 90);
  same("RENAME", await client.rename("k", "r"), "OK");
  same("COPY", await client.copy("r", "s"), 1);
  same("EXISTS", await client.exists(["k", "r", "s"]), 2);
  same("DEL", await client.del(["r", "s"]), 2);
  same("CONFIG GET", { ...(await client.configGet("save")) }, { save: "" });
  same("CONFIG SET", await client.configSet("timeout", "0"), "OK");
  holds("INFO", (await client.info("server")).includes("redis_version:7.2.0"));
  holds("COMMAND COUNT", (await client.commandCount()) > 60);
  same("COMMAND INFO", (await client.commandInfo(["BF.ADD"]))[0].arity, 3);
  same("COMMAND GETKEYS", await client.commandGetKeys(["DEL", "a", "b"]), ["a", "b"]);
  same("MODULE LIST", (await client.moduleList())[0].name, "bf");
  same("ACL WHOAMI", await client.aclWhoAmI(), "default");
  holds("MEMORY USAGE", (await client.memoryUsage("p")) > 1000);
  holds("DBSIZE", (await client.dbSize()) > 5);
  same("ROLE", (await client.role()).role, "master");
  same("ECHO", await client.echo("\u00fc"), "\u00fc");
  await fails("GET", client.get("k"), "unknown command");
  await fails("unknown", client.sendCommand(["NOSUCH"]), "unknown command 'NOSUCH'");
  same("SAVE", await client.sendCommand(["SAVE"]), "OK");
  same("FLUSHALL", await client.flushAll(), "OK");
  same("DBSIZE", await client.dbSize(), 0);
}

for (const part of [bloom, cuckoo, dumps, pipelines, generic]) await part();
const copy = client.duplicate();
await copy.connect();
same("duplicate", await copy.bf.add("d", "x"), true);
await copy.close();
await client.close();
finish();
