#!/usr/bin/env python3
"""Kafka's own command-line tools against one broker.

  tools.py --bootstrap HOST:PORT [NAME…]

Each step runs tools from Apache Kafka's jars (kafka.sh) and looks at what they print. Prints a line for each, and at the end how
many passed; the exit status is 1 when one has failed.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import time
import uuid

KAFKA = pathlib.Path(__file__).resolve().parent / 'kafka.sh'
PATIENCE_S = 60


class Failure(Exception):
    """A tool printed something else than wanted."""


class Tools:
    """The tools against one broker, with names of this run alone."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.tag = uuid.uuid4().hex[:8]
        self.topic, self.group = 'tools-' + self.tag, 'tools-group-' + self.tag

    def run(self, name, *arguments, said=(), unsaid=(), given=None, status=0):
        """Runs a tool; every pattern of `said` must be in what it prints, none of `unsaid`."""
        done = subprocess.run([str(KAFKA), 'tool', name, '--bootstrap-server', self.bootstrap, *arguments], input=given, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        return looked_at('%s %s' % (name, ' '.join(arguments)), done.stdout, done.returncode, said, unsaid, status)


class Steps:
    """One tool in one process, run again and again."""

    def __init__(self, bootstrap, name):
        self.name = name
        self.process = subprocess.Popen([str(KAFKA), 'steps', name, '--bootstrap-server', bootstrap], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def run(self, *arguments, said=(), unsaid=(), status=0):
        """As of Tools."""
        self.process.stdin.write(' '.join(arguments) + '\n')
        self.process.stdin.flush()
        self.process.stdout.readline()
        lines = []
        while not (line := self.process.stdout.readline()).startswith('status '):
            if not line:
                raise Failure('the tool is gone')
            lines.append(line)
        return looked_at('%s %s' % (self.name, ' '.join(arguments)), ''.join(lines), int(line.split()[1]), said, unsaid, status)


def looked_at(what, printed, ended, said, unsaid, status):
    """What was printed, which is as it was wanted."""
    shown = '%s printed:\n%s' % (what, printed)
    if ended != status:
        raise Failure('exit status %d; %s' % (ended, shown))
    for pattern in said:
        if not re.search(pattern, printed, re.M):
            raise Failure('no match for %r; %s' % (pattern, shown))
    for pattern in unsaid:
        if re.search(pattern, printed, re.M):
            raise Failure('a match for %r; %s' % (pattern, shown))
    return printed


def topics(t):
    """create, list, describe, more partitions, delete"""
    t.run('topics', '--create', '--topic', t.topic, '--partitions', '2', '--config', 'retention.ms=86400000', said=['Created topic'])
    t.run('topics', '--create', '--topic', t.topic, status=1, said=['TopicExistsException'])
    t.run('topics', '--list', said=['^%s$' % t.topic])
    t.run('topics', '--describe', '--topic', t.topic,
          said=[r'PartitionCount: 2\s+ReplicationFactor: 1\s+Configs: .*retention.ms=86400000', r'Partition: 1\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+'])
    t.run('topics', '--alter', '--topic', t.topic, '--partitions', '4')
    t.run('topics', '--describe', '--topic', t.topic, said=['PartitionCount: 4', 'Partition: 3'])
    t.run('topics', '--delete', '--topic', t.topic)
    t.run('topics', '--list', unsaid=['^%s$' % t.topic])


def configs(t):
    """alter and describe a topic's configs, describe the broker's"""
    t.run('topics', '--create', '--topic', t.topic + '-c', '--partitions', '1')
    of = ('--entity-type', 'topics', '--entity-name', t.topic + '-c')
    t.run('configs', '--alter', *of, '--add-config', 'max.message.bytes=65536', said=['Completed updating config'])
    t.run('configs', '--describe', *of, said=['max.message.bytes=65536 .*DYNAMIC_TOPIC_CONFIG'])
    t.run('configs', '--describe', *of, '--all', said=['max.message.bytes=65536', 'cleanup.policy=delete .*DEFAULT_CONFIG'])
    t.run('configs', '--alter', *of, '--delete-config', 'max.message.bytes', said=['Completed updating config'])
    t.run('configs', '--describe', *of, unsaid=['max.message.bytes'])
    t.run('configs', '--describe', '--entity-type', 'brokers', '--entity-name', broker_id(t), '--all', said=['transaction.state.log.num.partitions='])


def broker_id(t):
    told = t.run('topics', '--describe', '--topic', t.topic + '-c', said=[r'Leader: \d+'])
    return re.search(r'Leader: (\d+)', told).group(1)


def console(t):
    """console-producer in, console-consumer out, read_committed and with a group; the group described, reset and deleted"""
    topic = t.topic + '-io'
    t.run('topics', '--create', '--topic', topic, '--partitions', '1')
    t.run('console-producer', '--topic', topic, given='one\ntwo\nthree\n')
    t.run('console-consumer', '--topic', topic, '--group', t.group, '--from-beginning', '--max-messages', '3', '--timeout-ms', '20000',
          '--isolation-level', 'read_committed', said=['^one$', '^two$', '^three$', 'Processed a total of 3 messages'])
    t.run('consumer-groups', '--list', said=['^%s$' % t.group])
    t.run('consumer-groups', '--describe', '--group', t.group, said=[r'%s\s+%s\s+0\s+3\s+3\s+0\s' % (t.group, topic)])
    t.run('consumer-groups', '--describe', '--group', t.group, '--state', said=['Empty'])
    t.run('consumer-groups', '--reset-offsets', '--group', t.group, '--topic', topic, '--to-earliest', '--execute', said=[r'%s\s+0\s+0' % topic])
    t.run('console-consumer', '--topic', topic, '--group', t.group, '--max-messages', '3', '--timeout-ms', '20000',
          '--isolation-level', 'read_committed', said=['Processed a total of 3 messages'])
    t.run('consumer-groups', '--delete', '--group', t.group, said=['successful'])
    t.run('consumer-groups', '--list', unsaid=['^%s$' % t.group])


def compressed(t):
    """console-producer with each codec"""
    topic = t.topic + '-z'
    t.run('topics', '--create', '--topic', topic, '--partitions', '1')
    codecs = ('gzip', 'snappy', 'lz4', 'zstd')
    for codec in codecs:
        t.run('console-producer', '--topic', topic, '--compression-codec', codec, given='%s line\n' % codec * 20)
    t.run('console-consumer', '--topic', topic, '--from-beginning', '--max-messages', '80', '--timeout-ms', '20000',
          said=['^%s line$' % codec for codec in codecs])


def transactions(t):
    """list, describe, describe-producers while a transaction is open; abort it by hand"""
    from confluent_kafka import Consumer, Producer, TopicPartition
    topic, txn = t.topic + '-txn', 'tools-txn-' + t.tag
    t.run('topics', '--create', '--topic', topic, '--partitions', '1')
    producer = Producer({'bootstrap.servers': t.bootstrap, 'transactional.id': txn, 'log_level': 2})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b'open')
    producer.flush(PATIENCE_S)
    t.run('transactions', 'list', said=[r'^%s\s+\d+\s+\d+\s+Ongoing' % txn])
    t.run('transactions', 'describe', '--transactional-id', txn, said=[r'%s\s.*Ongoing.*%s-0' % (txn, topic)])
    told = t.run('transactions', 'describe-producers', '--topic', topic, '--partition', '0', said=[r'^\d+\s+\d+\s+-?\d+\s+0\s+\d+\s+0\b'])
    assert told
    t.run('transactions', 'abort', '--topic', topic, '--partition', '0', '--start-offset', '0')
    producer.produce(topic, b'after')
    try:
        producer.flush(5)
        producer.abort_transaction(PATIENCE_S)
    except Exception:  # noqa: BLE001 - the coordinator may have fenced it by now
        pass
    consumer = Consumer({'bootstrap.servers': t.bootstrap, 'group.id': t.group + '-x', 'isolation.level': 'read_committed'})
    deadline = time.time() + PATIENCE_S
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)[1] < 2:
        if time.time() > deadline:
            raise Failure('the last stable offset did not move')
        time.sleep(0.1)
    consumer.close()
    t.run('transactions', 'find-hanging', '--broker-id', broker_id_of(t, topic), unsaid=[txn])


def broker_id_of(t, topic):
    return re.search(r'Leader: (\d+)', t.run('topics', '--describe', '--topic', topic)).group(1)


def features(t):
    """the finalized features"""
    t.run('features', 'describe', said=[r'Feature: metadata.version.*FinalizedVersionLevel: ', r'Feature: transaction.version.*FinalizedVersionLevel: 2',
                                        r'Feature: group.version.*FinalizedVersionLevel: 1'])


STEPS = {f.__name__: f for f in (topics, configs, console, compressed, transactions, features)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--bootstrap', default='127.0.0.1:9092')
    ap.add_argument('names', nargs='*', choices=[[], *STEPS])
    args = ap.parse_args()
    t, failed = Tools(args.bootstrap), 0
    chosen = args.names or list(STEPS)
    for name in chosen:
        began = time.time()
        try:
            STEPS[name](t)
            print('OK tools %s: %s in %.1f s' % (name, STEPS[name].__doc__, time.time() - began), flush=True)
        except Exception as e:  # noqa: BLE001 - a step may fail in any way; it must not stop the others
            failed += 1
            print('FAIL tools %s: %s: %s' % (name, type(e).__name__, e), flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
