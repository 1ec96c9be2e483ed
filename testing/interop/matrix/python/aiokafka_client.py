"""aiokafka."""
import asyncio

import aiokafka as ak
import aiokafka.admin as ad
from aiokafka import errors

import contract
from contract import PAUSE_S, Adapter, Lacks, Reading, ensure, incoming, steps

NAME = 'aiokafka'


def version():
    return ak.__version__


async def connect(bootstrap):
    client = Client(bootstrap)
    await client.inner.start()
    return client


def unpacked(response):
    """Raises the first error of a response: this client hands over what the broker said."""
    for field in ('topic_errors', 'topic_error_codes', 'topic_partition_errors', 'resources', 'groups'):
        for entry in getattr(response, field, []):
            code = entry[0] if field in ('resources', 'groups') else entry[1]
            if code:
                raise errors.for_code(code)(entry)
    return response


def arrived(m):
    return incoming(m.partition, m.offset, m.key, m.value, m.headers)


class Producer:
    def __init__(self, inner):
        self.inner = inner

    async def send(self, topic, records):
        waiting = [await self.inner.send(topic, r.value.encode(), r.key.encode(), r.partition, headers=[('h', r.header.encode())]) for r in records]
        await asyncio.gather(*waiting)

    async def begin(self):
        await self.inner.begin_transaction()

    async def commit(self):
        await self.inner.commit_transaction()

    async def abort(self):
        await self.inner.abort_transaction()

    async def close(self):
        await self.inner.stop()


class Member(contract.Member):
    async def poll(self):
        found = await self.inner.getmany(timeout_ms=int(PAUSE_S * 1000), max_records=20)
        return [arrived(m) for messages in found.values() for m in messages]

    async def commit(self):
        await self.inner.commit()

    async def close(self):
        await self.inner.stop()


class Etl(contract.Etl):
    def __init__(self, member, producer, group):
        super().__init__(member, producer)
        self.group = group

    async def send_offsets(self, consumer):
        at = {p: await consumer.position(p) for p in consumer.assignment()}
        await self.producer.inner.send_offsets_to_transaction(at, self.group)


class Client(Adapter):
    def __init__(self, bootstrap):
        self.conf = {'bootstrap_servers': bootstrap}
        self.inner = ad.AIOKafkaAdminClient(**self.conf)

    async def close(self):
        await self.inner.close()

    async def topic(self, name, partitions):
        unpacked(await self.inner.create_topics([ad.NewTopic(name, partitions, 1)]))

    async def producer(self, codec='none', idempotent=False, txn=None):
        conf = {**self.conf, 'compression_type': None if codec == 'none' else codec, 'enable_idempotence': bool(idempotent or txn)}
        inner = ak.AIOKafkaProducer(**conf, transactional_id=txn)
        await inner.start()
        return Producer(inner)

    def fenced(self, error):
        return isinstance(error, (errors.ProducerFenced, errors.InvalidProducerEpoch))

    async def read(self, topic, partitions, committed):
        consumer = ak.AIOKafkaConsumer(**self.conf, auto_offset_reset='earliest', isolation_level='read_committed' if committed else 'read_uncommitted')
        await consumer.start()
        consumer.assign([ak.TopicPartition(topic, p) for p in range(partitions)])
        reading = Reading(partitions)
        async for m in consumer:
            if reading.complete_with(arrived(m)):
                break
        await consumer.stop()
        return reading.read

    async def member(self, group, topic, protocol):
        if protocol == 'consumer':
            raise Lacks('the client has only the classic protocol')
        consumer = ak.AIOKafkaConsumer(
            topic, **self.conf, group_id=group, enable_auto_commit=False, auto_offset_reset='earliest', isolation_level='read_committed',
            session_timeout_ms=10000, heartbeat_interval_ms=300)
        # It joins on its own; `start` would wait for the first assignment, and that for the other members' polls.
        starting = asyncio.create_task(consumer.start())
        await asyncio.wait([starting], timeout=PAUSE_S)
        return Member(consumer)

    async def etl(self, group, source, txn):
        return Etl(await self.member(group, source, 'classic'), await self.producer(txn=txn), group)

    async def committed(self, group, topic, partitions):
        asked = [ak.TopicPartition(topic, p) for p in range(partitions)]
        found = await self.inner.list_consumer_group_offsets(group, partitions=asked)
        return {p.partition: at.offset for p, at in found.items() if at.offset >= 0}

    async def admin(self, topic):
        inner, group, zero = self.inner, topic + '-group', ak.TopicPartition(topic, 0)

        async def cluster():
            found = await inner.describe_cluster()
            ensure(len(found['brokers']) == 1 and found['cluster_id'], found)

        async def alter():
            resource = ad.config_resource.ConfigResource(ad.config_resource.ConfigResourceType.TOPIC, topic, {'retention.ms': '123456'})
            for response in await inner.alter_configs([resource]):
                unpacked(response)

        async def configs():
            resource = ad.config_resource.ConfigResource(ad.config_resource.ConfigResourceType.TOPIC, topic)
            found = unpacked((await inner.describe_configs([resource]))[0]).resources[0]
            ensure(any(entry[0] == 'retention.ms' and entry[1] == '123456' for entry in found[4]), found)

        async def more():
            unpacked(await inner.create_partitions({topic: ad.NewPartitions(3)}))

        async def topics():
            ensure(topic in await inner.list_topics(), 'not this topic')

        async def metadata():
            found = await inner.describe_topics([topic])
            ensure(len(found[0]['partitions']) == 3, found)

        async def fill():
            producer = await self.producer(idempotent=True)
            for n in range(3):
                await producer.inner.send_and_wait(topic, b'v%d' % n, partition=0)
            await producer.close()
            consumer = ak.AIOKafkaConsumer(**self.conf, group_id=group, enable_auto_commit=False)
            await consumer.start()
            consumer.assign([zero])
            await consumer.commit({zero: 2})
            await consumer.stop()

        async def delete():
            found = await inner.delete_records({zero: ad.RecordsToDelete(before_offset=2)})
            ensure(found[zero] == 2, found)

        async def groups():
            ensure(any(g[0] == group for g in await inner.list_consumer_groups()), 'not this group')

        async def members():
            found = (await inner.describe_consumer_groups([group]))[0].groups[0]
            ensure(found[2] == 'Empty', found)

        async def offsets():
            ensure(await self.committed(group, topic, 3) == {0: 2}, 'other offsets')

        async def no_topic():
            unpacked(await inner.delete_topics([topic]))

        return await steps(('create_topics', lambda: self.topic(topic, 1)), ('describe_cluster', cluster), ('alter_configs', alter),
                           ('describe_configs', configs), ('create_partitions', more), ('list_topics', topics), ('describe_topics', metadata),
                           ('produce and commit an offset', fill), ('delete_records', delete), ('list_consumer_groups', groups),
                           ('describe_consumer_groups', members), ('list_consumer_group_offsets', offsets), ('delete_topics', no_topic))
