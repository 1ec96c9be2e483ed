"""Clients of several kinds that take turns on one transactional id, and what they have been told."""
import random
import subprocess
import sys
import threading
import time

PATIENCE_S = 60
TIMEOUT_MS = 60_000


class Trouble(Exception):
    """A client was told something that it should not have been, or a guarantee was broken."""


class Java:
    """The Java client: a process that does one step for each line."""

    def __init__(self, name, classpath, bootstrap, topic, txn):
        self.name = name
        self.process = subprocess.Popen(
            ['java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx128m', '-cp', classpath, 'fencepost.interop.Main', 'turns',
             '--bootstrap', bootstrap, '--topic', topic, '--txn', txn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        said = self.process.stdout.readline().strip()
        if said.split(' ')[0] != 'ok':
            raise Trouble(f'{self.name}: {words[0]}: {said or "the process is gone"}')
        return said[3:]

    def open(self, timeout_ms=TIMEOUT_MS):
        self.step('open', timeout_ms)

    def begin(self):
        self.step('begin')

    def send(self, partition, value):
        self.step('send', partition, value)

    def commit(self):
        self.step('commit')

    def abort(self):
        self.step('abort')

    def versions(self):
        """Versions of Produce and EndTxn since this was last asked."""
        return tuple(int(word) for word in self.step('versions').split(' '))

    def close(self):
        self.step('close')

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class Librdkafka:
    """librdkafka, in this process."""

    def __init__(self, name, bootstrap, topic, txn):
        self.name, self.bootstrap, self.topic, self.txn, self.producer = name, bootstrap, topic, txn, None

    def _do(self, what, step, *arguments):
        from confluent_kafka import KafkaException
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return step(*arguments)
            except KafkaException as e:
                # The documentation of the client asks for this.
                if not e.args[0].retriable() or time.monotonic() > deadline:
                    raise Trouble(f'{self.name}: {what}: {e.args[0]}') from e

    def open(self, timeout_ms=TIMEOUT_MS):
        from confluent_kafka import Producer
        self.producer = Producer({'bootstrap.servers': self.bootstrap, 'transactional.id': self.txn, 'linger.ms': 0, 'log_level': 2,
                                  'transaction.timeout.ms': timeout_ms})
        self._do('open', self.producer.init_transactions, PATIENCE_S)

    def begin(self):
        self._do('begin', self.producer.begin_transaction)

    def send(self, partition, value):
        told = []
        self.producer.produce(self.topic, value, partition=partition, on_delivery=lambda error, _: told.append(error))
        self.producer.flush(PATIENCE_S)
        if told != [None]:
            raise Trouble(f'{self.name}: send: {told}')

    def commit(self):
        self._do('commit', self.producer.commit_transaction, PATIENCE_S)

    def abort(self):
        self._do('abort', self.producer.abort_transaction, PATIENCE_S)

    def close(self):
        self.producer = None

    def end(self):
        self.close()


class Ledger:
    """Which values must be visible, and which must not."""

    def __init__(self, partitions):
        self.partitions, self.confirmed, self.aborted, self.count, self.lock = partitions, {}, {}, 0, threading.Lock()

    def value(self, of):
        with self.lock:
            self.count += 1
            return f'{of.replace(" ", "-")}-{self.count}'

    def transaction(self, client, commit=True, between=lambda: None):
        """One transaction over two partitions, with something done in its midst."""
        values = {partition: self.value(client.name) for partition in random.sample(range(self.partitions), 2)}
        client.begin()
        for number, (partition, value) in enumerate(values.items()):
            client.send(partition, value)
            if number == 0:
                between()
        if commit:
            client.commit()
        else:
            client.abort()
        with self.lock:
            for partition, value in values.items():
                (self.confirmed if commit else self.aborted)[value] = partition

    def check(self, probe, bootstrap, topic):
        """Every confirmed value once, no aborted one, nothing open."""
        deadline = time.monotonic() + 10
        while open_ones := probe.list_txns(states=['Ongoing', 'PrepareCommit', 'PrepareAbort'])[1]:
            if time.monotonic() > deadline:
                raise Trouble(f'still open: {open_ones}')
            time.sleep(0.05)
        for partition in range(self.partitions):
            end = probe.hw(topic, partition)
            if probe.wait_lso(topic, end, partition) < end:
                raise Trouble(f'the last stable offset of partition {partition} is behind')
        seen = read_committed(bootstrap, topic, self.partitions)
        values = [value for _, value in seen]
        missing = [value for value, partition in self.confirmed.items() if (partition, value) not in seen]
        if missing or len(values) != len(set(values)) or set(values) & set(self.aborted):
            raise Trouble(f'missing {missing}, twice {len(values) - len(set(values))}, aborted {set(values) & set(self.aborted)}')
        return len(self.confirmed)


def read_committed(bootstrap, topic, partitions):
    """(partition, value) of all that a read_committed consumer gets."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    consumer = Consumer({'bootstrap.servers': bootstrap, 'group.id': 'turns', 'isolation.level': 'read_committed', 'log_level': 2,
                         'auto.offset.reset': 'earliest', 'enable.auto.commit': False, 'enable.partition.eof': True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    seen, ended, deadline = [], set(), time.monotonic() + PATIENCE_S
    while len(ended) < partitions and time.monotonic() < deadline:
        one = consumer.poll(1)
        if one is None:
            continue
        if one.error() is None:
            seen.append((one.partition(), one.value().decode()))
        elif one.error().code() == KafkaError._PARTITION_EOF:
            ended.add(one.partition())
    consumer.close()
    if len(ended) < partitions:
        raise Trouble('the reader did not reach the end')
    return seen


def say(line):
    print(line, flush=True, file=sys.stdout)
