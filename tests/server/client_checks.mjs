// Functions shared by the client scripts. They count checks, and load packages relative to the
// directory in which node was started.
import { createRequire } from "node:module";
import { isDeepStrictEqual, inspect } from "node:util";

export const load = (name) => createRequire(process.cwd() + "/")(name);
export const range = (n, from = 0) => Array.from({ length: n }, (_, i) => String(from + i));

let passed = 0;
let failed = 0;

export function same(what, found, expected) {
  if (isDeepStrictEqual(found, expected)) {
    passed++;
  } else {
    failed++;
    console.log(`WRONG ${what}: found ${inspect(found)}, expected ${inspect(expected)}`);
  }
}

export function holds(what, condition) {
  same(what, Boolean(condition), true);
}

export async function fails(what, promise, words) {
  try {
    const value = await promise;
    same(what, value, `an error with ${words}`);
  } catch (error) {
    holds(`${what}: ${error.message}`, error.message.includes(words));
  }
}

export function finish() {
  console.log(`${passed} checks passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
