// What is asked of every client, and how the outcome is judged.
import assert from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'

import { END } from './contract.js'

function made (prefix, count, partitions) {
  return Array.from({ length: count }, (_, i) => ({ partition: i % partitions, key: 'k' + i, value: prefix + i, header: 'h' + i }))
}

// With Apache Kafka a broker hears of a topic later than the controller answers.
async function create (client, partitions, ...topics) {
  for (const topic of topics) {
    await client.topic(topic, partitions)
  }
  await sleep(300)
}

async function send (client, topic, records, options = {}) {
  const producer = await client.producer(options)
  await producer.send(topic, records)
  await producer.close()
}

async function seal (client, topic, partitions) {
  await send(client, topic, made('', partitions, partitions).map(r => ({ ...r, value: END })))
}

function short (records) {
  return `${records.length} records ${records.slice(0, 12).map(r => r.value)}`
}

function same (what, read, sent) {
  const plain = records => records.map(({ partition, key, value, header }) => [partition, key, value, header])
  assert.deepEqual(plain(read), plain(sent), `${what}: wanted ${short(sent)}, read ${short(read)}`)
}

async function holds (client, topic, partitions, committed, sent) {
  const read = await client.read(topic, partitions, committed)
  for (let p = 0; p < partitions; p++) {
    const offsets = read[p].map(r => r.offset)
    assert.deepEqual(offsets, [...new Set(offsets)].sort((a, b) => a - b), `${topic}-${p}: offsets ${offsets}`)
    same(`${topic}-${p}${committed ? ' read_committed' : ''}`, read[p], sent.filter(r => r.partition === p))
  }
}

async function produce (client, topic) {
  await create(client, 3, topic)
  const sent = []
  for (const codec of client.codecs) {
    const records = made(codec + '-', 60, 3)
    await send(client, topic, records, { codec })
    sent.push(...records)
  }
  await seal(client, topic, 3)
  await holds(client, topic, 3, false, sent)
  return client.codecs.join(', ')
}

async function idempotent (client, topic) {
  await create(client, 3, topic)
  const producer = await client.producer({ idempotent: true })
  const sent = made('v', 3000, 3)
  for (let first = 0; first < sent.length; first += 300) {
    await producer.send(topic, sent.slice(first, first + 300))
  }
  await producer.close()
  await seal(client, topic, 3)
  await holds(client, topic, 3, true, sent)
}

async function transact (producer, topics, records, commits) {
  await producer.begin()
  for (const topic of topics) {
    await producer.send(topic, records)
  }
  await (commits ? producer.commit() : producer.abort())
}

async function transactions (client, scope, outcomes) {
  const topics = [scope + '-a', scope + '-b']
  await create(client, 2, ...topics)
  const producer = await client.producer({ txn: scope })
  const all = []
  const kept = []
  for (const [n, commits] of outcomes.entries()) {
    const records = made(`t${n}-`, 20, 2)
    await transact(producer, topics, records, commits)
    all.push(...records)
    kept.push(...(commits ? records : []))
  }
  await producer.close()
  for (const topic of topics) {
    await seal(client, topic, 2)
    await holds(client, topic, 2, true, kept)
    await holds(client, topic, 2, false, all)
  }
}

async function fencing (client, topic) {
  await create(client, 1, topic)
  const old = await client.producer({ txn: topic })
  await transact(old, [topic], made('first', 1, 1), true)
  await old.begin()
  await old.send(topic, made('open', 1, 1))
  const next = await client.producer({ txn: topic })
  await transact(next, [topic], made('next', 1, 1), true)
  let told
  try {
    await old.send(topic, made('late', 1, 1))
    await old.commit()
  } catch (error) {
    told = error
  }
  assert.ok(told, 'the old instance could commit')
  assert.ok(client.fenced(told), `the old instance is not told that it is fenced: ${told}`)
  await next.close()
  await seal(client, topic, 1)
  await holds(client, topic, 1, true, [...made('first', 1, 1), ...made('next', 1, 1)])
}

// One life of a worker: transactions until so many records have gone through.
async function life (client, scope, count, commits) {
  const etl = await client.etl(scope + '-group', scope + '-in', scope)
  let done = 0
  while (done < count) {
    done += await etl.step(scope + '-out', commits)
  }
  await etl.close()
  return done
}

async function offsets (client, scope) {
  const [source, target, group] = [scope + '-in', scope + '-out', scope + '-group']
  await create(client, 2, source, target)
  const sent = made('v', 60, 2)
  await send(client, source, sent)
  const aborted = await life(client, scope, 1, false)
  assert.deepEqual(await client.committed(group, source, 2), {}, 'offsets are committed after the abort')
  await life(client, scope, 60, true)
  const found = await client.committed(group, source, 2)
  assert.deepEqual(found, { 0: 30, 1: 30 }, `offsets ${JSON.stringify(found)} are committed, wanted 30 and 30`)
  await seal(client, target, 2)
  await holds(client, target, 2, true, sent)
  const seen = (await client.read(target, 2, false)).flat().length
  assert.equal(seen, 60 + aborted, `${aborted} records were aborted and 60 committed, read_uncommitted sees ${seen}`)
}

async function group (client, topic, protocol) {
  await create(client, 4, topic)
  const a = await client.member(topic, topic, protocol)
  await shared(4, a)
  const b = await client.member(topic, topic, protocol)
  await shared(4, a, b)
  await consumed(client, topic, made('v', 200, 4), a, b)
  await b.close()
  await shared(4, a)
  await consumed(client, topic, made('w', 40, 4), a)
  await a.close()
  const found = await client.committed(topic, topic, 4)
  assert.deepEqual(found, { 0: 60, 1: 60, 2: 60, 3: 60 }, `offsets ${JSON.stringify(found)} are committed, wanted 60 of each partition`)
}

// Waits until the members share the partitions evenly.
async function shared (partitions, ...members) {
  for (;;) {
    for (const m of members) {
      const came = await m.poll()
      assert.equal(came.length, 0, `polling gave ${short(came)}`)
    }
    const owned = members.map(m => m.assigned())
    const all = new Set(owned.flat())
    if (all.size === partitions && owned.every(own => own.length === partitions / members.length)) {
      return
    }
  }
}

// Sends records and has the members read each of them once, in order, and commit.
async function consumed (client, topic, records, ...members) {
  await send(client, topic, records)
  const read = []
  while (read.length < records.length) {
    for (const m of members) {
      for (const r of await m.poll()) {
        assert.ok(m.assigned().includes(r.partition), `a record of partition ${r.partition} came, which is not assigned`)
        read.push(r)
      }
    }
  }
  for (const p of new Set(records.map(r => r.partition))) {
    same(`partition ${p}`, read.filter(r => r.partition === p), records.filter(r => r.partition === p))
  }
  for (const m of members) {
    await m.commit()
  }
}

const CAPABILITIES = {
  produce,
  idempotent,
  commit: (client, scope) => transactions(client, scope, [true, true, true, true, true]),
  abort: (client, scope) => transactions(client, scope, [true, false, true, false, false, true]),
  fencing,
  offsets,
  classic: (client, scope) => group(client, scope, 'classic'),
  consumer: (client, scope) => group(client, scope, 'consumer'),
  admin: (client, scope) => client.admin(scope)
}

export function run (client, scope, capability) {
  return CAPABILITIES[capability](client, scope)
}
