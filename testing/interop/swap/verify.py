"""What must be in the topics at the end, and in the files."""
import collections
import re
import subprocess
import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

import clients
import held

READ_S = 120
# What Kafka's dump tool says when it finds something wrong.
COMPLAINTS = re.compile(r'mismatch|non-consecutive|isvalid: false|Exception|out of order|corrupt|Found timestamp|Error', re.I)


class Failure(Exception):
    """A promise was broken."""


def read_all(bootstrap, topic, partitions, isolation):
    """Every value of a topic, in order for each partition, as a consumer gets them."""
    consumer = Consumer({**clients.QUIET, 'bootstrap.servers': bootstrap, 'group.id': 'verify', 'enable.auto.commit': False,
                         'isolation.level': isolation, 'enable.partition.eof': True, 'auto.offset.reset': 'earliest'})
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    values, open_, deadline = {n: [] for n in range(partitions)}, set(range(partitions)), time.time() + READ_S
    while open_:
        if time.time() > deadline:
            raise Failure('%s cannot be read to its end' % topic)
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                values[message.partition()].append(message.value().decode())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_.discard(message.partition())
    consumer.close()
    return values


def verify(node, load, transactions):
    """Checks every topic; answers what was read."""
    read = {topic: read_all(node.bootstrap, topic, partitions, isolation) for topic, partitions, isolation in (
        ('steady', clients.STEADY_PARTITIONS, 'read_uncommitted'), ('copy', clients.STEADY_PARTITIONS, 'read_committed'),
        ('load', clients.LOAD_PARTITIONS, 'read_committed'), ('held', len(held.PARTITIONS), 'read_committed'))}
    check_steady(read['steady'], load.steady)
    if read['copy'] != read['steady']:
        raise Failure('the copy is not the source: %s' % {n: (len(read['copy'][n]), len(read['steady'][n])) for n in read['copy']})
    check_load(read['load'], load.writers)
    for n, wanted in transactions.committed().items():
        if read['held'][n] != wanted:
            found = read['held'][n]
            raise Failure('held %d: lost %s, not wanted %s, or another order' % (n, sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))))
    p = node.probe()
    at = p.offset_fetch(clients.GROUP, {'steady': list(range(clients.STEADY_PARTITIONS))}, True)
    if [at['steady', n] for n in range(clients.STEADY_PARTITIONS)] != [('NONE', end) for end in load.pipeline.end]:
        raise Failure('the group is at %s, not %s' % (at, load.pipeline.end))
    open_ = p.list_txns(states=['Ongoing', 'PrepareCommit', 'PrepareAbort'])
    if any(name != transactions.fenced.name for name, _, _ in open_[1]):
        raise Failure('still open: %s' % (open_,))
    return read


def check_steady(values, writer):
    for n, found in values.items():
        wanted = ['%09d' % number for number in range(writer.acknowledged[n])]
        if found != wanted:
            twice = [value for value, count in collections.Counter(found).items() if count > 1]
            raise Failure('steady %d: lost %s, twice %s, %d found' % (n, sorted(set(wanted) - set(found))[:5], twice[:5], len(found)))


def check_load(values, writers):
    found = collections.Counter()
    for partition in values.values():
        last = {}
        for value in partition:
            name, number, n, _ = value.split(':')
            key = (name, int(number), int(n))
            found[key] += 1
            if last.get(name, (0, -1)) >= key[1:]:
                raise Failure('load: %s comes after %s' % (key, last[name]))
            last[name] = key[1:]
    twice = [key for key, count in found.items() if count > 1]
    if twice:
        raise Failure('load: twice %s' % twice[:5])
    by_transaction = collections.Counter((name, number) for name, number, _ in found)
    for writer in writers:
        for number, outcome in writer.outcome.items():
            count, size = by_transaction.pop((writer.name, number), 0), writer.sizes[number]
            if (outcome is True and count != size) or (outcome is False and count) or (outcome is None and count not in (0, size)):
                raise Failure('load: transaction %d of %s: outcome %s, %d of %d records' % (number, writer.name, outcome, count, size))
    if by_transaction:
        raise Failure('load: records of unknown transactions %s' % list(by_transaction)[:5])


def check_files(node):
    """Kafka's dump tool over every file of every partition, as the last clean stop left them; answers how many."""
    files = sorted(str(f) for f in node.logs.glob('*/*') if f.suffix in ('.log', '.index', '.timeindex', '.txnindex', '.snapshot'))
    done = subprocess.run([str(node.executables['kafka']), 'tool', 'dump-log', '--files', ','.join(files)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    wrong = [line for line in done.stdout.split('\n') if COMPLAINTS.search(line)]
    if done.returncode or wrong:
        raise Failure('Kafka\'s dump tool: %s' % '\n'.join(wrong[:10] or [done.stdout[-2000:]]))
    return len(files)
