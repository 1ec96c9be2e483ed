#!/usr/bin/env python3
"""A broker on a file system that is really full.

  full_disk.py EXECUTABLE

Mounts a tmpfs of a few MiB (as root, or in a namespace of its own), starts the broker on it, and commits and aborts transactions until
nothing fits any more. Wanted: clients are refused with an error that they retry, readers go on reading, and nothing that was
acknowledged is missing. Then room is made: the open transactions are ended and new ones work without a restart. After a clean stop and
after a kill the last stable offset, the aborted transactions and all records are what they were.
Prints what it saw as JSON; the exit status is 1 when something was otherwise.
"""
import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

SIZE, BALLAST_BYTES, PADDING = '12m', 4 << 20, b'.' * 16_000
TOPIC, PATIENCE_S, REFUSALS_WANTED, TRANSACTIONS_MAX = 'full', 30, 20, 5_000
# All of them are retried by every client; none says that a record is in the log.
PRODUCE_REFUSALS = {'KAFKA_STORAGE_ERROR', 'NOT_ENOUGH_REPLICAS', 'NOT_LEADER_OR_FOLLOWER', 'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR'}
END_REFUSALS = {'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR', 'CONCURRENT_TRANSACTIONS'}


class Failure(Exception):
    """Something is not as it should be."""


def wanted(condition, what):
    if not condition:
        raise Failure(what)


class Node:
    """The broker's process on the mounted directory."""

    def __init__(self, executable, root):
        self.executable, self.root = executable, root
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [self.executable, 'serve', '--data', str(self.root / 'data'), '--listen', f'127.0.0.1:{self.port}', '-X',
             'log.segment.bytes=1048576', '-X', 'offsets.topic.num.partitions=1', '-X', 'transaction.state.log.num.partitions=1'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return k.Probe('127.0.0.1', self.port)
            except OSError:
                wanted(self.process.poll() is None and time.monotonic() < deadline, 'the broker does not start')
                time.sleep(0.01)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)


class Writer:
    """One transaction after the other, and what it was told."""

    def __init__(self, probe, name):
        self.probe, self.name, self.count, self.refused = probe, name, 0, collections.Counter()
        self.acknowledged, self.open, self.decided = {}, [], {True: [], False: []}
        error, self.pid, self.epoch = probe.init_pid(name, timeout_ms=600_000)
        wanted(error == 'NONE', f'InitProducerId: {error}')

    def write(self):
        value = b'%s-%d' % (self.name.encode(), self.count)
        records = k.batch([value + PADDING], self.pid, self.epoch, len(self.open), transactional=True)
        error, offset, _ = self.probe.produce(TOPIC, records, txn_id=self.name, version=12)
        if error != 'NONE':
            wanted(error in PRODUCE_REFUSALS, f'Produce is refused with {error}')
            self.refused[error] += 1
            return False
        self.acknowledged[offset] = value
        self.open.append(value)
        self.count += 1
        return True

    def end(self, commit):
        error, pid, epoch = self.probe.end_txn(self.name, self.pid, self.epoch, commit, version=5, retry=False)
        if error != 'NONE':
            wanted(error in END_REFUSALS, f'EndTxn is refused with {error}')
            self.refused[error] += 1
            return False
        self.decided[commit] += self.open
        self.open, self.pid, self.epoch = [], pid, epoch
        return True


def until(what, step):
    deadline = time.monotonic() + PATIENCE_S
    while not step():
        wanted(time.monotonic() < deadline, what)
        time.sleep(0.05)


def view(probe):
    """Offsets, aborted transactions, and the values that each kind of reader sees."""
    seen = {}
    for isolation in (k.READ_UNCOMMITTED, k.READ_COMMITTED):
        values, aborted, at = {}, set(), 0
        while True:
            got = probe.fetch(TOPIC, at, isolation=isolation, max_wait_ms=0)
            wanted(got['error'] == 'NONE', f'Fetch: {got["error"]}')
            if not got['batches']:
                break
            aborted.update(got['aborted'])
            gone = collections.defaultdict(list)
            for pid, first in sorted(got['aborted'], key=lambda entry: entry[1]):
                gone[pid].append(first)
            for batch in got['batches']:
                at, firsts = batch['last'] + 1, gone[batch['pid']]
                is_aborted = bool(firsts) and firsts[0] <= batch['base']
                if batch['control']:
                    if is_aborted:
                        firsts.pop(0)
                elif not is_aborted:
                    values.update((offset, value.removesuffix(PADDING)) for offset, value in batch['records'])
        seen[isolation] = values, sorted(aborted)
    return {'lso': probe.lso(TOPIC), 'hw': probe.hw(TOPIC), 'seen': seen}


def check_promises(writers, what):
    everything, committed = what['seen'][k.READ_UNCOMMITTED][0], set(what['seen'][k.READ_COMMITTED][0].values())
    for writer in writers:
        for offset, value in writer.acknowledged.items():
            wanted(everything.get(offset) == value, f'{value} was acknowledged at {offset} and is not there')
        wanted(committed >= set(writer.decided[True]), 'a committed record is invisible')
        wanted(not committed & set(writer.decided[False]), 'an aborted record is visible')


def fill(writers, probe):
    """Until nothing fits; both writers keep a transaction open where they cannot end it."""
    for number in range(TRANSACTIONS_MAX):
        for writer in writers:
            if writer.write():
                writer.end(writer is writers[0] or number % 3 == 0)
        if all(sum(writer.refused.values()) >= REFUSALS_WANTED for writer in writers):
            return
    raise Failure('the disk does not fill up')


def run(executable, root):
    ballast = root / 'ballast'
    ballast.write_bytes(bytes(BALLAST_BYTES))
    node = Node(executable, root)
    try:
        probe = node.start()
        wanted(probe.create_topic(TOPIC) == 'NONE' and probe.wait_topic(TOPIC), 'no topic')
        writers = [Writer(probe, 'first'), Writer(probe, 'second')]
        fill(writers, probe)
        full = view(probe)
        check_promises(writers, full)
        free = os.statvfs(root)
        ballast.unlink()
        for writer in writers:
            # An EndTxn that was refused may be decided all the same: the same question again is safe.
            until(f'{writer.name}: the open transaction cannot be ended', lambda w=writer: w.end(True))
            until(f'{writer.name}: nothing can be written', writer.write)
            until(f'{writer.name}: nothing can be committed', lambda w=writer: w.end(True))
        last = max(offset for writer in writers for offset in writer.acknowledged)
        wanted(probe.wait_lso(TOPIC, last + 2) >= last + 2, 'the last stable offset stands still')
        before = view(probe)
        check_promises(writers, before)
        for how in (signal.SIGTERM, signal.SIGKILL):
            node.end(how)
            probe = node.start()
            wanted(probe.wait_topic(TOPIC), 'no leader')
            wanted(view(probe) == before, f'something else is there after {how.name}')
        node.end(signal.SIGTERM)
    finally:
        if node.process and node.process.poll() is None:
            node.process.kill()
            node.process.wait()
    print(json.dumps({
        'free_bytes_when_full': free.f_bavail * free.f_frsize, 'acknowledged': sum(len(w.acknowledged) for w in writers),
        'refused': dict(sum((w.refused for w in writers), collections.Counter())),
        'aborted': len(before['seen'][k.READ_COMMITTED][1]), 'last_stable_offset': before['lso']}))


def main():
    executable = sys.argv[1]
    if os.geteuid() != 0:
        os.execvp('unshare', ['unshare', '--user', '--map-root-user', '--mount', sys.executable, '-B', __file__, executable])
    with tempfile.TemporaryDirectory(prefix='fencepost-full-') as root:
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={SIZE}', 'tmpfs', root], check=True)
        try:
            run(executable, pathlib.Path(root))
        except Failure as failure:
            raise SystemExit(f'full disk: {failure}') from failure
        finally:
            subprocess.run(['umount', root], check=True)


main()
