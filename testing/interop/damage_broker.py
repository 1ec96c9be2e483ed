"""The broker of damage.py: its process on one directory, and what is written before anything is damaged."""
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # noqa: E402

TOPICS, PARTITIONS, GROUPS, TRANSACTIONAL_IDS, SEGMENT_BYTES = ('plain', 'transactional'), 2, 6, 5, 3000
COORDINATORS = '__consumer_offsets', '__transaction_state'
OPEN = 'txn-open'
BATCHES, TRANSACTIONS, COMMITS = 60, 36, 12
TRANSACTION_MAX_MS = 86_400_000
START_S, STOP_S, ANSWER_S = 20, 20, 10
SETTINGS = ('fencepost.durability=fsync', 'offsets.topic.num.partitions=2', 'transaction.state.log.num.partitions=2',
            'log.flush.offset.checkpoint.interval.ms=200', 'metadata.log.max.record.bytes.between.snapshots=500',
            f'transaction.max.timeout.ms={TRANSACTION_MAX_MS}', 'log.cleaner.enable=false')


class Failure(Exception):
    """Something is not as it should be."""


class Refused(Exception):
    """The broker did not start, and said why."""


class Broker:
    """A process on one directory. Its lines are kept in a file beside it."""

    def __init__(self, options, data):
        self.options, self.data, self.log, self.process = options, data, data.with_name(data.name + '.log'), None

    def start(self):
        settings = [part for setting in SETTINGS for part in ('-X', setting)]
        with self.log.open('wb') as log:
            self.process = subprocess.Popen([self.options.executable, 'serve', '--data', self.data, '--listen', f'127.0.0.1:{self.options.port}',
                                             *settings], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + START_S
        while True:
            try:
                return k.Probe('127.0.0.1', self.options.port, ANSWER_S)
            except OSError:
                if self.process.poll() is not None:
                    self.refused()
                if time.monotonic() > deadline:
                    raise Failure(f'no start within {START_S} s') from None
                time.sleep(0.01)

    def refused(self):
        said = [line for line in self.said().splitlines() if line.startswith('fencepost: ')]
        if self.process.returncode != 1 or len(said) != 1 or 'panicked' in self.said():
            raise Failure(f'the start ended with {self.process.returncode}: {self.said()[-500:]}')
        raise Refused(said[0])

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise Failure(f'no stop within {STOP_S} s') from None
        if 'panicked' in self.said():
            raise Failure(f'a panic: {self.said()[-500:]}')
        if how == signal.SIGTERM and self.process.returncode != 0:
            raise Failure(f'the stop ended with {self.process.returncode}')

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self):
        return re.sub(r'\x1b\[\d*m', '', self.log.read_text(errors='replace'))


def wanted(error, what):
    if error != 'NONE':
        raise SystemExit(f'{what}: {error}')


def commit_offset(probe, group, offset):
    O = k.OffsetCommitRequest
    topic = O.OffsetCommitRequestTopic
    part = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata='')
    request = O[7](group_id=group, generation_id_or_member_epoch=-1, member_id='', group_instance_id=None,
                   topics=[topic(name='plain', partitions=[part])])
    return probe._retry(lambda: k.error_name(probe.conn.call(request).topics[0].partitions[0].error_code))


def write(probe, part, parts):
    """One of several parts of what a template holds; `part` counts from zero."""
    error, pid, epoch = probe.init_pid()
    wanted(error, 'InitProducerId')
    for number in range(BATCHES // parts):
        for partition in range(PARTITIONS):
            values = [b'plain-%d-%d-%d-%d' % (part, partition, number, n) * 4 for n in range(3)]
            wanted(probe.produce('plain', k.batch(values, pid, epoch, number * 3), partition)[0], 'Produce')
    for number in range(TRANSACTIONS // parts):
        name = f'txn-{number % TRANSACTIONAL_IDS}'
        error, pid, epoch = probe.init_pid(name, TRANSACTION_MAX_MS)
        wanted(error, 'InitProducerId')
        for partition in range(PARTITIONS):
            values = [b'txn-%d-%d-%d-%d' % (part, partition, number, n) * 4 for n in range(3)]
            # A new transaction may find the markers of the last one still under way.
            wanted(probe._retry(lambda p=partition, v=values: probe.produce(
                'transactional', k.batch(v, pid, epoch, 0, transactional=True), p, txn_id=name, version=12)[0]), 'Produce')
        wanted(probe.end_txn(name, pid, epoch, number % 3 != 2, version=5)[0], 'EndTxn')
    for number in range(COMMITS // parts):
        for group in range(GROUPS):
            wanted(commit_offset(probe, f'group-{group}', (part * COMMITS + number) * GROUPS + group), 'OffsetCommit')


def leave_open(probe):
    """A transaction that nobody ends."""
    error, pid, epoch = probe.init_pid(OPEN, TRANSACTION_MAX_MS)
    wanted(error, 'InitProducerId')
    for partition in range(PARTITIONS):
        values = [b'open-%d' % partition]
        wanted(probe.produce('transactional', k.batch(values, pid, epoch, 0, transactional=True), partition, txn_id=OPEN, version=12)[0], 'Produce')


def make_segments_small(options):
    """Of the coordinators' logs: a broker's own setting may not be so small."""
    setting = ConfigEntry('internal.segment.bytes', str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[setting]) for topic in COORDINATORS]
    admin = AdminClient({'bootstrap.servers': f'127.0.0.1:{options.port}', 'log_level': 2})
    for answer in admin.incremental_alter_configs(resources).values():
        answer.result(ANSWER_S)
