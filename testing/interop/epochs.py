#!/usr/bin/env python3
"""Real clients over the last producer epoch, with kills in between.

  epochs.py EXECUTABLE DIR --java CLASSPATH --old-java CLASSPATH

EXECUTABLE is Fencepost's: `fencepost.test.initial.producer.epoch` lets new transactional ids begin shortly before the last epoch, so that
each run goes over the overflow. For each client, at each level of `transaction.version`: transactions that commit and abort, producers
that are opened anew (InitProducerId fences the one before, an open transaction of it included), and a transaction that times out at the
last epoch. In one run the broker is killed in the midst of it all, again and again. No client may hear of an error, save the one whose
transaction timed out; every confirmed record must be visible once, and the producer id must have changed.
"""
import argparse
import sys

from process import Node
from turns import Java, Ledger, Librdkafka, Trouble, say

PARTITIONS, FIRST_EPOCH, LAST_EPOCH = 4, 32_760, 32_766
TRANSACTIONS, SHORT_MS, KILL_EVERY = 12, 1000, 3
CLIENTS = ('java', 'old java', 'librdkafka')


class Run:
    """One client, one level, one transactional id, one topic."""

    def __init__(self, node, options, name, level, way):
        self.node, self.level, self.kind = node, level, name
        self.bootstrap = f'127.0.0.1:{node.port}'
        self.topic = f'{name}-{level}-{way}'.replace(' ', '-')
        self.probe, self.ledger = node.probe(), Ledger(PARTITIONS)
        node.set_level(level)
        if self.probe.create_topic(self.topic, PARTITIONS) != 'NONE' or not self.probe.wait_topic(self.topic, PARTITIONS):
            raise Trouble('no topic')
        if name == 'librdkafka':
            self.client = Librdkafka(name, self.bootstrap, self.topic, self.topic)
        else:
            classpath = options.java if name == 'java' else options.old_java
            self.client = Java(name, classpath, self.bootstrap, self.topic, self.topic)

    def described(self):
        return self.probe.describe_txn(self.topic)

    def by_ends(self, kill):
        """Commits and aborts; a producer is opened anew where the level does not raise the epoch with each end."""
        self.client.open()
        first = self.described()['pid']
        for number in range(TRANSACTIONS):
            raises = self.level == 2 and self.kind == 'java'
            if number and not raises:
                self.client.open()
            between = self.kill if kill and number % KILL_EVERY == 1 else lambda: None
            self.ledger.transaction(self.client, commit=number % 3 != 2, between=between)
        self.rotated(first)

    def by_fencing(self, _):
        """Each new producer finds an open transaction of the one before."""
        self.client.open()
        first = self.described()['pid']
        for number in range(TRANSACTIONS // 2):
            self.left_open(number)
            self.client.close()
            self.client.open()
        self.ledger.transaction(self.client)
        self.rotated(first)

    def by_timeout(self, _):
        """The transaction at the last epoch is aborted by its timeout."""
        self.client.open(SHORT_MS)
        first = self.described()['pid']
        while self.described()['epoch'] < LAST_EPOCH:
            self.client.open(SHORT_MS)
        self.left_open(0)
        aborted = self.probe.wait_txn(self.topic, ['CompleteAbort'])
        if aborted['state'] != 'CompleteAbort':
            raise Trouble(f'{self.topic}: no abort: {aborted}')
        try:
            self.client.commit()
        except Trouble:
            pass
        else:
            raise Trouble(f'{self.topic}: a commit of what has timed out')
        self.client.open()
        self.ledger.transaction(self.client)
        self.rotated(first)

    def left_open(self, number):
        value = self.ledger.value(self.client.name)
        self.client.begin()
        self.client.send(number % PARTITIONS, value)
        self.ledger.aborted[value] = number % PARTITIONS

    def rotated(self, first):
        now = self.described()
        if now['pid'] == first or now['epoch'] > TRANSACTIONS:
            raise Trouble(f'{self.topic}: no rotation: it was {first} and is {now}')

    def kill(self):
        self.node.end()
        self.probe = self.node.start()

    def end(self):
        self.client.end()
        return self.ledger.check(self.probe, self.bootstrap, self.topic)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    for name in ('executable', 'data'):
        parser.add_argument(name)
    for name in ('--java', '--old-java'):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    node, failed = Node(options.executable, options.data, f'fencepost.test.initial.producer.epoch={FIRST_EPOCH}'), 0
    node.start()
    try:
        for name in CLIENTS:
            for level, way, kill in ((2, 'ends', False), (2, 'ends', True), (1, 'ends', True), (0, 'ends', False), (2, 'fencing', False),
                                     (1, 'fencing', False), (2, 'timeout', False), (0, 'timeout', False)):
                what = f'{way}{" with kills" if kill else ""}'
                try:
                    run = Run(node, options, name, level, what.replace(' ', '-'))
                    getattr(run, f'by_{way}')(kill)
                    say(f'OK epochs: {name} at level {level}, by {what}: {run.end()} records')
                except Trouble as e:
                    failed += 1
                    say(f'FAIL epochs: {name} at level {level}, by {what}: {e}')
    finally:
        node.end()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
