// What every Node.js client of the matrix has in common.
//
// A client: codecs; topic(name, partitions); producer({codec, idempotent, txn}) -> {send(topic, records), begin, commit, abort, close};
// read(topic, partitions, committed) -> for each partition what is before the record END; member(group, topic, protocol) ->
// {poll() -> records, assigned() -> partitions, commit, close}; etl(group, source, txn) -> {step(target, commits) -> number, close};
// committed(group, topic, partitions) -> {partition: offset}; fenced(error); admin(topic) -> the calls that were made; close().
// A record is {partition, offset, key, value, header}. What a client cannot do throws Lacks.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export const END = 'end'
export const PATIENCE_MS = 40_000
export const PAUSE_MS = 200
const SETTLING_MS = 10_000

export class Lacks extends Error {}

// The version of a package, which is pinned exactly.
export function pinned (name) {
  return JSON.parse(readFileSync(new URL('package.json', import.meta.url))).dependencies[name]
}

export function ensure (holds, found) {
  if (!holds) {
    throw new Error('found ' + shown(found))
  }
}

export function shown (value) {
  return JSON.stringify(value instanceof Map ? [...value] : value, (_, v) => typeof v === 'bigint' ? Number(v) : v)
}

// Runs [name, call] in order. What is read may lag behind what was changed: the broker or the client may have it from before.
export async function steps (...calls) {
  for (const [name, call] of calls) {
    const deadline = Date.now() + (/^(describe|list|fetch)/.test(name) ? SETTLING_MS : 0)
    for (;;) {
      try {
        await call()
        break
      } catch (error) {
        if (Date.now() >= deadline) {
          throw new Error(`${name}: ${error.message}`, { cause: error })
        }
      }
      await sleep(50)
    }
  }
  return calls.map(([name]) => name).join(', ')
}

// Records that arrive whenever they do, taken by polls.
export class Inbox {
  records = []

  async poll () {
    await sleep(PAUSE_MS)
    return this.records.splice(0)
  }
}
