#!/usr/bin/env python3
"""How long large groups take to settle: a classic group, a KIP-848 group, and many small groups.

  rebalance.py HOST:PORT PID [--members N] [--groups N] [--heartbeat-ms MS] [classic | consumer | small]…

Raw connections, one to a member, of one process with one thread; PID is the broker's, whose memory and processor time are told.
Prints as JSON, times in seconds:
`classic`: N members join one group by JoinGroup 5 and SyncGroup 3. `join`: from the first request until each has its assignment in
one and the same generation; `leave`: from one member's LeaveGroup until all others have theirs again. Whoever is settled sends heartbeats
every MS milliseconds; in the second part all send one as soon as the member has left.
`consumer`: N members join one group by ConsumerGroupHeartbeat 1, each for one partition of a topic of N; heartbeats as often as
the broker asks. `join`: until every partition has its one owner and all are in one epoch; `leave`: until the one's partition has another.
`small`: groups of two members, 200 at a time: both join, then one leaves and the other is alone again.
`client`: processor time of this process, a lower bound of what it measures.
"""
import argparse
import asyncio
import json
import os
import pathlib
import struct
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

JOIN, HEARTBEAT, LEAVE, SYNC, CONSUMER_HEARTBEAT = 11, 12, 13, 14, 68
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION = 79, 27, 22
TRY_AGAIN = {14, 15, 16}
SESSION_MS = 300_000


def string(text):
    return b'\xff\xff' if text is None else struct.pack('>h', len(text)) + text


def compact(text):
    return b'\0' if text is None else bytes([len(text) + 1]) + text


def uvarint(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


class Connection(asyncio.Protocol):
    """One request at a time; its answer without length and correlation id."""

    def __init__(self):
        self.buffer, self.waiting = bytearray(), None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        if len(self.buffer) < 4:
            return
        size, = struct.unpack_from('>i', self.buffer)
        if len(self.buffer) >= 4 + size and self.waiting is not None:
            answer, self.buffer = bytes(self.buffer[8:4 + size]), self.buffer[4 + size:]
            waiting, self.waiting = self.waiting, None
            waiting.set_result(answer)

    def connection_lost(self, error):
        if self.waiting is not None:
            self.waiting.set_exception(ConnectionError(f'the broker hung up: {error}'))

    def ask(self, key, version, body, flexible=False):
        head = struct.pack('>hhi', key, version, 1) + string(b'bench') + (b'\0' if flexible else b'')
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(struct.pack('>i', len(head) + len(body)) + head + body)
        return self.waiting


async def connect(address):
    host, port = address.rsplit(':', 1)
    return (await asyncio.get_running_loop().create_connection(Connection, host, int(port)))[1]


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, form):
        value, = struct.unpack_from('>' + form, self.data, self.at)
        self.at += struct.calcsize('>' + form)
        return value

    def raw(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def string(self):
        size = self.take('h')
        return None if size < 0 else self.raw(size)

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def compact(self):
        size = self.uvarint()
        return None if size == 0 else self.raw(size - 1)


class Classic:
    """A member of a classic group."""

    def __init__(self, connection, group):
        self.connection, self.group, self.id, self.generation = connection, group, b'', 0

    async def join(self, rounds=50):
        """JoinGroup and SyncGroup until this generation's assignment is there; tells how many members there are, as the leader."""
        for _ in range(rounds):
            body = (string(self.group) + struct.pack('>ii', SESSION_MS, 60_000) + string(self.id) + string(None)
                    + string(b'consumer') + struct.pack('>i', 1) + string(b'range') + struct.pack('>i', 20) + b'm' * 20)
            answer = Reader(await self.connection.ask(JOIN, 5, body))
            answer.take('i')
            error, self.generation = answer.take('h'), answer.take('i')
            answer.string()
            leader, self.id = answer.string(), answer.string()
            if error in TRY_AGAIN:
                await asyncio.sleep(0.1)
            if error:
                assert error in TRY_AGAIN or error == MEMBER_ID_REQUIRED, f'JoinGroup: {error}'
                continue
            members = []
            for _ in range(answer.take('i')):
                members.append(answer.string())
                answer.string()
                answer.raw(answer.take('i'))
            if await self.sync(members if leader == self.id else []):
                return len(members)
        raise AssertionError('no rest')

    async def sync(self, members):
        assignments = b''.join(string(member) + struct.pack('>i', 20) + b'a' * 20 for member in members)
        body = (string(self.group) + struct.pack('>i', self.generation) + string(self.id) + string(None)
                + struct.pack('>i', len(members)) + assignments)
        answer = Reader(await self.connection.ask(SYNC, 3, body))
        answer.take('i')
        error = answer.take('h')
        assert error in (0, REBALANCE_IN_PROGRESS), f'SyncGroup: {error}'
        return error == 0

    async def ask_for_id(self):
        body = (string(self.group) + struct.pack('>ii', SESSION_MS, 60_000) + string(b'') + string(None) + string(b'consumer')
                + struct.pack('>i', 1) + string(b'range') + struct.pack('>i', 20) + b'm' * 20)
        while True:
            answer = Reader(await self.connection.ask(JOIN, 5, body))
            answer.take('i')
            error = answer.take('h')
            answer.take('i')
            answer.string(), answer.string()
            self.id = answer.string()
            if error == MEMBER_ID_REQUIRED:
                return
            assert error in TRY_AGAIN, f'JoinGroup: {error}'
            await asyncio.sleep(0.1)

    async def heartbeat(self):
        """Whether the group rests."""
        body = string(self.group) + struct.pack('>i', self.generation) + string(self.id) + string(None)
        answer = Reader(await self.connection.ask(HEARTBEAT, 3, body))
        answer.take('i')
        error = answer.take('h')
        assert error in (0, REBALANCE_IN_PROGRESS), f'Heartbeat: {error}'
        return error == 0

    async def leave(self):
        body = string(self.group) + struct.pack('>i', 1) + string(self.id) + string(None)
        answer = Reader(await self.connection.ask(LEAVE, 3, body))
        answer.take('i')
        assert answer.take('h') == 0


class Settling:
    """How many members have settled in which generation."""

    def __init__(self, wanted):
        self.wanted, self.counts, self.done = wanted, {}, asyncio.Event()

    def settled(self, generation):
        self.counts[generation] = self.counts.get(generation, 0) + 1
        if self.counts[generation] == self.wanted:
            self.done.set()


async def settle(options, member, settling, knows):
    """The life of a member until all have settled: `knows` says that it has its assignment."""
    while not settling.done.is_set():
        if not knows:
            await member.join()
            settling.settled(member.generation)
        knows = await member.heartbeat()
        if knows:
            try:
                await asyncio.wait_for(settling.done.wait(), options.heartbeat_ms / 1000)
            except asyncio.TimeoutError:
                pass


async def classic(options):
    group = b'classic-' + uuid.uuid4().hex[:8].encode()
    members = [Classic(connection, group) for connection in await connections(options.address, options.members)]

    await members[0].ask_for_id()
    begin = time.monotonic()
    settling = Settling(len(members))
    await asyncio.gather(*(member.ask_for_id() for member in members[1:]))
    ids = time.monotonic() - begin
    tasks = [asyncio.ensure_future(settle(options, member, settling, False)) for member in members]
    await settling.done.wait()
    joined, generations = time.monotonic() - begin, len(settling.counts)
    await asyncio.gather(*tasks)
    begin = time.monotonic()
    await members[-1].leave()
    settling = Settling(len(members) - 1)
    tasks = [asyncio.ensure_future(settle(options, member, settling, True)) for member in members[:-1]]
    await settling.done.wait()
    left = time.monotonic() - begin
    await asyncio.gather(*tasks)
    close(members)
    return {'ids': ids, 'join': joined, 'generations': generations, 'leave': left}


class Consumer:
    """A member of a consumer group."""

    def __init__(self, connection, group, topic):
        self.connection, self.group, self.topic = connection, group, topic
        self.id, self.epoch, self.owned, self.interval_ms = uuid.uuid4().hex.encode(), 0, {}, 0

    async def heartbeat(self, says_all, leaves=False):
        """Sends one; tells whether there is a new assignment, which is taken over at once."""
        owned = b'\0'
        if says_all:
            rows = b''.join(topic + uvarint(len(parts) + 1) + b''.join(struct.pack('>i', part) for part in parts) + b'\0'
                            for topic, parts in self.owned.items() if parts)
            owned = uvarint(1 + sum(1 for parts in self.owned.values() if parts)) + rows
        body = (compact(self.group) + compact(self.id) + struct.pack('>i', -1 if leaves else self.epoch) + compact(None)
                + compact(None) + struct.pack('>i', 60_000 if self.epoch == 0 else -1)
                + (b'\2' + compact(self.topic) if self.epoch == 0 else b'\0') + compact(None) + compact(None) + owned + b'\0')
        answer = Reader(await self.connection.ask(CONSUMER_HEARTBEAT, 1, body, flexible=True))
        answer.raw(1)
        answer.take('i')
        error, message = answer.take('h'), answer.compact()
        if error in TRY_AGAIN:
            await asyncio.sleep(0.1)
            return await self.heartbeat(says_all, leaves)
        assert not error, f'ConsumerGroupHeartbeat: {error} {message}'
        answer.compact()
        epoch, self.interval_ms = answer.take('i'), answer.take('i')
        if leaves:
            return False
        self.epoch = epoch
        if answer.take('b') < 0:
            return False
        before, self.owned = self.owned, {}
        for _ in range(answer.uvarint() - 1):
            topic = answer.raw(16)
            self.owned[topic] = [answer.take('i') for _ in range(answer.uvarint() - 1)]
            answer.raw(1)
        return before != self.owned


async def consumer(options):
    group, topic = (name + b'-' + uuid.uuid4().hex[:8].encode() for name in (b'consumer', b't'))
    create_topic(options.address, topic.decode(), options.members)
    members = [Consumer(connection, group, topic) for connection in await connections(options.address, options.members)]
    beats = 0

    def is_settled(members):
        shares = [[part for parts in member.owned.values() for part in parts] for member in members]
        owned = [part for share in shares for part in share]
        return (all(shares) and len(owned) == options.members == len(set(owned))
                and len({member.epoch for member in members}) == 1)

    async def live(member, done):
        nonlocal beats
        has_news = True
        while not done.is_set():
            beats += 1
            has_news = await member.heartbeat(says_all=has_news)
            if not has_news:
                try:
                    await asyncio.wait_for(done.wait(), member.interval_ms / 1000)
                except asyncio.TimeoutError:
                    pass

    async def until_settled(members):
        done, begin = asyncio.Event(), time.monotonic()
        tasks = [asyncio.ensure_future(live(member, done)) for member in members]
        while not is_settled(members):
            if time.monotonic() - begin > 300:
                owned = [part for member in members for parts in member.owned.values() for part in parts]
                raise AssertionError(f'not settled: {len(owned)} owned, epochs {sorted({m.epoch for m in members})}')
            failed = [task.exception() for task in tasks if task.done() and task.exception()]
            if failed:
                raise failed[0]
            await asyncio.sleep(0.01)
        took = time.monotonic() - begin
        done.set()
        await asyncio.gather(*tasks)
        return took

    joined, join_beats, beats = await until_settled(members), beats, 0
    await members[-1].heartbeat(says_all=False, leaves=True)
    left = await until_settled(members[:-1])
    close(members)
    return {'join': joined, 'join heartbeats': join_beats, 'leave': left, 'leave heartbeats': beats,
            'interval ms': members[0].interval_ms}


async def small(options):
    workers = min(200, options.groups)
    pairs = await connections(options.address, 2 * workers)
    names = iter([b'small-%d-' % number + uuid.uuid4().hex[:8].encode() for number in range(options.groups)])
    times = []

    async def work(first, second):
        for name in names:
            begin = time.monotonic()
            a, b = Classic(first, name), Classic(second, name)
            await asyncio.gather(a.ask_for_id(), b.ask_for_id())
            settling = Settling(2)
            await asyncio.gather(*(settle(options, member, settling, False) for member in (a, b)))
            await b.leave()
            while await a.heartbeat():
                pass
            await a.join()
            times.append(time.monotonic() - begin)

    begin = time.monotonic()
    await asyncio.gather(*(work(*pairs[at:at + 2]) for at in range(0, 2 * workers, 2)))
    took = time.monotonic() - begin
    for connection in pairs:
        connection.transport.close()
    times.sort()
    return {'groups': len(times), 'all': took, 'median': times[len(times) // 2], 'slowest': times[-1]}


async def connections(address, count):
    return [await connect(address) for _ in range(count)]


def close(members):
    for member in members:
        member.connection.transport.close()


def probe_of(address):
    import kprobe as k
    host, port = address.rsplit(':', 1)
    return k.Probe(host, int(port))


def create_topic(address, name, partitions):
    probe = probe_of(address)
    error = probe.create_topic(name, partitions, 1)
    assert error == 'NONE', error
    assert any(probe.wait_topic(name, partitions) for _ in range(10)), 'no leader'


def broker_use(pid):
    """Resident memory in MiB, and processor seconds so far."""
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    resident, = [int(line.split()[1]) for line in status.splitlines() if line.startswith('VmRSS')]
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return resident / 1024, (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('address')
    parser.add_argument('pid', type=int)
    parser.add_argument('what', nargs='*', default=['classic', 'consumer', 'small'])
    parser.add_argument('--members', type=int, default=1000)
    parser.add_argument('--groups', type=int, default=2000)
    parser.add_argument('--heartbeat-ms', type=int, default=200)
    options = parser.parse_args()
    # Kafka makes the topic of the offsets when somebody asks for a coordinator.
    while probe_of(options.address).find_coordinator('any', 0)[0] != 'NONE':
        await asyncio.sleep(0.1)
    for what in options.what:
        before, used = broker_use(options.pid)
        client = time.process_time()
        found = await {'classic': classic, 'consumer': consumer, 'small': small}[what](options)
        after, in_all = broker_use(options.pid)
        found.update({'broker cpu': in_all - used, 'client': time.process_time() - client, 'MiB before': before, 'MiB': after})
        print(json.dumps({what: {name: round(value, 3) for name, value in found.items()}}), flush=True)


if __name__ == '__main__':
    asyncio.run(main())
