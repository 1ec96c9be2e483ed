#!/usr/bin/env python3
"""KAFKA-17754: requests of older clients (below transaction version 2) that arrive in the middle of the next transaction.

  delayed_requests.py --bootstrap HOST:PORT --harmed NAME,NAME…

A proxy keeps one request back. Its sender gives up, closes the connection, asks again on a new one, is answered, and begins its next
transaction; then the first copy arrives. Each schedule says what was answered and whether that did harm: the wrong transaction ended, or
a record or an offset in a transaction that it does not belong to. `--harmed` names the schedules in which harm is expected; the exit
status is 1 when it is otherwise.
"""
import argparse
import pathlib
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from delaying_proxy import DelayingProxy  # noqa: E402

PRODUCE, ADD, END, OFFSETS = 0, 24, 26, 28
SCHEDULES = []


class Failure(Exception):
    """A step that should have worked did not."""


def schedule(step):
    SCHEDULES.append(step)
    return step


class Client:
    """A producer that speaks the versions of Kafka 3.x, on one connection until it gives up on that."""

    def __init__(self, proxy, direct, produce_version):
        self.proxy, self.direct, self.produce_version = proxy, direct, produce_version
        self.name = self.topic = f'delayed-{uuid.uuid4().hex[:8]}'
        self.group = f'group-{self.name}'
        if direct.create_topic(self.topic, 2) != 'NONE' or not direct.wait_topic(self.topic, 2):
            raise Failure('no topic')
        self.probe = self.connection()
        done('coordinator', self.probe.find_coordinator(self.name)[0])
        done('coordinator', self.direct.find_coordinator(self.group, k.GROUP)[0])
        error, self.pid, self.epoch = self.probe.init_pid(self.name)
        done('InitProducerId', error)

    def connection(self):
        return k.Probe(self.proxy.host, self.proxy.port)

    def give_up(self):
        """Leaves the connection, whatever is under way on it, for a new one."""
        left, self.probe = self.probe, self.connection()
        return left

    def add(self, partition):
        added = self.probe.add_partitions(self.name, self.pid, self.epoch, {self.topic: [partition]})
        done('AddPartitionsToTxn', *added.values())

    def add_group(self):
        done('AddOffsetsToTxn', self.probe.add_offsets(self.name, self.pid, self.epoch, self.group))

    def batch(self, sequence, value):
        return k.batch([value], self.pid, self.epoch, sequence, transactional=True)

    def produce(self, partition, sequence, value):
        records = self.batch(sequence, value)
        done('Produce', self.probe.produce(self.topic, records, partition, txn_id=self.name, version=self.produce_version)[0])

    def commit_offset(self, offset):
        told = self.probe.txn_offset_commit(self.name, self.group, self.pid, self.epoch, {(self.topic, 0): offset})
        done('TxnOffsetCommit', *told.values())

    def end(self, commit):
        return self.probe.end_txn(self.name, self.pid, self.epoch, commit)[0]

    def ends(self, commit):
        done('EndTxn', self.end(commit))
        self.direct.wait_txn(self.name, ['CompleteCommit', 'CompleteAbort'])

    def delayed(self, api_key, ask):
        """Sends what `ask` does; it is kept back. Gives up, and returns what lets it go and answers."""
        held, verb = self.proxy.hold(api_key), self.probe
        verb.conn.receive = lambda request: (_ for _ in ()).throw(Sent(request))
        try:
            ask()
        except Sent as sent:
            request = sent.args[0]
        del verb.conn.receive
        held.caught.wait(10)
        left = self.give_up()

        def arrives():
            held.let_go.set()
            return left.conn.receive(request)
        return arrives

    def committed(self, partition=0):
        """Values that a read_committed reader sees."""
        self.direct.wait_lso(self.topic, self.direct.hw(self.topic, partition), partition)
        seen = self.direct.fetch(self.topic, 0, partition, isolation=k.READ_COMMITTED)
        gone = {(pid, first) for pid, first in seen['aborted']}
        values, aborting = [], False
        for batch in seen['batches']:
            if batch['control']:
                aborting = False
                continue
            aborting = aborting or any(first == batch['base'] for _, first in gone)
            if not aborting:
                values += [value.decode() for _, value in batch['records']]
        return values


class Sent(Exception):
    """A request has left, and its answer is not waited for."""


def done(what, *errors):
    if set(errors) != {'NONE'}:
        raise Failure(f'{what}: {errors}')


def late_end(c, commit):
    """An end arrives late, in a transaction that has written already; returns what it is answered."""
    c.add(0)
    c.produce(0, 0, b'first')
    late = c.delayed(END, lambda: c.end(commit))
    c.ends(commit)
    c.add(0)
    c.produce(0, 1, b'second')
    return k.error_name(late().error_code)


@schedule
def commit(c):
    """a commit; the next transaction is to be aborted"""
    told = late_end(c, commit=True)
    end = c.end(False)
    return told, f'the abort is answered {end}', c.committed() != ['first']


@schedule
def abort(c):
    """an abort; the next transaction is to be committed"""
    told = late_end(c, commit=False)
    end = c.end(True)
    return told, f'the commit is answered {end}', c.committed() != ['second']


@schedule
def torn(c):
    """a commit between two records of the next transaction, which is to be aborted"""
    told = late_end(c, commit=True)
    c.direct.wait_txn(c.name, ['CompleteCommit', 'Ongoing'])
    c.add(1)
    c.produce(1, 0, b'third')
    end = c.end(False)
    return told, f'the abort is answered {end}', c.committed(0) + c.committed(1) != ['first']


def late_batch(c):
    c.add(0)
    late = c.delayed(PRODUCE, lambda: c.produce(0, 0, b'late'))
    c.ends(False)
    return lambda: k.error_name(late().responses[0].partition_responses[0].error_code)


@schedule
def batch_before_add(c):
    """a batch of an aborted transaction, before the next one has added the partition"""
    late = late_batch(c)
    c.add(1)
    c.produce(1, 0, b'right')
    told = late()
    c.ends(True)
    return told, 'the verification knows', c.committed() != []


@schedule
def batch_after_add(c):
    """a batch of an aborted transaction, after the next one has added the partition"""
    late = late_batch(c)
    c.add(0)
    told = late()
    c.ends(True)
    return told, 'the sequence fits', c.committed() != []


@schedule
def batch_in_open(c):
    """the second of two batches in flight, once the next transaction has written the first of its own"""
    c.add(0)
    late = c.delayed(PRODUCE, lambda: c.produce(0, 1, b'late'))
    c.ends(False)
    c.add(0)
    c.produce(0, 0, b'right')
    told = k.error_name(late().responses[0].partition_responses[0].error_code)
    c.ends(True)
    return told, 'the sequence fits', c.committed() != ['right']


@schedule
def offsets(c):
    """offsets of an aborted transaction, after those of the next one"""
    c.add_group()
    late = c.delayed(OFFSETS, lambda: c.commit_offset(10))
    c.ends(False)
    c.add_group()
    c.commit_offset(20)
    told = k.error_name(late().topics[0].partitions[0].error_code)
    c.ends(True)
    offset = c.direct.offset_fetch(c.group, {c.topic: [0]})[(c.topic, 0)][1]
    return told, f'the group goes on at {offset}', offset != 20


@schedule
def add(c):
    """an add, after its transaction has ended"""
    late = c.delayed(ADD, lambda: c.add(0))
    c.add(0)
    c.ends(True)
    told = k.error_name(late().results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    state = c.direct.describe_txn(c.name)['state']
    return told, f'the transaction is {state}', state == 'Ongoing'


def librdkafka(proxy, direct):
    """the first schedule through confluent-kafka (librdkafka), which gives up after a second"""
    import confluent_kafka
    name = f'delayed-{uuid.uuid4().hex[:8]}'
    if direct.create_topic(name, 1) != 'NONE' or not direct.wait_topic(name):
        raise Failure('no topic')
    producer = confluent_kafka.Producer({
        'bootstrap.servers': f'{proxy.host}:{proxy.port}', 'transactional.id': name, 'transaction.timeout.ms': 60000,
        'socket.timeout.ms': 1000, 'log_level': 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b'first', partition=0)
    producer.flush(30)
    held = proxy.hold(END)
    producer.commit_transaction(30)
    if not held.caught.is_set():
        raise Failure('no EndTxn was kept back')
    producer.begin_transaction()
    producer.produce(name, b'second', partition=0)
    producer.flush(30)
    held.let_go.set()
    held.answered.wait(10)
    try:
        producer.abort_transaction(30)
        end = 'as wanted'
    except confluent_kafka.KafkaException as error:
        end = error.args[0].name()
    direct.wait_txn(name, ['CompleteCommit', 'CompleteAbort'])
    reader = confluent_kafka.Consumer({
        'bootstrap.servers': f'{direct.host}:{direct.port}', 'group.id': name, 'auto.offset.reset': 'earliest', 'log_level': 0})
    reader.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    values, until = [], time.monotonic() + 5
    while time.monotonic() < until:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    reader.close()
    return 'an answer that nobody hears', f'the abort ends: {end}', values != [b'first']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('--harmed', default='')
    options = parser.parse_args()
    host, _, port = options.bootstrap.rpartition(':')
    expected = set(filter(None, options.harmed.split(',')))
    proxy, direct = DelayingProxy(host, int(port)), k.Probe(host, int(port))
    harmed, unfinished = set(), []

    def run(name, about, step):
        try:
            told, besides, harm = step()
        except (Failure, k.Closed, OSError) as error:
            unfinished.append(name)
            print(f'{name}: {about}: FAIL {error}')
            return
        if harm:
            harmed.add(name)
        print(f'{name}: {about}: answered {told}, {besides}; {"HARM" if harm else "no harm"}')

    for step in SCHEDULES:
        for version in (9, 11):
            name = f'{step.__name__.replace("_", "-")}-{version}'
            run(name, step.__doc__, lambda: step(Client(proxy, direct, version)))
    run('librdkafka', librdkafka.__doc__, lambda: librdkafka(proxy, direct))
    if harmed != expected or unfinished:
        print(f'FAIL harm in {sorted(harmed)}, expected in {sorted(expected)}; unfinished: {unfinished}')
        sys.exit(1)
    print(f'OK {2 * len(SCHEDULES) + 1} schedules, harm in {len(harmed)}, as expected')


if __name__ == '__main__':
    main()
