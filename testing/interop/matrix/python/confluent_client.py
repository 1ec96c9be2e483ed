"""librdkafka, through confluent-kafka."""
import logging
import uuid

import confluent_kafka as ck
from confluent_kafka import admin as ad

import contract
from contract import PAUSE_S, Adapter, Broken, Reading, ensure, incoming, steps

NAME = 'librdkafka (confluent-kafka, Python)'
CALL_S = 20


def version():
    return '%s (%s)' % (ck.libversion()[0], ck.__version__)


async def connect(bootstrap):
    return Client(bootstrap)


def arrived(message):
    if message.error():
        raise ck.KafkaException(message.error())
    return incoming(message.partition(), message.offset(), message.key(), message.value(), message.headers())


class Producer:
    def __init__(self, conf, txn):
        self.inner = ck.Producer(conf)
        if txn:
            self.inner.init_transactions(CALL_S)

    async def send(self, topic, records):
        errors = []
        for r in records:
            self.inner.produce(topic, r.value, r.key, r.partition, headers={'h': r.header}, on_delivery=lambda e, _: e and errors.append(e))
        if self.inner.flush(CALL_S):
            raise Broken('records are left in the producer')
        if errors:
            raise ck.KafkaException(errors[0])

    async def begin(self):
        self.inner.begin_transaction()

    async def commit(self):
        self.inner.commit_transaction(CALL_S)

    async def abort(self):
        self.inner.abort_transaction(CALL_S)

    async def close(self):
        self.inner.flush(CALL_S)


class Member(contract.Member):
    def __init__(self, conf, topic):
        super().__init__(ck.Consumer(conf))
        self.inner.subscribe([topic])

    async def poll(self):
        return [arrived(m) for m in self.inner.consume(20, PAUSE_S)]

    async def commit(self):
        self.inner.commit(asynchronous=False)

    async def close(self):
        self.inner.close()


class Etl(contract.Etl):
    async def send_offsets(self, consumer):
        at = [p for p in consumer.position(consumer.assignment()) if p.offset >= 0]
        self.producer.inner.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), CALL_S)


class Client(Adapter):
    def __init__(self, bootstrap):
        quiet = logging.getLogger('librdkafka')  # being fenced is expected here, and librdkafka would shout about it
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self.conf = {'bootstrap.servers': bootstrap, 'logger': quiet}
        self.inner = ad.AdminClient(self.conf)

    async def close(self):
        pass

    async def topic(self, name, partitions):
        self.inner.create_topics([ad.NewTopic(name, partitions, 1)])[name].result(CALL_S)

    async def producer(self, codec='none', idempotent=False, txn=None):
        conf = {**self.conf, 'compression.type': codec, 'enable.idempotence': bool(idempotent or txn), 'linger.ms': 2}
        if txn:
            conf['transactional.id'] = txn
        return Producer(conf, txn)

    def fenced(self, error):
        return isinstance(error, ck.KafkaException) and error.args[0].code() in (
            ck.KafkaError._FENCED, ck.KafkaError.INVALID_PRODUCER_EPOCH, ck.KafkaError.PRODUCER_FENCED)

    async def read(self, topic, partitions, committed):
        consumer = ck.Consumer({**self.conf, 'group.id': uuid.uuid4().hex, 'enable.auto.commit': False,
                                'isolation.level': 'read_committed' if committed else 'read_uncommitted'})
        consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in range(partitions)])
        reading, complete = Reading(partitions), False
        while not complete:
            for r in map(arrived, consumer.consume(500, PAUSE_S)):
                complete = reading.complete_with(r)
        consumer.close()
        return reading.read

    async def member(self, group, topic, protocol):
        conf = {**self.conf, 'group.id': group, 'enable.auto.commit': False, 'auto.offset.reset': 'earliest', 'isolation.level': 'read_committed'}
        if protocol == 'consumer':
            conf['group.protocol'] = 'consumer'
        else:
            conf.update({'session.timeout.ms': 10000, 'heartbeat.interval.ms': 300})
        return Member(conf, topic)

    async def etl(self, group, source, txn):
        return Etl(await self.member(group, source, 'classic'), await self.producer(txn=txn))

    async def committed(self, group, topic, partitions):
        asked = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(topic, p) for p in range(partitions)])
        answer = self.inner.list_consumer_group_offsets([asked])[group].result(CALL_S)
        return {p.partition: p.offset for p in answer.topic_partitions if p.offset >= 0}

    async def admin(self, topic):
        inner, group, resource = self.inner, topic + '-group', ad.ConfigResource(ad.ResourceType.TOPIC, topic)
        zero = ck.TopicPartition(topic, 0)

        async def cluster():
            found = inner.describe_cluster().result(CALL_S)
            ensure(len(found.nodes) == 1 and found.cluster_id, found)

        async def alter():
            changed = ad.ConfigResource(ad.ResourceType.TOPIC, topic, incremental_configs=[
                ad.ConfigEntry('retention.ms', '123456', incremental_operation=ad.AlterConfigOpType.SET)])
            inner.incremental_alter_configs([changed])[changed].result(CALL_S)

        async def configs():
            found = inner.describe_configs([resource])[resource].result(CALL_S)
            ensure(found['retention.ms'].value == '123456', found['retention.ms'])

        async def more():
            inner.create_partitions([ad.NewPartitions(topic, 3)])[topic].result(CALL_S)

        async def metadata():
            ensure(len(inner.list_topics(topic, CALL_S).topics[topic].partitions) == 3, 'other partitions')

        async def topics():
            found = inner.describe_topics(ck.TopicCollection([topic]))[topic].result(CALL_S)
            ensure(len(found.partitions) == 3, found)

        async def fill():
            producer = await self.producer(idempotent=True)
            for n in range(3):
                producer.inner.produce(topic, 'v%d' % n, partition=0)
            ensure(producer.inner.flush(CALL_S) == 0, 'records left')

        async def ends():
            found = inner.list_offsets({zero: ad.OffsetSpec.latest()})[zero].result(CALL_S)
            ensure(found.offset == 3, found.offset)

        async def delete():
            at = ck.TopicPartition(topic, 0, 2)
            ensure(inner.delete_records([at])[at].result(CALL_S).low_watermark == 2, 'another low watermark')

        async def place():
            request = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(topic, 0, 2)])
            inner.alter_consumer_group_offsets([request])[group].result(CALL_S)

        async def groups():
            found = inner.list_consumer_groups().result(CALL_S)
            ensure(any(g.group_id == group for g in found.valid), found)

        async def members():
            found = inner.describe_consumer_groups([group])[group].result(CALL_S)
            ensure(found.state == ck.ConsumerGroupState.EMPTY, found.state)

        async def no_group():
            inner.delete_consumer_groups([group])[group].result(CALL_S)

        async def leaders():
            try:
                inner.elect_leaders(ck.ElectionType.PREFERRED, [zero]).result(CALL_S)
            except ck.KafkaException as e:
                ensure(e.args[0].code() == ck.KafkaError.ELECTION_NOT_NEEDED, e)

        async def no_topic():
            inner.delete_topics([topic])[topic].result(CALL_S)

        return await steps(('create_topics', lambda: self.topic(topic, 1)), ('describe_cluster', cluster), ('incremental_alter_configs', alter),
                           ('describe_configs', configs), ('create_partitions', more), ('list_topics', metadata), ('describe_topics', topics),
                           ('produce', fill), ('list_offsets', ends), ('delete_records', delete), ('alter_consumer_group_offsets', place),
                           ('list_consumer_groups', groups), ('describe_consumer_groups', members), ('delete_consumer_groups', no_group),
                           ('elect_leaders', leaders), ('delete_topics', no_topic))
