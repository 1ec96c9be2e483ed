#!/usr/bin/env python3
"""Kafka's `transactions` tool, each sub-command and filter, against one broker that lets transactions hang.

  transactions_tool.py --bootstrap HOST:PORT [--record]

What the tool prints is looked at step by step, and compared as a whole with what it printed about Apache Kafka 4.4.0: transactions_tool.txt,
which --record writes anew. Not compared: producer ids, times, nodes, and the words of the broker's own messages.
The broker runs with `transaction.partition.verification.enable=false`: then a batch of a transaction that the coordinator does not know
of is taken, and nobody will ever end it. Prints a line for each step; the exit status is 1 when one has failed.
"""
import argparse
import difflib
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from tools import Failure, Steps, Tools  # noqa: E402

HOUR_MS, TIMEOUT_MS = 3_600_000, 600_000
ANSWERS = pathlib.Path(__file__).resolve().parent / 'transactions_tool.txt'
# Columns that differ from run to run.
VARYING = {'Coordinator', 'CoordinatorId', 'ProducerId', 'LastTimestamp', 'CurrentTransactionStartTimeMs', 'TransactionDurationMs',
           'Duration(min)'}


def comparable(printed, tag):
    """What was printed, without what may differ; of an exception its name alone, rows in order."""
    exceptions = re.findall(r'org\.apache\.kafka[\w.]+Exception', printed)
    if exceptions:
        return [f'  {exceptions[-1]}']
    printed = re.sub(r'producerId=\d+', 'producerId=*', printed.replace(tag, 'TAG'))
    # The tool's log has a time in front.
    lines = [line.split() for line in printed.splitlines() if line.strip() and not re.match(r'\d\d:\d\d:', line)]
    if not lines:
        return []
    header, rows = lines[0], []
    for line in lines[1:]:
        rows.append(['*' if name in VARYING and cell != '-1' else cell for name, cell in zip(header, line)] + line[len(header):])
    return ['  ' + ' '.join(line) for line in [header, *sorted(rows)]]


class Bench:
    """The tool, a probe, and the transactions of this run."""

    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(':')
        self.tools, self.steps, self.probe = Tools(bootstrap), Steps(bootstrap, 'transactions'), k.Probe(host, int(port))
        self.topic, self.tag = self.tools.topic, self.tools.tag
        if self.probe.create_topic(self.topic, 3) != 'NONE' or not self.probe.wait_topic(self.topic, 3):
            raise Failure('no topic')
        self.broker = re.search(r'Leader: (\d+)', self.tools.run('topics', '--describe', '--topic', self.topic)).group(1)
        self.transcript = []
        self.wait_for_coordinator()

    def wait_for_coordinator(self):
        """A broker lists no transactions while one of the coordinator's partitions is loading."""
        self.probe.find_coordinator('anybody')
        deadline = time.monotonic() + 60
        while (error := self.probe.list_txns()[0]) != 'NONE':
            if time.monotonic() > deadline:
                raise Failure(f'no coordinator: {error}')
            time.sleep(0.1)

    def tool(self, *arguments, **wanted):
        printed = self.steps.run(*arguments, **wanted)
        words = ['PID' if before == '--producer-id' else 'NODE' if before == '--broker-id' else word
                 for before, word in zip(('', *arguments), arguments)]
        self.transcript += [f'$ {" ".join(words)}'.replace(self.tag, 'TAG'), *comparable(printed, self.tag)]
        return printed

    def open(self, name, partition, version=12, age_ms=0):
        """One record of `name` in a transaction; version 9 does not tell the coordinator."""
        error, pid, epoch = self.probe.init_pid(name, timeout_ms=TIMEOUT_MS)
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
    """list: duration and pattern, alone and together; what is not a pattern"""
    alpha, beta = f'alpha-{b.tag}', f'beta-{b.tag}'
    b.open(alpha, 0)
    error, pid, epoch = b.probe.init_pid(beta)
    assert (error, int(pid) >= 0, epoch) == ('NONE', True, 0)
    row = r'^%s\s+\d+\s+\d+\s+%s'
    b.tool('list', said=[row % (alpha, 'Ongoing'), row % (beta, 'Empty')])
    b.tool('list', '--duration-filter', '-1', said=[row % (alpha, 'Ongoing'), row % (beta, 'Empty')])
    b.tool('list', '--transactional-id-pattern', 'alpha-.*', said=[row % (alpha, 'Ongoing')], unsaid=[beta])
    # A pattern is of the whole id.
    b.tool('list', '--transactional-id-pattern', 'alpha-', unsaid=[alpha, beta])
    b.tool('list', '--transactional-id-pattern', f'(alpha|beta)-{b.tag}', said=[alpha, beta])
    # An id without a transaction has no start, and counts as older than anything.
    b.tool('list', '--duration-filter', str(HOUR_MS), said=[beta], unsaid=[alpha])
    b.tool('list', '--duration-filter', str(HOUR_MS), '--transactional-id-pattern', 'alpha-.*', unsaid=[alpha, beta])
    time.sleep(0.05)
    b.tool('list', '--duration-filter', '10', said=[row % (alpha, 'Ongoing'), beta])
    b.tool('list', '--duration-filter', '10', '--transactional-id-pattern', 'alpha-.*', said=[row % (alpha, 'Ongoing')], unsaid=[beta])
    b.tool('list', '--transactional-id-pattern', '[', said=['Failed to list transactions'], status=1)


def describe(b):
    """describe: an open transaction, an id without one, an id that is not there"""
    name = f'alpha-{b.tag}'
    b.tool('describe', '--transactional-id', name, said=[r'%s\s.*Ongoing.*%s-0' % (name, b.topic)])
    b.tool('describe', '--transactional-id', f'beta-{b.tag}', said=[r'beta-%s\s.*Empty' % b.tag])
    b.tool('describe', '--transactional-id', f'nobody-{b.tag}', said=['could not be found|TransactionalIdNotFound'], status=1)


def describe_producers(b):
    """describe-producers: an open transaction, by node; of a partition without producers"""
    place = '--topic', b.topic, '--partition'
    b.tool('describe-producers', *place, '0', said=[r'^\d+\s+0\s+-1\s+0\s+\d+\s+0\b'])
    b.tool('describe-producers', '--broker-id', b.broker, *place, '0', said=[r'^\d+\s+0\s+-1\s+0\s+\d+\s+0\b'])
    b.tool('describe-producers', *place, '1')


def force_terminate(b):
    """forceTerminateTransaction: the open transaction of an id, an id without one; what the producer leaves in the partition"""
    name = f'alpha-{b.tag}'
    b.tool('forceTerminateTransaction', '--transactionalId', name)
    b.decided(0)
    b.probe.wait_txn(name, ['Empty'])
    b.tool('describe', '--transactional-id', name, said=[r'%s\s.*(CompleteAbort|Empty)' % name])
    # Only a marker since: no sequence; the coordinator's epoch is known.
    b.tool('describe-producers', '--topic', b.topic, '--partition', '0', said=[r'^\d+\s+\d+\s+0\s+-1\s+\d+\s+None'])
    b.tool('forceTerminateTransaction', '--transactionalId', f'beta-{b.tag}')
    b.tool('list', said=[r'^beta-%s\s+\d+\s+\d+\s+Empty' % b.tag])


def hanging(b, partition):
    name = f'hanging-{b.tag}-{partition}'
    pid, epoch = b.open(name, partition, version=9, age_ms=HOUR_MS)
    if b.probe.lso(b.topic, partition) != 0:
        raise Failure('the transaction does not hang')
    return pid, epoch


def find_hanging(b):
    """find-hanging: by broker, by topic, by partition, by age; abort by start offset; arguments that do not go together"""
    pid, _ = hanging(b, 1)
    row = r'^%s\s+1\s+%d\s+0\s' % (b.topic, pid)
    b.tool('find-hanging', '--broker-id', b.broker, said=[row])
    b.tool('find-hanging', '--topic', b.topic, said=[row])
    b.tool('find-hanging', '--topic', b.topic, '--partition', '1', said=[row])
    b.tool('find-hanging', '--broker-id', b.broker, '--topic', b.topic, said=[row])
    b.tool('find-hanging', '--topic', b.topic, '--partition', '0', unsaid=[row])
    b.tool('find-hanging', '--topic', b.topic, '--max-transaction-timeout', '120', unsaid=[row])
    b.tool('find-hanging', '--broker-id', b.broker, '--max-transaction-timeout', '30', said=[row])
    b.tool('find-hanging', status=1)
    b.tool('find-hanging', '--partition', '1', status=1)
    b.tool('abort', '--topic', b.topic, '--partition', '1', '--start-offset', '5', status=1)
    b.tool('abort', '--topic', b.topic, '--partition', '1', status=1)
    b.tool('abort', '--topic', b.topic, '--partition', '1', '--start-offset', '0')
    b.decided(1)
    b.tool('find-hanging', '--broker-id', b.broker, unsaid=[row])


def abort_by_producer(b):
    """abort by producer id, epoch and coordinator epoch; an epoch that is behind"""
    hanging(b, 2)
    name = f'hanging-{b.tag}-2'
    # The next instance has the next epoch, which the partition hears of with its first record.
    error, pid, epoch = b.probe.init_pid(name)
    assert error == 'NONE'
    of = '--topic', b.topic, '--partition', '2', '--producer-id', str(pid), '--coordinator-epoch', '0', '--producer-epoch'
    b.tool('abort', *of, str(epoch))
    b.decided(2)
    b.tool('abort', *of, '0', status=1)
    b.tool('describe-producers', '--topic', b.topic, '--partition', '2')


STEPS = (list_filters, describe, describe_producers, force_terminate, find_hanging, abort_by_producer)


def compared(transcript):
    """The lines that differ from what was printed about Apache Kafka."""
    wanted = ANSWERS.read_text().splitlines()
    return [line for line in difflib.ndiff(wanted, transcript) if line[0] in '+-']


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--bootstrap', default='127.0.0.1:9092')
    parser.add_argument('--record', action='store_true')
    options = parser.parse_args()
    bench, failed = Bench(options.bootstrap), 0
    for step in STEPS:
        try:
            step(bench)
            print(f'OK transactions tool: {step.__doc__}', flush=True)
        except Exception as e:  # noqa: BLE001 - a step may fail in any way; it must not stop the others
            failed += 1
            print(f'FAIL transactions tool {step.__name__}: {type(e).__name__}: {e}', flush=True)
    if options.record:
        ANSWERS.write_text('\n'.join(bench.transcript) + '\n')
    different = compared(bench.transcript)
    for line in different:
        print(f'FAIL transactions tool: not as of Apache Kafka: {line}', flush=True)
    return 1 if failed or different else 0


if __name__ == '__main__':
    sys.exit(main())
