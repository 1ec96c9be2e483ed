// @platformatic/kafka
import { Admin, ConfigResourceTypes, Consumer, FetchIsolationLevels, Producer as Inner, stringDeserializers, stringSerializers } from '@platformatic/kafka'

import { END, Inbox, PAUSE_MS, ensure, pinned, steps } from './contract.js'

export const NAME = '@platformatic/kafka'
export const VERSION = pinned(NAME)

function arrived ({ partition, offset, key, value, headers }) {
  const header = headers.size === 1 ? headers.get('h') : ''
  return { partition, offset: Number(offset), key, value, header }
}

class Producer {
  constructor (inner) {
    this.inner = inner
    this.transaction = undefined
  }

  async send (topic, records) {
    const messages = records.map(({ partition, key, value, header }) => ({ topic, partition, key, value, headers: { h: header } }))
    await (this.transaction ?? this.inner).send({ messages, acks: -1 })
  }

  async begin () {
    // Its default asks for the epoch after that of producer 0, which a transactional id that is in use refuses.
    this.transaction = await this.inner.beginTransaction({ producerId: -1n, producerEpoch: -1 })
  }

  async commit () {
    await this.transaction.commit()
  }

  async abort () {
    await this.transaction.abort()
  }

  async close () {
    await this.inner.close()
  }
}

class Member {
  inbox = new Inbox()
  last = new Map()

  constructor (inner, topic) {
    Object.assign(this, { inner, topic })
  }

  async start () {
    this.stream = await this.inner.consume({ topics: [this.topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
    this.stream.on('data', message => this.inbox.records.push(message))
    this.stream.on('error', error => { this.error = error })
    return this
  }

  async messages () {
    const came = await this.inbox.poll()
    if (this.error) {
      throw this.error
    }
    for (const message of came) {
      this.last.set(message.partition, message)
    }
    return came
  }

  async poll () {
    return (await this.messages()).map(arrived)
  }

  assigned () {
    return this.inner.assignments?.find(a => a.topic === this.topic)?.partitions ?? []
  }

  async commit () {
    const offsets = [...this.last].map(([partition, { offset }]) => ({ topic: this.topic, partition, offset: offset + 1n, leaderEpoch: -1 }))
    await this.inner.commit({ offsets })
  }

  async close () {
    await this.inner.close(true)
  }
}

class Etl {
  constructor (member, producer) {
    Object.assign(this, { member, producer })
  }

  async step (target, commits) {
    const messages = await this.member.messages()
    if (messages.length === 0) {
      return 0
    }
    await this.producer.begin()
    await this.producer.send(target, messages.map(arrived))
    await this.producer.transaction.addConsumer(this.member.inner)
    for (const message of new Map(messages.map(m => [m.partition, m])).values()) {
      await this.producer.transaction.addOffset(message)
    }
    await (commits ? this.producer.commit() : this.producer.abort())
    return messages.length
  }

  async close () {
    await this.member.close()
    await this.producer.close()
  }
}

class Client {
  codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd']

  constructor (bootstrap) {
    this.conf = { clientId: 'matrix', bootstrapBrokers: [bootstrap] }
    this.inner = new Admin(this.conf)
  }

  async close () {
    await this.inner.close()
  }

  fenced (error) {
    const ids = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH']
    return ids.includes(error.apiId) || [error.cause, ...(error.errors ?? [])].some(e => e !== undefined && this.fenced(e))
  }

  async topic (topic, partitions) {
    await this.inner.createTopics({ topics: [topic], partitions, replicas: 1 })
  }

  async producer ({ codec = 'none', idempotent = false, txn }) {
    const settings = { ...this.conf, compression: codec, serializers: stringSerializers, idempotent: idempotent || txn !== undefined, retries: 3 }
    return new Producer(new Inner(txn === undefined ? settings : { ...settings, transactionalId: txn }))
  }

  consumer (groupId, committed, settings = {}) {
    const isolationLevel = committed ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED
    return new Consumer({ ...this.conf, groupId, isolationLevel, maxWaitTime: PAUSE_MS, deserializers: stringDeserializers, ...settings })
  }

  async read (topic, partitions, committed) {
    const inner = this.consumer(`${topic}-reader-${Math.random()}`, committed)
    const stream = await inner.consume({ topics: [topic], mode: 'earliest', autocommit: false })
    const read = Array.from({ length: partitions }, () => [])
    let open = partitions
    for await (const message of stream) {
      if (message.value !== END) {
        read[message.partition].push(arrived(message))
      } else if (--open === 0) {
        break
      }
    }
    await inner.close(true)
    return read
  }

  async member (group, topic, protocol) {
    const settings = protocol === 'consumer' ? { groupProtocol: protocol } : { sessionTimeout: 10_000, heartbeatInterval: 300 }
    return new Member(this.consumer(group, true, settings), topic).start()
  }

  async etl (group, source, txn) {
    return new Etl(await this.member(group, source, 'classic'), await this.producer({ txn }))
  }

  async committed (groupId, name, partitions) {
    const asked = { groupId, topics: [{ name, partitionIndexes: [...Array(partitions).keys()] }] }
    const [group] = await this.inner.listConsumerGroupOffsets({ groups: [asked] })
    const found = group.topics.flatMap(t => t.partitions).filter(p => p.committedOffset >= 0n)
    return Object.fromEntries(found.map(p => [p.partitionIndex, Number(p.committedOffset)]))
  }

  async admin (topic) {
    const inner = this.inner
    const group = topic + '-group'
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
    const offset = async timestamp => {
      const found = await inner.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] })
      return Number(found[0].partitions[0].offset)
    }
    return steps(
      ['createTopics', () => this.topic(topic, 1)],
      ['incrementalAlterConfigs', () => inner.incrementalAlterConfigs({
        resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation: 0, value: '123456' }] }]
      })],
      ['describeConfigs', async () => {
        const found = await inner.describeConfigs({ resources: [{ ...resource, configurationKeys: ['retention.ms'] }] })
        ensure(found[0].configs[0].value === '123456', found)
      }],
      ['createPartitions', () => inner.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] })],
      ['listTopics', async () => ensure((await inner.listTopics()).includes(topic), 'not this topic')],
      ['produce', async () => {
        const producer = await this.producer({ idempotent: true })
        await producer.send(topic, ['a', 'b', 'c'].map(value => ({ partition: 0, key: 'k', value, header: 'h' })))
        await producer.close()
      }],
      ['listOffsets', async () => ensure(await offset(-1n) === 3, 'another end')],
      ['deleteRecords', () => inner.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 2n }] }] })],
      ['listOffsets', async () => ensure(await offset(-2n) === 2, 'another start')],
      ['alterConsumerGroupOffsets', () => inner.alterConsumerGroupOffsets({
        groupId: group, topics: [{ name: topic, partitionOffsets: [{ partition: 0, offset: 2n }] }]
      })],
      ['listGroups', async () => ensure((await inner.listGroups()).has(group), 'not this group')],
      ['describeGroups', async () => {
        const found = (await inner.describeGroups({ groups: [group] })).get(group)
        ensure(found.state === 'EMPTY' || found.state === 'Empty', found)
      }],
      ['listConsumerGroupOffsets', async () => ensure((await this.committed(group, topic, 1))[0] === 2, 'another offset')],
      ['deleteGroups', () => inner.deleteGroups({ groups: [group] })],
      ['describeLogDirs', async () => {
        const found = await inner.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] })
        ensure(found[0].results[0].topics[0].name === topic, found)
      }],
      ['deleteTopics', () => inner.deleteTopics({ topics: [topic] })]
    )
  }
}

export async function connect (bootstrap) {
  return new Client(bootstrap)
}
