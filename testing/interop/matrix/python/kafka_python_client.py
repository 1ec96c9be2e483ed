"""kafka-python."""
import kafka
from kafka import admin as ad
from kafka import errors

import contract
from contract import PAUSE_S, Adapter, Lacks, Reading, ensure, incoming, steps

NAME = 'kafka-python'
CALL_S = 20


def version():
    return kafka.__version__


async def connect(bootstrap):
    return Client(bootstrap)


def arrived(m):
    return incoming(m.partition, m.offset, m.key, m.value, m.headers)


class Producer:
    def __init__(self, conf, txn):
        self.inner = kafka.KafkaProducer(**conf)
        if txn:
            self.inner.init_transactions()

    async def send(self, topic, records):
        waiting = [self.inner.send(topic, r.value.encode(), r.key.encode(), [('h', r.header.encode())], r.partition) for r in records]
        for future in waiting:
            future.get(CALL_S)

    async def begin(self):
        self.inner.begin_transaction()

    async def commit(self):
        self.inner.commit_transaction()

    async def abort(self):
        self.inner.abort_transaction()

    async def close(self):
        self.inner.close(CALL_S)


class Member(contract.Member):
    def __init__(self, conf, topic):
        super().__init__(kafka.KafkaConsumer(topic, **conf))

    async def poll(self):
        found = self.inner.poll(int(PAUSE_S * 1000), 20)
        return [arrived(m) for messages in found.values() for m in messages]

    async def commit(self):
        self.inner.commit()

    async def close(self):
        self.inner.close()


class Etl(contract.Etl):
    async def send_offsets(self, consumer):
        at = {p: kafka.OffsetAndMetadata(consumer.position(p), '', -1) for p in consumer.assignment()}
        self.producer.inner.send_offsets_to_transaction(at, consumer.group_metadata())


class Client(Adapter):
    def __init__(self, bootstrap):
        self.conf = {'bootstrap_servers': bootstrap}
        self.inner = kafka.KafkaAdminClient(**self.conf)

    async def close(self):
        self.inner.close()

    async def topic(self, name, partitions):
        self.inner.create_topics([ad.NewTopic(name, partitions, 1)])

    async def producer(self, codec='none', idempotent=False, txn=None):
        conf = {**self.conf, 'compression_type': None if codec == 'none' else codec, 'enable_idempotence': bool(idempotent or txn)}
        return Producer({**conf, 'transactional_id': txn}, txn)

    def fenced(self, error):
        return isinstance(error, (errors.ProducerFencedError, errors.InvalidProducerEpochError))

    async def read(self, topic, partitions, committed):
        consumer = kafka.KafkaConsumer(**self.conf, group_id=None, auto_offset_reset='earliest',
                                       isolation_level='read_committed' if committed else 'read_uncommitted')
        consumer.assign([kafka.TopicPartition(topic, p) for p in range(partitions)])
        reading = Reading(partitions)
        for m in consumer:
            if reading.complete_with(arrived(m)):
                break
        consumer.close()
        return reading.read

    async def member(self, group, topic, protocol):
        if protocol == 'consumer':
            raise Lacks('the client has only the classic protocol')
        return Member({**self.conf, 'group_id': group, 'enable_auto_commit': False, 'auto_offset_reset': 'earliest',
                       'isolation_level': 'read_committed', 'session_timeout_ms': 10000, 'heartbeat_interval_ms': 300}, topic)

    async def etl(self, group, source, txn):
        return Etl(await self.member(group, source, 'classic'), await self.producer(txn=txn))

    async def committed(self, group, topic, partitions):
        found = self.inner.list_group_offsets({group: [kafka.TopicPartition(topic, p) for p in range(partitions)]})[group]
        return {p.partition: at.offset for p, at in found.items() if at.offset >= 0}

    async def admin(self, topic):
        inner, group, zero = self.inner, topic + '-group', kafka.TopicPartition(topic, 0)

        async def cluster():
            found = inner.describe_cluster()
            ensure(len(found['brokers']) == 1 and found['cluster_id'], found)

        async def alter():
            inner.alter_configs([ad.ConfigResource(ad.ConfigResourceType.TOPIC, topic, {'retention.ms': '123456'})])

        async def configs():
            found = inner.describe_configs([ad.ConfigResource(ad.ConfigResourceType.TOPIC, topic)])
            ensure('123456' in str(found), found)

        async def more():
            inner.create_partitions({topic: ad.NewPartitions(3)})

        async def topics():
            ensure(topic in str(inner.list_topics()), 'not this topic')

        async def metadata():
            found = inner.describe_topics([topic])
            ensure(len(found[0]['partitions']) == 3, found)

        async def fill():
            producer = await self.producer(idempotent=True)
            for n in range(3):
                producer.inner.send(topic, b'v%d' % n, partition=0).get(CALL_S)
            await producer.close()

        async def ends():
            found = inner.list_partition_offsets({zero: kafka.OffsetSpec.LATEST})
            ensure(found[zero].offset == 3, found)

        async def delete():
            inner.delete_records({zero: 2})

        async def starts():
            found = inner.list_partition_offsets({zero: kafka.OffsetSpec.EARLIEST})
            ensure(found[zero].offset == 2, found)

        async def place():
            found = inner.alter_group_offsets(group, {zero: kafka.OffsetAndMetadata(2, 'here', -1)})
            ensure(found[zero] is errors.NoError, found)

        async def offsets():
            found = inner.list_group_offsets(group)[group]
            ensure(found[zero].offset == 2 and found[zero].metadata == 'here', found)

        async def groups():
            ensure(group in str(inner.list_groups()), 'not this group')

        async def members():
            ensure('Empty' in str(inner.describe_groups([group])), 'another state')

        async def no_group():
            inner.delete_groups([group])

        async def log_directories():
            ensure(topic in str(inner.describe_log_dirs()), 'not this topic')

        async def producers():
            found = inner.describe_producers([zero])
            ensure(len(found[zero].active_producers if hasattr(found[zero], 'active_producers') else found[zero]) == 1, found)

        async def transactions():
            inner.list_transactions()

        async def quorum():
            ensure(inner.describe_metadata_quorum(), 'nothing')

        async def features():
            ensure('transaction.version' in str(inner.describe_features()), inner.describe_features())

        async def no_topic():
            inner.delete_topics([topic])

        return await steps(('create_topics', lambda: self.topic(topic, 1)), ('describe_cluster', cluster), ('alter_configs', alter),
                           ('describe_configs', configs), ('create_partitions', more), ('list_topics', topics), ('describe_topics', metadata),
                           ('produce', fill), ('list_partition_offsets', ends), ('delete_records', delete), ('list_partition_offsets', starts),
                           ('alter_group_offsets', place), ('list_group_offsets', offsets), ('list_groups', groups), ('describe_groups', members),
                           ('delete_groups', no_group), ('describe_log_dirs', log_directories), ('describe_producers', producers),
                           ('list_transactions', transactions), ('describe_metadata_quorum', quorum), ('describe_features', features),
                           ('delete_topics', no_topic))
