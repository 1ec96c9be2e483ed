"""kcat: the program of that name, one process for each producer, reader and member.

It has no calls for topics and for the offsets of a group; those are made and read through confluent-kafka.
"""
import asyncio
import json
import re
import shutil
import signal
import subprocess
import threading
import time

import confluent_client
from contract import PAUSE_S, Adapter, Lacks, Record, ensure, steps

NAME = 'kcat'
CALL_S = 20
# kcat takes its input in blocks: what comes after the records that are to be aborted makes it send them.
FILLER = Record(0, 'filler', 'x' * 100, '')
FORMAT = '%p|%o|%k|%s|%h\\n'


def version():
    if not shutil.which('kcat'):
        return ''
    said = subprocess.run(['kcat', '-V'], capture_output=True, text=True, check=False, timeout=CALL_S).stdout
    kcat, librdkafka = re.search(r'Version (\S+)', said), re.search(r'librdkafka (\S+)', said)
    return '%s (librdkafka %s)' % (kcat.group(1), librdkafka.group(1))


async def connect(bootstrap):
    if not shutil.which('kcat'):
        raise Lacks('kcat is not installed here (Debian: kcat)')
    return Client(bootstrap)


class Refused(Exception):
    """kcat ended with an error."""


def arrived(line):
    partition, offset, key, value, header = line.rstrip('\n').split('|')
    return Record(int(partition), key, value, header.removeprefix('h='), int(offset))


def collect(stream, lines):
    for line in stream:
        lines.append(line)


class Process:
    """A kcat, with what it says collected by threads."""

    def __init__(self, *arguments):
        self.inner = subprocess.Popen(['kcat', *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.out, self.errors = [], []
        for stream, lines in ((self.inner.stdout, self.out), (self.inner.stderr, self.errors)):
            threading.Thread(target=collect, args=(stream, lines), daemon=True).start()

    def write(self, records):
        try:
            self.inner.stdin.write(''.join('%s|%s\n' % (r.key, r.value) for r in records))
            self.inner.stdin.flush()
        except BrokenPipeError:
            self.end()

    def end(self, how=None):
        if how is not None:
            self.inner.send_signal(how)
        self.inner.stdin.close()
        status = self.inner.wait(CALL_S)
        if status and how is None:
            time.sleep(PAUSE_S)
            raise Refused(' '.join(line.strip() for line in self.errors))


class Producer:
    """Outside a transaction a process for each partition and call; in one, a process for the transaction."""

    def __init__(self, client, options, txn):
        self.client, self.options, self.txn, self.open = client, options, txn, None

    def start(self, topic, partition, records):
        process = Process('-P', *self.client.common, *self.options, '-t', topic, '-p', str(partition), '-K', '|', '-H', 'h=' + records[0].header)
        process.write(records)
        return process

    async def send(self, topic, records):
        if self.txn:
            if self.open is None:
                self.open = self.start(topic, records[0].partition, records)
            else:
                self.open.write(records)
            return
        for p in sorted({r.partition for r in records}):
            self.start(topic, p, [r for r in records if r.partition == p]).end()

    async def begin(self):
        pass

    async def commit(self):
        process, self.open = self.open, None
        process.end()

    async def abort(self):
        process, self.open = self.open, None
        process.write([FILLER] * 2000)
        await asyncio.sleep(1)
        process.end(signal.SIGINT)

    async def close(self):
        if self.open:
            self.open.end(signal.SIGKILL)


class Member:
    def __init__(self, client, group, topic):
        settings = ('auto.offset.reset=earliest', 'session.timeout.ms=10000', 'heartbeat.interval.ms=300')
        options = [word for s in settings for word in ('-X', s)]
        self.process = Process('-G', group, *client.common, *options, '-u', '-f', FORMAT, topic)
        self.taken = 0

    async def poll(self):
        await asyncio.sleep(PAUSE_S)
        if self.process.inner.poll() is not None:
            raise Refused(' '.join(self.process.errors))
        came = self.process.out[self.taken:]
        self.taken += len(came)
        return [arrived(line) for line in came]

    def assigned(self):
        found = [line for line in self.process.errors if 'rebalanced' in line]
        if not found or 'assigned:' not in found[-1]:
            return []
        return [int(p) for p in re.findall(r'\[(\d+)\]', found[-1].split('assigned:')[1])]

    async def commit(self):
        pass  # it commits by itself, at the latest when it leaves

    async def close(self):
        self.process.end(signal.SIGTERM)


class Client(Adapter):
    one_header = True  # for all records of a process
    reach = (1, 1)  # topics and partitions of a transaction

    def __init__(self, bootstrap):
        self.common = ['-b', bootstrap]
        self.harness = confluent_client.Client(bootstrap)

    async def close(self):
        pass

    async def topic(self, name, partitions):
        await self.harness.topic(name, partitions)

    async def producer(self, codec='none', idempotent=False, txn=None):
        settings = ['compression.codec=' + codec, 'linger.ms=2']
        settings += ['enable.idempotence=true'] if idempotent else []
        settings += ['transactional.id=' + txn] if txn else []
        return Producer(self, [word for s in settings for word in ('-X', s)], txn)

    def fenced(self, error):
        return isinstance(error, Refused) and re.search('fenced|old epoch', str(error)) is not None

    async def read(self, topic, partitions, committed):
        level = 'isolation.level=' + ('read_committed' if committed else 'read_uncommitted')
        read = [[] for _ in range(partitions)]
        command = ['kcat', '-C', *self.common, '-X', level, '-t', topic, '-o', 'beginning', '-e', '-f', FORMAT]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=CALL_S).stdout
        for r in map(arrived, said.splitlines()):
            if committed or r.key != FILLER.key:
                read[r.partition].append(r)
        for records in read:
            ensure(records and records.pop().value == 'end', 'no end of %s' % topic)
        return read

    async def member(self, group, topic, protocol):
        if protocol == 'consumer':
            raise Lacks('its librdkafka has only the classic protocol')
        return Member(self, group, topic)

    async def etl(self, group, source, txn):
        raise Lacks('a transaction of kcat holds the records of one input, and no offsets')

    async def committed(self, group, topic, partitions):
        return await self.harness.committed(group, topic, partitions)

    async def admin(self, topic):
        await self.topic(topic, 3)

        def said(*arguments):
            return subprocess.run(['kcat', *self.common, *arguments], capture_output=True, text=True, check=True, timeout=CALL_S).stdout

        async def metadata():
            found = json.loads(said('-L', '-J', '-t', topic))
            ensure(len(found['brokers']) == 1 and len(found['topics'][0]['partitions']) == 3, found)

        async def fill():
            await (await self.producer()).send(topic, [Record(0, 'k', 'v%d' % n, 'h') for n in range(3)])

        async def ends():
            found = said('-Q', '-t', '%s:0:-1' % topic)
            ensure(found.strip().endswith('offset 3'), found)

        return await steps(('metadata (-L)', metadata), ('produce (-P)', fill), ('list offsets (-Q)', ends))
