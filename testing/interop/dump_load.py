#!/usr/bin/env python3
"""Makes a broker write every kind of file: for `dump_log.py`, once the broker has been stopped.

  dump_load.py --bootstrap HOST:PORT --data DIR

Committed, aborted and open transactions, groups of both protocols with plain and transactional offsets, every codec, a compacted topic
with transactions, all in segments so small that there are several; then it waits until the cleaner has been over the compacted
topics, those of the coordinators too. The broker needs a cleaner that does not wait: `xtask/src/interop/dump.rs`.
"""
import argparse
import pathlib
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))
import kprobe as k  # noqa: E402

PATIENCE_S = 60
SEGMENT_BYTES = 20_000
TRANSACTIONS, RECORDS, KEYS = 150, 20, 7
COMMITS = 600
COORDINATORS = ('__consumer_offsets', '__transaction_state')
CODECS = ('none', 'gzip', 'snappy', 'lz4', 'zstd')


def make_topics(bootstrap):
    probe = k.Probe(port=int(bootstrap.rpartition(':')[2]))
    small = {'internal_segment_bytes': SEGMENT_BYTES, 'index_interval_bytes': 500}
    compacted = {'cleanup_policy': 'compact', 'min_cleanable_dirty_ratio': '0.01', 'max_compaction_lag_ms': 1000}
    for topic, settings in ('plain', {}), ('compacted', compacted):
        error = probe.create_topic(topic, 2, **small, **settings)
        assert error == 'NONE', (topic, error)
        assert probe.wait_topic(topic, 2), topic
    # A broker's own setting may not be so small.
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[
        ConfigEntry('internal.segment.bytes', str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)]) for topic in COORDINATORS]
    admin = AdminClient({'bootstrap.servers': bootstrap})
    for answer in admin.incremental_alter_configs(resources).values():
        answer.result(PATIENCE_S)


def transactions(bootstrap):
    """Three of four commit; the last one of each codec stays open."""
    for codec in CODECS:
        producer = Producer({'bootstrap.servers': bootstrap, 'transactional.id': 'dump-' + codec, 'compression.type': codec, 'log_level': 2,
                             'transaction.timeout.ms': 600_000})
        producer.init_transactions(PATIENCE_S)
        for number in range(TRANSACTIONS // len(CODECS)):
            producer.begin_transaction()
            for n in range(RECORDS):
                for topic in 'plain', 'compacted':
                    producer.produce(topic, b'%06d' % number * 12, key=b'key-%d' % (n % KEYS), partition=n % 2, headers={'number': b'%d' % number})
            if number % 4 == 3:
                producer.flush(PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
    probe = k.Probe(port=int(bootstrap.rpartition(':')[2]))
    error, id_, epoch = probe.init_pid('dump-open', 600_000)
    assert error == 'NONE', error
    answer = probe.produce('plain', k.batch([b'open'], id_, epoch, 0, transactional=True), 0, txn_id='dump-open', version=12)
    assert answer[0] == 'NONE', answer


def groups(bootstrap):
    """Plain commits of both protocols, and offsets in transactions."""
    for protocol in 'classic', 'consumer':
        group = 'dump-' + protocol
        consumer = Consumer({'bootstrap.servers': bootstrap, 'group.id': group, 'group.protocol': protocol, 'auto.offset.reset': 'earliest',
                             'enable.auto.commit': False, 'isolation.level': 'read_committed', 'log_level': 2})
        producer = Producer({'bootstrap.servers': bootstrap, 'transactional.id': group + '-txn', 'log_level': 2})
        producer.init_transactions(PATIENCE_S)
        consumer.subscribe(['plain'])
        deadline = time.time() + PATIENCE_S
        while not consumer.consume(10, 0.5):
            assert time.time() < deadline, '%s gets nothing' % group
        for number in range(COMMITS):
            consumer.commit(offsets=[TopicPartition('plain', n, number) for n in (0, 1)], asynchronous=False)
        for number in range(20):
            producer.begin_transaction()
            producer.send_offsets_to_transaction([TopicPartition('plain', 0, number)], consumer.consumer_group_metadata(), PATIENCE_S)
            (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(PATIENCE_S)
        consumer.close()


def wait_for_the_cleaner(data):
    """Until its checkpoint names the compacted topic and one partition of each coordinator."""
    wanted, deadline = {'compacted', *COORDINATORS}, time.time() + PATIENCE_S
    while True:
        try:
            lines = (data / 'cleaner-offset-checkpoint').read_text().split('\n')[2:]
        except FileNotFoundError:
            lines = []
        found = {line.split(' ')[0] for line in lines if line and int(line.split(' ')[2]) > 0}
        if wanted <= found:
            return
        assert time.time() < deadline, 'not cleaned: %s' % (wanted - found)
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('--data', required=True, type=pathlib.Path, help="the broker's log directory")
    options = parser.parse_args()
    make_topics(options.bootstrap)
    transactions(options.bootstrap)
    groups(options.bootstrap)
    wait_for_the_cleaner(options.data)
    segments = {topic: len(list(options.data.glob(topic + '-*/*.log'))) for topic in ('plain', 'compacted', *COORDINATORS)}
    snapshots = [path.name for path in options.data.glob('__cluster_metadata-0/*.checkpoint') if not path.name.startswith('0' * 20)]
    assert snapshots, 'no snapshot of the metadata'
    print('dump_load: segments %s, snapshots of the metadata %s' % (segments, sorted(snapshots)))


if __name__ == '__main__':
    main()
