#!/usr/bin/env python3
"""A broker that is stopped and started again and again under load: is every confirmed commit still there?

  restarts.py EXECUTABLE DIR [--rounds N] [--seed NUMBER]

EXECUTABLE knows `serve` (Fencepost's, or kafka.sh for Apache Kafka). In each round some producers commit transactions over several
partitions of a new topic, back to back; in the midst of it, as soon as one of them has had a commit confirmed and its markers are perhaps not written
yet, the broker is killed or stopped cleanly, in turns, and started again. Then
every transaction that was confirmed must be visible in all its partitions, each record once, and no transaction may be left open.
Prints a line for each round in which that is not so, and the sums as JSON; the exit status is 1 when a round has failed.
Source: coordinator trap 35.
"""
import argparse
import json
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from process import START_S, Node  # noqa: E402

PARTITIONS, WRITERS, PARTITIONS_OF_ONE = 8, 8, 3
LOADING = 'NOT_COORDINATOR', 'COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE', 'CONCURRENT_TRANSACTIONS'
DECIDED_S, STOPPED_S = 10, 20


class Stop:
    """Ends the process once, by the first writer that has a commit confirmed after the given time."""

    def __init__(self, process, how, after_s):
        self.process, self.how, self.when = process, how, time.monotonic() + after_s
        self.lock, self.done = threading.Lock(), threading.Event()

    def on_commit(self):
        if time.monotonic() >= self.when:
            self.now()

    def now(self):
        with self.lock:
            if not self.done.is_set():
                self.done.set()
                self.process.send_signal(self.how)


class Writer(threading.Thread):
    """Commits one transaction after the other until the broker is gone."""

    def __init__(self, port, number, topic, seed, on_commit):
        super().__init__(daemon=True)
        self.port, self.name_of_id, self.topic, self.random = port, f'restarts-{number}', topic, random.Random(seed)
        self.on_commit = on_commit
        self.confirmed, self.trouble = {}, None

    def run(self):
        try:
            self.write(k.Probe('127.0.0.1', self.port))
        except (OSError, k.Closed):
            pass  # The broker has been stopped: what was not confirmed may be there or not.

    def write(self, probe):
        error, pid, epoch = probe.init_pid(self.name_of_id)
        count = 0
        while error == 'NONE':
            value = b'%s-%s-%d' % (self.topic.encode(), self.name_of_id.encode(), count)
            partitions = self.random.sample(range(PARTITIONS), PARTITIONS_OF_ONE)
            for partition in partitions:
                records = k.batch([value], pid, epoch, 0, transactional=True)
                error = probe.produce(self.topic, records, partition, txn_id=self.name_of_id, version=12)[0]
                while error in ('CONCURRENT_TRANSACTIONS', 'NOT_LEADER_OR_FOLLOWER', 'NOT_ENOUGH_REPLICAS'):
                    time.sleep(0.02)
                    error = probe.produce(self.topic, records, partition, txn_id=self.name_of_id, version=12)[0]
                if error != 'NONE':
                    self.trouble = error
                    return
            error, pid, epoch = probe.end_txn(self.name_of_id, pid, epoch, True, version=5)
            if error == 'NONE':
                self.on_commit()
                self.confirmed[value] = set(partitions)
                count += 1
        self.trouble = error


def visible(probe, topic, partition):
    """The values that a read_committed reader gets, in their order."""
    at, values = 0, []
    while True:
        got = probe.fetch(topic, at, partition, isolation=k.READ_COMMITTED, max_wait_ms=0)
        aborted = {pid: first for pid, first in got['aborted']}
        for batch in got['batches']:
            at = batch['last'] + 1
            if not batch['control'] and batch['base'] < aborted.get(batch['pid'], 1 << 62):
                values += [value for _, value in batch['records']]
        if not got['batches']:
            return values


def check(probe, topic, confirmed):
    """(partitions with an open transaction, records of confirmed transactions that nobody sees, records seen twice)"""
    undecided, missing, twice = 0, 0, 0
    deadline = time.monotonic() + DECIDED_S
    for partition in range(PARTITIONS):
        while (lso := probe.lso(topic, partition)) < probe.hw(topic, partition) and time.monotonic() < deadline:
            time.sleep(0.02)
        undecided += lso < probe.hw(topic, partition)
        values = visible(probe, topic, partition)
        twice += len(values) - len(set(values))
        missing += len({value for value, partitions in confirmed.items() if partition in partitions} - set(values))
    return undecided, missing, twice


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('executable')
    parser.add_argument('data')
    parser.add_argument('--rounds', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    numbers, node = random.Random(options.seed), Node(options.executable, options.data)
    sums = dict(rounds=options.rounds, seed=options.seed, confirmed=0, failed_rounds=0, undecided_partitions=0, missing=0, twice=0)
    probe = node.start()
    try:
        for number in range(options.rounds):
            topic = f'restarts-{number}'
            if probe.create_topic(topic, PARTITIONS) != 'NONE' or not probe.wait_topic(topic, PARTITIONS):
                raise SystemExit(f'{topic} cannot be made')
            how = signal.SIGKILL if number % 2 else signal.SIGTERM
            stop = Stop(node.process, how, numbers.uniform(0.3, 1.5))
            writers = [Writer(node.port, writer, topic, numbers.random(), stop.on_commit) for writer in range(WRITERS)]
            for writer in writers:
                probe.find_coordinator(writer.name_of_id)
                writer.start()
            stop.done.wait(STOPPED_S)
            stop.now()  # Where no commit was confirmed any more.
            node.process.wait(START_S)
            for writer in writers:
                writer.join(START_S)
            confirmed = {value: parts for writer in writers for value, parts in writer.confirmed.items()}
            probe = node.start()
            probe.wait_topic(topic, PARTITIONS)
            for writer in writers:
                # What was under way is aborted; what was decided is completed first.
                deadline = time.monotonic() + DECIDED_S
                probe.find_coordinator(writer.name_of_id)
                while (error := probe.init_pid(writer.name_of_id)[0]) in LOADING and time.monotonic() < deadline:
                    time.sleep(0.05)
                if error != 'NONE':
                    print(f'round {number}: {writer.name_of_id} is refused with {error}', flush=True)
            undecided, missing, twice = check(probe, topic, confirmed)
            sums['confirmed'] += len(confirmed)
            if undecided or missing or twice or not confirmed:
                sums['failed_rounds'] += 1
                print(f'round {number}, {how.name}: {undecided} partitions with an open transaction, {missing} records of '
                      f'{len(confirmed)} confirmed transactions invisible, {twice} twice', flush=True)
            sums['undecided_partitions'] += undecided
            sums['missing'] += missing
            sums['twice'] += twice
    finally:
        node.end()
    print(json.dumps(sums))
    sys.exit(sums['failed_rounds'] > 0)


main()
