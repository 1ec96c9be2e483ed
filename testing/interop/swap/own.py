#!/usr/bin/env python3
"""What Fencepost keeps on the disk beyond Kafka's formats, and Kafka between two starts of it.

  own.py --fencepost EXECUTABLE --data DIR

Fencepost writes windows of producers beside snapshots (`.window`), and at level 0 of `transaction.version` the last epoch of an InitProducerId in a
value of the flexible form. After a restart of its own it knows a batch that is five back, and a retry of InitProducerId, again. Then Kafka starts on
the directory: it reads everything else, and knows neither. After Kafka's clean stop Fencepost knows what Kafka knew, and takes no window for
another state's. The exit status is 1 when something is otherwise.
"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / 'conformance')]

import kprobe as k  # noqa: E402
import process  # noqa: E402
from node import Node  # noqa: E402

TOPIC, ID = 'own', 'own'
BATCHES = 5


class Wrong(Exception):
    """A program said something else than wanted."""


def wanted(what, found, expected):
    if found != expected:
        raise Wrong('%s: %s, not %s' % (what, found, expected))


class Producer:
    """An idempotent producer that has sent batches of one record."""

    def __init__(self, probe):
        error, self.id, self.epoch = probe.init_pid()
        wanted('an idempotent producer', error, 'NONE')

    def send(self, probe, sequence):
        """Error and base offset."""
        batch = k.batch([b'%d' % sequence], self.id, self.epoch, sequence)
        return probe.produce(TOPIC, batch)[:2]


def windows(node):
    return sorted(str(path.relative_to(node.logs)) for path in node.logs.glob('*/*.window'))


def restart(node, program):
    node.end()
    node.start(program)
    probe = node.probe()
    if not probe.wait_topic(TOPIC, 1):
        raise Wrong('%s does not show the topic' % program)
    return probe


def lower(node):
    """transaction.version goes to 0."""
    raising = process.Node('', node.logs)
    raising.port = node.port
    raising.set_level(0)


def go(node):
    node.start('fencepost')
    probe = node.probe()
    wanted('the topic', probe.create_topic(TOPIC, 1), 'NONE')
    lower(node)
    producer = Producer(probe)
    for sequence in range(BATCHES):
        wanted('batch %d' % sequence, producer.send(probe, sequence), ('NONE', sequence))
    _, pid, first = probe.init_pid(ID)
    wanted('a bump', probe.init_pid(ID, pid=pid, epoch=first), ('NONE', pid, first + 1))

    probe = restart(node, 'fencepost')
    if not windows(node):
        raise Wrong('no windows are beside the snapshots')
    for sequence in range(BATCHES):
        wanted('batch %d again' % sequence, producer.send(probe, sequence), ('NONE', sequence))
    wanted('a retry', probe.init_pid(ID, pid=pid, epoch=first), ('NONE', pid, first + 1))

    probe = restart(node, 'kafka')
    wanted('Kafka, the newest batch again', producer.send(probe, BATCHES - 1), ('NONE', BATCHES - 1))
    wanted('Kafka, an older batch', producer.send(probe, 1), ('OUT_OF_ORDER_SEQUENCE_NUMBER', -1))
    wanted('Kafka, the next batch', producer.send(probe, BATCHES), ('NONE', BATCHES))
    wanted('Kafka, a retry', probe.init_pid(ID, pid=pid, epoch=first)[0], 'PRODUCER_FENCED')
    wanted('Kafka, the current pair', probe.init_pid(ID, pid=pid, epoch=first + 1), ('NONE', pid, first + 2))

    probe = restart(node, 'fencepost')
    wanted('afterwards, the newest batch', producer.send(probe, BATCHES), ('NONE', BATCHES))
    wanted('afterwards, the next batch', producer.send(probe, BATCHES + 1), ('NONE', BATCHES + 1))
    wanted('afterwards, the current pair', probe.init_pid(ID, pid=pid, epoch=first + 2), ('NONE', pid, first + 3))
    node.end()
    snapshots = {path.with_suffix('').name for path in node.logs.glob(TOPIC + '-0/*.snapshot')}
    stray = [name for name in windows(node) if name.startswith(TOPIC) and pathlib.Path(name).stem not in snapshots]
    wanted('windows without a snapshot', stray, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--fencepost', type=pathlib.Path, required=True)
    parser.add_argument('--data', type=pathlib.Path, required=True)
    options = parser.parse_args()
    with Node(options.data, options.fencepost) as node:
        try:
            go(node)
        except Wrong as error:
            print('own: %s' % error)
            sys.exit(1)
    print('own: Kafka leaves alone what is ours, and reads the rest')


if __name__ == '__main__':
    main()
