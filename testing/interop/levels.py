#!/usr/bin/env python3
"""transaction.version raised and lowered under clients of both kinds.

  levels.py --bootstrap HOST:PORT --java CLASSPATH --old-java CLASSPATH [--without-raw]

The level goes 2, 1, 0, 1, 2, by Kafka's features tool and by UpdateFeatures. A Java client that knows transactions of version 2, one
that does not, and librdkafka take turns on one transactional id; each change of the level finds an open transaction of one of them.
Meanwhile raw clients of both protocols run transactions back to back, the one of version 2 at level 0 too. Every confirmed commit must
be visible once, nothing else, no transaction be left open, and no client hear of an error. `--without-raw` leaves out the raw client of
version 2: Apache Kafka 4.4 cannot write its transactions at level 0 (coordinator trap 21).
"""
import argparse
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from kprobe import UpdateFeaturesRequest  # noqa: E402
from tools import Tools  # noqa: E402
from turns import Java, Ledger, Librdkafka, Trouble, say  # noqa: E402

PARTITIONS = 4
LEVELS = (1, 0, 1, 2)


class Raw(threading.Thread):
    """Transactions back to back on a connection of its own, until it is stopped."""

    def __init__(self, address, topic, ledger, version):
        super().__init__(daemon=True)
        self.name, self.probe, self.topic, self.ledger, self.version = f'raw-{version}', k.Probe(*address), topic, ledger, version
        self.stopping, self.trouble, self.done, self.next = threading.Event(), None, 0, {}

    def told(self, what, error):
        if error != 'NONE':
            raise Trouble(f'{self.name}: {what}: {error}')

    def begin(self):
        pass

    def send(self, partition, value):
        if self.version < 2:
            answers = self.probe.add_partitions(self.name, self.pid, self.epoch, {self.topic: [partition]})
            self.told('add', answers[self.topic, partition])
        records = k.batch([value.encode()], self.pid, self.epoch, self.next.get(partition, 0), transactional=True)
        version = 12 if self.version >= 2 else 9
        retried = ('CONCURRENT_TRANSACTIONS', 'NOT_ENOUGH_REPLICAS')
        while (error := self.probe.produce(self.topic, records, partition, txn_id=self.name, version=version)[0]) in retried:
            pass
        self.told('produce', error)
        self.next[partition] = self.next.get(partition, 0) + 1

    def end(self, commit):
        version = 5 if self.version >= 2 else 3
        error, pid, epoch = self.probe.end_txn(self.name, self.pid, self.epoch, commit, version=version)
        self.told('end', error)
        if self.version >= 2:
            self.pid, self.epoch, self.next = pid, epoch, {}
        self.done += 1

    def commit(self):
        self.end(True)

    def abort(self):
        self.end(False)

    def run(self):
        try:
            error, self.pid, self.epoch = self.probe.init_pid(self.name)
            self.told('init', error)
            while not self.stopping.is_set():
                self.ledger.transaction(self, commit=random.random() < 0.8)
        except Exception as e:  # noqa: BLE001 - whatever it is, the run has failed
            self.trouble = e


class Changes:
    """The two ways to change the level."""

    def __init__(self, bootstrap, probe):
        self.tools, self.probe = Tools(bootstrap), probe

    def by_tool(self, level):
        command = 'upgrade' if level > self.probe.features().get('transaction.version', 0) else 'downgrade'
        self.tools.run('features', command, '--feature', f'transaction.version={level}', said=[r'was (up|down)graded to %d' % level])

    def by_request(self, level):
        kind = 1 if level > self.probe.features().get('transaction.version', 0) else 2
        update = UpdateFeaturesRequest.FeatureUpdateKey(feature='transaction.version', max_version_level=level, upgrade_type=kind)
        told = self.probe.conn.call(UpdateFeaturesRequest[2](timeout_ms=30000, feature_updates=[update], validate_only=False))
        if told.error_code:
            raise Trouble(f'UpdateFeatures: {k.error_name(told.error_code)}')


def in_turns(clients, ledger, level):
    """Each client takes the id over from the one before, and speaks as its own version and the level say."""
    for client in clients:
        client.open()
        for commit in (True, False, True):
            ledger.transaction(client, commit)
        if isinstance(client, Java):
            produce, end_txn = client.versions()
            is_version_2 = client.name == 'java' and level == 2
            if (produce >= 12, end_txn >= 5) != (is_version_2, is_version_2):
                raise Trouble(f'{client.name} sent Produce {produce} and EndTxn {end_txn} at level {level}')


def run(options):
    host, _, port = options.bootstrap.rpartition(':')
    address = host, int(port)
    probe, topic, ledger = k.Probe(*address), 'levels', Ledger(PARTITIONS)
    if probe.create_topic(topic, PARTITIONS) != 'NONE' or not probe.wait_topic(topic, PARTITIONS):
        raise Trouble('no topic')
    probe.find_coordinator('shared')
    clients = [Java('java', options.java, options.bootstrap, topic, 'shared'),
               Java('old java', options.old_java, options.bootstrap, topic, 'shared'),
               Librdkafka('librdkafka', options.bootstrap, topic, 'shared')]
    loads = [Raw(address, topic, ledger, version) for version in ((1, 2) if options.raw else (1, ))]
    for load in loads:
        load.start()
    changes, holder = Changes(options.bootstrap, probe), 0
    in_turns(clients, ledger, 2)
    for change in (changes.by_tool, changes.by_request):
        for level in LEVELS:
            client = clients[holder % len(clients)]
            holder += 1
            client.open()
            ledger.transaction(client, between=lambda level=level, change=change: change(level))
            ledger.transaction(client)
            if probe.features().get('transaction.version', 0) != level:
                raise Trouble(f'the level is {probe.features()}')
            if isinstance(client, Java):
                client.versions()
            in_turns(clients, ledger, level)
    for load in loads:
        load.stopping.set()
        load.join(30)
        if load.trouble or load.is_alive():
            raise Trouble(f'{load.name}: {load.trouble!r} after {load.done} transactions')
    for client in clients:
        client.end()
    confirmed = ledger.check(probe, options.bootstrap, topic)
    return f'{confirmed} confirmed records visible once over {2 * len(LEVELS)} changes, {sum(load.done for load in loads)} raw transactions'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    for name in ('--bootstrap', '--java', '--old-java'):
        parser.add_argument(name, required=True)
    parser.add_argument('--without-raw', dest='raw', action='store_false')
    try:
        say('OK levels: ' + run(parser.parse_args()))
    except Trouble as e:
        say(f'FAIL levels: {e}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
