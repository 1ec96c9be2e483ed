#!/usr/bin/env python3
"""Kafka starts from a snapshot of Fencepost's metadata, and from nothing else.

  snapshot.py --fencepost EXECUTABLE --data DIR

Fencepost makes topics with settings and partitions, deletes one, and writes snapshots of its metadata. After its stop the metadata log is taken away:
what is left in the directory of the metadata is the newest snapshot. Kafka has to start on it and know each topic by its name, its id, its partitions
and its settings, and serve the records. The exit status is 1 when something is otherwise.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / 'conformance')]

import kprobe as k  # noqa: E402
from confluent_kafka.admin import AdminClient, ConfigResource  # noqa: E402
from node import Node  # noqa: E402

TOPICS = 20
BYTES_BETWEEN = 2000
PATIENCE_S = 30


def snapshots(node):
    """The snapshots by the offset at which they end; that of the formatting ends at 0."""
    files = (node.logs / '__cluster_metadata-0').glob('*.checkpoint')
    return {int(path.name.partition('-')[0]): path for path in files if not path.name.startswith('0' * 20)}


def fill(node):
    probe = node.probe()
    for number in range(TOPICS):
        settings = {'retention_ms': 100_000 + number, 'max_message_bytes': 50_000 + number}
        error = probe.create_topic('snapshot-%d' % number, 1 + number % 3, **settings)
        assert error == 'NONE', error
        assert probe.wait_topic('snapshot-%d' % number, 1 + number % 3)
        answer = probe.produce('snapshot-%d' % number, k.batch([b'%d' % number]))
        assert answer[:2] == ('NONE', 0), answer
    assert probe.create_topic('passing', 1) == 'NONE'
    admin = AdminClient({'bootstrap.servers': node.bootstrap})
    admin.delete_topics(['passing'])['passing'].result(PATIENCE_S)
    # More changes, until a snapshot has all that was made so far in it.
    before = max(snapshots(node), default=0)
    deadline, number = time.time() + PATIENCE_S, 0
    while len([end for end in snapshots(node) if end > before]) < 2:
        assert time.time() < deadline, 'no snapshot is written'
        assert probe.create_topic('later-%d' % number, 1) == 'NONE'
        number += 1


def seen(node):
    """Topics with their ids and partitions, and what is set for each."""
    admin = AdminClient({'bootstrap.servers': node.bootstrap})
    names = ['snapshot-%d' % number for number in range(TOPICS)]
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    assert 'passing' not in topics, 'a deleted topic is there'
    described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in names])
    found = {}
    for resource, answer in described.items():
        configs = answer.result(PATIENCE_S)
        # Fencepost makes a directory when a partition is first written to.
        ids = {path.read_text() for path in node.logs.glob(resource.name + '-*/partition.metadata')}
        found[resource.name] = (len(topics[resource.name].partitions), ids,
                                [configs[name].value for name in ('retention.ms', 'max.message.bytes')])
    return found


def take_the_log_away(node):
    """Leaves the newest snapshot alone, and who votes."""
    newest = snapshots(node)[max(snapshots(node))]
    for path in (node.logs / '__cluster_metadata-0').iterdir():
        if path != newest and path.name not in ('quorum-state', 'partition.metadata'):
            path.unlink()


def go(node):
    node.start('fencepost')
    fill(node)
    before = seen(node)
    node.end()
    take_the_log_away(node)
    node.start('kafka')
    probe = node.probe()
    assert probe.wait_topic('snapshot-0', 1), 'Kafka does not show the topic'
    after = seen(node)
    assert after == before, 'Kafka found %s, not %s' % (after, before)
    for number in range(TOPICS):
        answer = probe.produce('snapshot-%d' % number, k.batch([b'again']))
        assert answer[:2] == ('NONE', 1), 'snapshot-%d: %s' % (number, answer)
    node.end()
    node.start('fencepost')
    assert node.probe().wait_topic('snapshot-0', 1), 'Fencepost does not show the topic'
    assert seen(node) == before, 'and Fencepost found %s, not %s' % (seen(node), before)
    node.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--fencepost', type=pathlib.Path, required=True)
    parser.add_argument('--data', type=pathlib.Path, required=True)
    options = parser.parse_args()
    with Node(options.data, options.fencepost, {'metadata.log.max.record.bytes.between.snapshots': BYTES_BETWEEN}) as node:
        try:
            go(node)
        except AssertionError as error:
            print('snapshot: %s' % error)
            sys.exit(1)
    print('snapshot: Kafka started from a snapshot of Fencepost, and knows all %d topics' % TOPICS)


if __name__ == '__main__':
    main()
