#!/usr/bin/env python3
"""Back-to-back transactions of one record each by one producer of librdkafka, timed.

  back_to_back.py HOST:PORT TOPIC SECONDS

Makes the topic. Prints the figures as JSON; with SECONDS 0 nothing but the topic.
"""
import json
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

WARM_UP = 50


def transact(producer, topic):
    producer.begin_transaction()
    producer.produce(topic, b'one record', partition=0)
    producer.commit_transaction()


def main():
    address, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    admin = AdminClient({'bootstrap.servers': address})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(30)
    if not seconds:
        return
    producer = Producer({'bootstrap.servers': address, 'transactional.id': topic, 'linger.ms': 0})
    producer.init_transactions(30)
    for _ in range(WARM_UP):
        transact(producer, topic)
    began, took = time.monotonic(), []
    while time.monotonic() - began < seconds:
        before = time.monotonic()
        transact(producer, topic)
        took.append((time.monotonic() - before) * 1e3)
    per_second = len(took) / (time.monotonic() - began)
    took.sort()
    print(json.dumps({'transactions': len(took), 'per_second': round(per_second, 1),
                      'median_ms': round(took[len(took) // 2], 3), 'p99_ms': round(took[len(took) * 99 // 100], 3)}))


main()
