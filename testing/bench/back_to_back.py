#!/usr/bin/env python3
"""Back-to-back transactions of one record each by one producer of librdkafka, timed.

  back_to_back.py HOST:PORT TOPIC SECONDS [read]

Makes the topic. Prints the figures as JSON; with SECONDS 0 nothing but the topic. With `read` each transaction answers one record
that a consumer of a group has read from TOPIC-in, which is filled beforehand, and commits its offset too.
"""
import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WARM_UP = 50
# Records to read for each second: more than any broker makes of them.
INPUT_A_SECOND = 1500


class Source:
    """What there is to read, and the consumer that reads it."""

    def __init__(self, address, topic, records):
        self.topic = topic
        filler = Producer({'bootstrap.servers': address})
        for _ in range(records):
            filler.produce(topic, b'one record', partition=0)
            filler.poll(0)
        filler.flush()
        self.consumer = Consumer({'bootstrap.servers': address, 'group.id': topic, 'auto.offset.reset': 'earliest',
                                  'enable.auto.commit': False})
        self.consumer.subscribe([topic])

    def next(self):
        while (record := self.consumer.poll(10)) is None:
            pass
        if record.error():
            raise RuntimeError(record.error())
        return record

    def commit(self, producer, record):
        following = TopicPartition(self.topic, record.partition(), record.offset() + 1)
        producer.send_offsets_to_transaction([following], self.consumer.consumer_group_metadata())


def transact(producer, topic, source):
    record = source and source.next()
    producer.begin_transaction()
    producer.produce(topic, b'one record', partition=0)
    if source:
        source.commit(producer, record)
    producer.commit_transaction()


def main():
    address, topic, seconds, reads = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:] == ['read']
    admin = AdminClient({'bootstrap.servers': address})
    topics = [topic, topic + '-in'] if reads else [topic]
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        made.result(30)
    if not seconds:
        return
    source = Source(address, topic + '-in', WARM_UP + int(seconds * INPUT_A_SECOND)) if reads else None
    producer = Producer({'bootstrap.servers': address, 'transactional.id': topic, 'linger.ms': 0})
    producer.init_transactions(30)
    for _ in range(WARM_UP):
        transact(producer, topic, source)
    began, took = time.monotonic(), []
    while time.monotonic() - began < seconds:
        before = time.monotonic()
        transact(producer, topic, source)
        took.append((time.monotonic() - before) * 1e3)
    per_second = len(took) / (time.monotonic() - began)
    took.sort()
    print(json.dumps({'transactions': len(took), 'per_second': round(per_second, 1),
                      'median_ms': round(took[len(took) // 2], 3), 'p99_ms': round(took[len(took) * 99 // 100], 3)}))


main()
