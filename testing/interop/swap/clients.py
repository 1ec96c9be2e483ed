"""Clients that go on while the broker is swapped under them."""
import random
import threading
import time

import kprobe as k
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PATIENCE_S = 120
LOAD_WRITERS, LOAD_PARTITIONS, STEADY_PARTITIONS = 2, 3, 2
GROUP = 'pipeline'
OFFSETS_S = 10
# A stopping Kafka says for a moment that there are no brokers. librdkafka drops its only one then, and a consumer whose offset is being
# validated may wait for it for ever.
STALLED_S = 5
NOT_YET = {'NOT_LEADER_OR_FOLLOWER', 'UNKNOWN_TOPIC_OR_PARTITION', 'COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR',
           'LEADER_NOT_AVAILABLE', 'REQUEST_TIMED_OUT'}
# With its other recovery strategy librdkafka's send_offsets_to_transaction waits for the dropped broker until the next one is gone, too.
QUIET = {'log_level': 0, 'socket.keepalive.enable': True, 'reconnect.backoff.max.ms': 500, 'topic.metadata.refresh.interval.ms': 2000,
         'metadata.recovery.strategy': 'none'}


class Gate:
    """What decides a transaction goes through here. While it is shut nothing is being decided, and transactions stay open."""

    def __init__(self):
        self.condition, self.is_open, self.inside = threading.Condition(), True, 0

    def __enter__(self):
        with self.condition:
            assert self.condition.wait_for(lambda: self.is_open, PATIENCE_S), 'the gate stays shut'
            self.inside += 1

    def __exit__(self, *_):
        with self.condition:
            self.inside -= 1
            self.condition.notify_all()

    def shut(self):
        with self.condition:
            self.is_open = False
            assert self.condition.wait_for(lambda: not self.inside, PATIENCE_S), 'a transaction does not come to its end'

    def open(self):
        with self.condition:
            self.is_open = True
            self.condition.notify_all()


class LoadWriter:
    """Transactions all the time. `outcome` says of each what it must have come to; None where nobody can know."""

    def __init__(self, bootstrap, name, seed, stop, gate):
        self.conf = {**QUIET, 'bootstrap.servers': bootstrap, 'transactional.id': name, 'transaction.timeout.ms': 300000,
                     'message.timeout.ms': 200000, 'linger.ms': 2}
        self.name, self.random, self.stop, self.gate = name, random.Random(seed), stop, gate
        self.producer, self.outcome, self.sizes, self.instances = None, {}, {}, 0

    def run(self):
        number = 0
        while not self.stop.is_set():
            if self.producer is None:
                self.begin_instance()
            number += 1
            self.transaction(number)
            time.sleep(0.002)

    def begin_instance(self):
        self.producer = Producer(self.conf)
        with self.gate:
            self.retry(lambda: self.producer.init_transactions(PATIENCE_S))
        self.instances += 1

    @staticmethod
    def retry(call):
        deadline = time.time() + PATIENCE_S
        while True:
            try:
                return call()
            except KafkaException as e:
                if not e.args[0].retriable() or time.time() > deadline:
                    raise
                time.sleep(0.02)

    def transaction(self, number):
        commit, size = self.random.random() < 0.75, self.random.randint(1, 8)
        self.sizes[number] = size
        ending = False
        try:
            self.producer.begin_transaction()
            for n in range(size):
                value = '%s:%d:%d:%s' % (self.name, number, n, 'x' * self.random.randint(0, 200))
                self.producer.produce('load', value, partition=self.random.randrange(LOAD_PARTITIONS))
                self.producer.poll(0)
            with self.gate:
                ending = commit
                self.retry(lambda: self.producer.commit_transaction(PATIENCE_S) if commit else self.producer.abort_transaction(PATIENCE_S))
            self.outcome[number] = commit
        except KafkaException as e:
            self.failed(number, e.args[0], ending)

    def failed(self, number, error, ending):
        if error.txn_requires_abort():
            self.outcome[number] = False
            try:
                with self.gate:
                    self.retry(lambda: self.producer.abort_transaction(PATIENCE_S))
                return
            except KafkaException:
                pass
        else:
            # Whether the end has reached the broker is not known here; the next instance sees to it that it is decided.
            self.outcome[number] = None if ending else False
        self.producer = None


class SteadyWriter:
    """Numbered records with idempotence alone, by a raw client: one producer id from the first swap to the last, and a batch whose
    answer was lost is sent again as it was."""

    def __init__(self, bootstrap, seed, stop):
        self.port, self.random, self.stop = int(bootstrap.rpartition(':')[2]), random.Random(seed), stop
        self.probe, self.acknowledged, self.sent_again = None, [0] * STEADY_PARTITIONS, 0

    def run(self):
        _, self.id, self.epoch = self.insist(lambda probe: probe.init_pid())
        while not self.stop.is_set():
            for partition in range(STEADY_PARTITIONS):
                first, size = self.acknowledged[partition], self.random.randint(1, 5)
                values = [b'%09d' % number for number in range(first, first + size)]
                batch = k.batch(values, self.id, self.epoch, first)
                answer = self.insist(lambda probe: probe.produce('steady', batch, partition))
                assert answer[0] == 'NONE', answer
                self.acknowledged[partition] += size
            time.sleep(0.004)

    def insist(self, call):
        """Calls until there is an answer of a broker that is at work."""
        deadline = time.time() + PATIENCE_S
        while True:
            try:
                self.probe = self.probe or k.Probe(port=self.port)
                answer = call(self.probe)
                if answer[0] not in NOT_YET:
                    return answer
            except (OSError, k.Closed):
                if self.probe:
                    self.probe.conn.close()
                self.probe = None
            assert time.time() < deadline, 'no answer'
            self.sent_again += 1
            time.sleep(0.05)


class Pipeline:
    """Copies `steady` to `copy` in transactions that carry the group's offsets; begins anew after every error, and when nothing comes any more."""

    def __init__(self, bootstrap, stop, gate):
        self.bootstrap, self.stop, self.gate, self.commits, self.workers = bootstrap, stop, gate, 0, 0
        self.end = self.looker = None

    def run(self):
        while not self.is_done():
            consumer = Consumer({**QUIET, 'bootstrap.servers': self.bootstrap, 'group.id': GROUP, 'enable.auto.commit': False,
                                 'auto.offset.reset': 'earliest', 'isolation.level': 'read_committed',
                                 'session.timeout.ms': 1500, 'heartbeat.interval.ms': 300, 'max.poll.interval.ms': 5000})
            producer = Producer({**QUIET, 'bootstrap.servers': self.bootstrap, 'transactional.id': 'pipeline', 'transaction.timeout.ms': 300000,
                                 'message.timeout.ms': 200000, 'linger.ms': 2})
            self.workers += 1
            try:
                with self.gate:
                    LoadWriter.retry(lambda: producer.init_transactions(PATIENCE_S))
                consumer.subscribe(['steady'])
                self.copy(consumer, producer)
            except KafkaException:
                pass
            finally:
                consumer.close()

    def copy(self, consumer, producer):
        last = time.time()
        while not self.is_done() and time.time() < last + STALLED_S:
            batch = [m for m in consumer.consume(200, 0.2) if not self.error(m)]
            if not batch:
                continue
            last = time.time()
            producer.begin_transaction()
            for m in batch:
                producer.produce('copy', m.value(), partition=m.partition())
            at = [p for p in consumer.position(consumer.assignment()) if p.offset >= 0]
            producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), OFFSETS_S)
            with self.gate:
                LoadWriter.retry(lambda: producer.commit_transaction(PATIENCE_S))
            self.commits += 1

    @staticmethod
    def error(message):
        if message.error() and not message.error().retriable() and message.error().fatal():
            raise KafkaException(message.error())
        return message.error()

    def is_done(self):
        """After the last record of `steady` it goes on until the group is at its end."""
        if self.end is None:
            return self.stop.is_set()
        if self.looker is None:
            self.looker = Consumer({**QUIET, 'bootstrap.servers': self.bootstrap, 'group.id': GROUP, 'enable.auto.commit': False})
        try:
            at = self.looker.committed([TopicPartition('steady', n) for n in range(STEADY_PARTITIONS)], PATIENCE_S)
        except KafkaException:
            return False
        return self.stop.is_set() or [p.offset for p in at] == self.end


class Clients:
    """All of them, each in its thread."""

    def __init__(self, bootstrap, random_):
        self.stop_writing, self.stop_copying = threading.Event(), threading.Event()
        self.bootstrap, self.gate = bootstrap, Gate()
        self.writers = [LoadWriter(bootstrap, 'load-%d' % n, random_.random(), self.stop_writing, self.gate) for n in range(LOAD_WRITERS)]
        self.steady, self.pipeline = SteadyWriter(bootstrap, random_.random(), self.stop_writing), Pipeline(bootstrap, self.stop_copying, self.gate)
        self.failures, self.threads = [], []

    def start(self):
        for client in [*self.writers, self.steady, self.pipeline]:
            thread = threading.Thread(target=self.guarded, args=(client,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def guarded(self, client):
        try:
            client.run()
        except BaseException as e:  # noqa: BLE001 - whatever it is, the main thread must say it
            self.failures.append('%s: %r' % (type(client).__name__, e))

    def check(self):
        assert not self.failures, self.failures

    def finish(self):
        """Lets everyone come to an end, the pipeline at the end of its source."""
        self.stop_writing.set()
        for thread in self.threads[:-1]:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive(), 'a client does not come to its end'
        self.check()
        looker = Consumer({**QUIET, 'bootstrap.servers': self.bootstrap, 'group.id': 'nobody'})
        self.pipeline.end = [looker.get_watermark_offsets(TopicPartition('steady', n), PATIENCE_S)[1] for n in range(STEADY_PARTITIONS)]
        looker.close()
        self.threads[-1].join(2 * PATIENCE_S)
        assert not self.threads[-1].is_alive(), 'the pipeline does not come to its end'
        self.check()

    def hold(self, probe):
        """Leaves no transaction whose outcome is written and whose markers are not: Kafka 4.4 may forget those when it is stopped or
        started in that moment. They all stay open instead."""
        self.gate.shut()
        deadline = time.time() + PATIENCE_S
        while (found := probe.list_txns(states=['PrepareCommit', 'PrepareAbort'])) != ('NONE', []):
            assert time.time() < deadline, found
            time.sleep(0.01)

    def abandon(self):
        self.gate.open()
        self.stop_writing.set()
        self.stop_copying.set()

    def counts(self):
        return '%d records, %d transactions, %d copied' % (sum(self.steady.acknowledged), sum(len(w.outcome) for w in self.writers), self.pipeline.commits)

    def summary(self):
        outcomes = [o for w in self.writers for o in w.outcome.values()]
        return ('%d idempotent records, %d requests sent again; %d transactions committed, %d aborted, %d undecided to their client, '
                'by %d instances; %d copies by %d workers') % (
                    sum(self.steady.acknowledged), self.steady.sent_again, outcomes.count(True), outcomes.count(False), outcomes.count(None),
                    sum(w.instances for w in self.writers), self.pipeline.commits, self.pipeline.workers)
