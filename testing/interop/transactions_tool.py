#!/usr/bin/env python3
"""Kafka's `transactions` tool, each sub-command and filter, against one broker that lets transactions hang.

  transactions_tool.py --bootstrap HOST:PORT

The broker runs with `transaction.partition.verification.enable=false`: then a batch of a transaction that the coordinator does not know
of is taken, and nobody will ever end it. Prints a line for each step; the exit status is 1 when one has failed.
"""
import argparse
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from tools import Failure, Tools  # noqa: E402

HOUR_MS = 3_600_000


class Bench:
    """The tool, a probe, and the transactions of this run."""

    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(':')
        self.tools, self.probe = Tools(bootstrap), k.Probe(host, int(port))
        self.topic, self.tag = self.tools.topic, self.tools.tag
        if self.probe.create_topic(self.topic, 3) != 'NONE' or not self.probe.wait_topic(self.topic, 3):
            raise Failure('no topic')

    def tool(self, *arguments, **wanted):
        return self.tools.run('transactions', *arguments, **wanted)

    def init(self, name):
        """(error, producer id, epoch); waits for the coordinator."""
        deadline = time.monotonic() + 30
        while (told := self.probe.init_pid(name))[0] == 'NOT_COORDINATOR' and time.monotonic() < deadline:
            time.sleep(0.1)
        return told

    def open(self, name, partition, version=12, age_ms=0):
        """One record of `name` in a transaction; version 9 does not tell the coordinator."""
        error, pid, epoch = self.init(name)
        if error == 'NONE':
            records = k.batch([b'open'], pid, epoch, 0, transactional=True, timestamp=int(time.time() * 1000) - age_ms)
            error = self.probe.produce(self.topic, records, partition, txn_id=name, version=version)[0]
        if error != 'NONE':
            raise Failure(f'{name}: {error}')
        return int(pid), epoch

    def decided(self, partition):
        wanted = self.probe.hw(self.topic, partition)
        if self.probe.wait_lso(self.topic, wanted, partition) < wanted:
            raise Failure(f'a transaction is still open in partition {partition}')


def list_filters(b):
    """list: states, producer ids, duration, pattern"""
    alpha, beta = f'alpha-{b.tag}', f'beta-{b.tag}'
    b.open(alpha, 0)
    error, pid, epoch = b.init(beta)
    row = r'^%s\s+\d+\s+\d+\s+%s'
    b.tool('list', said=[row % (alpha, 'Ongoing'), row % (beta, 'Empty')])
    pattern = ['--transactional-id-pattern', f'alpha-{b.tag[:3]}.*']
    b.tool('list', *pattern, said=[row % (alpha, 'Ongoing')], unsaid=[beta])
    b.tool('list', '--duration-filter', str(HOUR_MS), unsaid=[alpha])
    time.sleep(0.05)
    b.tool('list', '--duration-filter', '10', said=[row % (alpha, 'Ongoing')])
    b.tool('list', '--transactional-id-pattern', '[', said=['INVALID_REGULAR_EXPRESSION'], status=1)
    assert (error, int(pid) >= 0, epoch) == ('NONE', True, 0)


def describe(b):
    """describe and describe-producers of an open transaction; an id that is not there"""
    name = f'alpha-{b.tag}'
    b.tool('describe', '--transactional-id', name, said=[r'%s\s.*Ongoing.*%s-0' % (name, b.topic)])
    b.tool('describe', '--transactional-id', f'nobody-{b.tag}', said=['could not be found'], status=1)
    b.tool('describe-producers', '--topic', b.topic, '--partition', '0', said=[r'^\d+\s+0\s+-1\s+0\s+\d+\s+0\b'])


def force_terminate(b):
    """forceTerminateTransaction ends the open transaction of an id"""
    name = f'alpha-{b.tag}'
    b.tool('forceTerminateTransaction', '--transactionalId', name)
    b.decided(0)
    b.tool('describe', '--transactional-id', name, said=[r'%s\s.*(CompleteAbort|Empty)' % name])


def hanging(b, partition):
    name = f'hanging-{b.tag}-{partition}'
    pid, epoch = b.open(name, partition, version=9, age_ms=HOUR_MS)
    if b.probe.lso(b.topic, partition) != 0:
        raise Failure('the transaction does not hang')
    return pid, epoch


def find_hanging(b):
    """find-hanging by broker and by topic; abort by start offset"""
    pid, _ = hanging(b, 1)
    row = r'^%s\s+1\s+%d\s+0\s' % (b.topic, pid)
    broker = re.search(r'Leader: (\d+)', b.tools.run('topics', '--describe', '--topic', b.topic)).group(1)
    b.tool('find-hanging', '--broker-id', broker, said=[row])
    b.tool('find-hanging', '--topic', b.topic, '--partition', '1', said=[row])
    b.tool('find-hanging', '--topic', b.topic, '--max-transaction-timeout', '120', unsaid=[row])
    b.tool('abort', '--topic', b.topic, '--partition', '1', '--start-offset', '0')
    b.decided(1)
    b.tool('find-hanging', '--broker-id', broker, unsaid=[row])


def abort_by_producer(b):
    """abort by producer id, epoch and coordinator epoch"""
    pid, epoch = hanging(b, 2)
    b.tool('abort', '--topic', b.topic, '--partition', '2', '--producer-id', str(pid), '--producer-epoch', str(epoch),
           '--coordinator-epoch', '0')
    b.decided(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--bootstrap', default='127.0.0.1:9092')
    bench, failed = Bench(parser.parse_args().bootstrap), 0
    for step in (list_filters, describe, force_terminate, find_hanging, abort_by_producer):
        try:
            step(bench)
            print(f'OK transactions tool: {step.__doc__}', flush=True)
        except Exception as e:  # noqa: BLE001 - a step may fail in any way; it must not stop the others
            failed += 1
            print(f'FAIL transactions tool {step.__name__}: {type(e).__name__}: {e}', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
