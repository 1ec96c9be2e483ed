// kafkajs
import kafkajs from 'kafkajs'

import { END, Inbox, Lacks, ensure, pinned, steps } from './contract.js'

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs

export const NAME = 'kafkajs'
export const VERSION = pinned(NAME)

function arrived (partition, { offset, key, value, headers }) {
  const header = Object.keys(headers).join() === 'h' ? headers.h.toString() : ''
  return { partition, offset: Number(offset), key: key.toString(), value: value.toString(), header }
}

class Producer {
  constructor (inner, compression) {
    Object.assign(this, { inner, compression, transaction: undefined })
  }

  async send (topic, records) {
    const messages = records.map(({ partition, key, value, header }) => ({ partition, key, value, headers: { h: header } }))
    await (this.transaction ?? this.inner).send({ topic, messages, compression: this.compression, acks: -1 })
  }

  async begin () {
    this.transaction = await this.inner.transaction()
  }

  async commit () {
    await this.transaction.commit()
  }

  async abort () {
    await this.transaction.abort()
  }

  async close () {
    await this.inner.disconnect()
  }
}

class Member {
  inbox = new Inbox()
  own = []
  next = new Map()

  constructor (inner, topic) {
    Object.assign(this, { inner, topic })
    inner.on(inner.events.GROUP_JOIN, ({ payload }) => { this.own = payload.memberAssignment[topic] ?? [] })
    inner.on(inner.events.REBALANCING, () => { this.own = [] })
  }

  async start () {
    await this.inner.connect()
    await this.inner.subscribe({ topics: [this.topic], fromBeginning: true })
    await this.inner.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => { this.inbox.records.push(arrived(partition, message)) }
    })
    return this
  }

  async poll () {
    const came = await this.inbox.poll()
    for (const r of came) {
      this.next.set(r.partition, r.offset + 1)
    }
    return came
  }

  assigned () {
    return this.own
  }

  offsets () {
    return [...this.next].map(([partition, offset]) => ({ topic: this.topic, partition, offset: String(offset) }))
  }

  async commit () {
    await this.inner.commitOffsets(this.offsets())
  }

  async close () {
    await this.inner.disconnect()
  }
}

class Etl {
  constructor (member, producer, group) {
    Object.assign(this, { member, producer, group })
  }

  async step (target, commits) {
    const records = await this.member.poll()
    if (records.length === 0) {
      return 0
    }
    await this.producer.begin()
    await this.producer.send(target, records)
    const partitions = this.member.offsets().map(({ partition, offset }) => ({ partition, offset }))
    await this.producer.transaction.sendOffsets({ consumerGroupId: this.group, topics: [{ topic: this.member.topic, partitions }] })
    await (commits ? this.producer.commit() : this.producer.abort())
    return records.length
  }

  async close () {
    await this.member.close()
    await this.producer.close()
  }
}

class Client {
  codecs = ['none', 'gzip']

  constructor (bootstrap) {
    this.kafka = new Kafka({ clientId: 'matrix', brokers: [bootstrap], logLevel: logLevel.NOTHING })
    this.inner = this.kafka.admin()
  }

  async close () {
    await this.inner.disconnect()
  }

  fenced (error) {
    const types = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH']
    return types.includes(error.type) || (error.cause !== undefined && this.fenced(error.cause))
  }

  async topic (topic, numPartitions) {
    ensure(await this.inner.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1 }] }), 'the topic is there already')
  }

  async producer ({ codec = 'none', idempotent = false, txn }) {
    const inner = this.kafka.producer({
      idempotent: idempotent || txn !== undefined,
      maxInFlightRequests: 1,
      transactionalId: txn,
      retry: { retries: 3 }
    })
    await inner.connect()
    return new Producer(inner, codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None)
  }

  async read (topic, partitions, committed) {
    // It has no consumer without a group.
    const inner = this.kafka.consumer({ groupId: `${topic}-reader-${Math.random()}`, readUncommitted: !committed, maxWaitTimeInMs: 200 })
    await inner.connect()
    await inner.subscribe({ topics: [topic], fromBeginning: true })
    const read = Array.from({ length: partitions }, () => [])
    let open = partitions
    await new Promise((resolve, reject) => {
      inner.on(inner.events.CRASH, ({ payload }) => reject(payload.error))
      inner.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (message.value.toString() !== END) {
            read[partition].push(arrived(partition, message))
          } else if (--open === 0) {
            resolve()
          }
        }
      }).catch(reject)
    })
    await inner.disconnect()
    return read
  }

  async member (groupId, topic, protocol) {
    if (protocol === 'consumer') {
      throw new Lacks('the client has only the classic protocol')
    }
    const settings = { groupId, sessionTimeout: 10_000, heartbeatInterval: 300, maxWaitTimeInMs: 200, readUncommitted: false }
    return new Member(this.kafka.consumer(settings), topic).start()
  }

  async etl (group, source, txn) {
    return new Etl(await this.member(group, source, 'classic'), await this.producer({ txn }), group)
  }

  async committed (groupId, topic) {
    const [{ partitions }] = await this.inner.fetchOffsets({ groupId, topics: [topic] })
    return Object.fromEntries(partitions.filter(p => p.offset !== '-1').map(p => [p.partition, Number(p.offset)]))
  }

  async admin (topic) {
    const inner = this.inner
    const group = topic + '-group'
    return steps(
      ['createTopics', () => this.topic(topic, 1)],
      ['describeCluster', async () => {
        const found = await inner.describeCluster()
        ensure(found.brokers.length === 1 && found.clusterId, found)
      }],
      ['alterConfigs', () => inner.alterConfigs({
        validateOnly: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '123456' }] }]
      })],
      ['describeConfigs', async () => {
        const found = await inner.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }] })
        ensure(found.resources[0].configEntries[0].configValue === '123456', found)
      }],
      ['createPartitions', () => inner.createPartitions({ topicPartitions: [{ topic, count: 3 }] })],
      ['fetchTopicMetadata', async () => {
        const found = await inner.fetchTopicMetadata({ topics: [topic] })
        ensure(found.topics[0].partitions.length === 3, found)
      }],
      ['listTopics', async () => ensure((await inner.listTopics()).includes(topic), 'not this topic')],
      ['produce', async () => {
        const producer = await this.producer({ idempotent: true })
        await producer.send(topic, ['a', 'b', 'c'].map(value => ({ partition: 0, key: 'k', value, header: 'h' })))
        await producer.close()
      }],
      ['deleteTopicRecords', () => inner.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] })],
      ['fetchTopicOffsets', async () => {
        const found = (await inner.fetchTopicOffsets(topic)).find(p => p.partition === 0)
        ensure(found.low === '2' && found.high === '3', found)
      }],
      ['setOffsets', () => inner.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '2' }] })],
      ['listGroups', async () => ensure((await inner.listGroups()).groups.some(g => g.groupId === group), 'not this group')],
      ['describeGroups', async () => {
        const found = await inner.describeGroups([group])
        ensure(found.groups[0].state === 'Empty', found)
      }],
      ['fetchOffsets', async () => ensure((await this.committed(group, topic))[0] === 2, 'another offset')],
      ['deleteGroups', () => inner.deleteGroups([group])],
      ['deleteTopics', () => inner.deleteTopics({ topics: [topic] })]
    )
  }
}

export async function connect (bootstrap) {
  const client = new Client(bootstrap)
  await client.inner.connect()
  return client
}
