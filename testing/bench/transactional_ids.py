#!/usr/bin/env python3
"""Many transactional ids: made, the broker killed, started again, the ids left to expire.

  transactional_ids.py EXECUTABLE DIR [--ids N] [--connections N] [--commits SECONDS] [--port PORT] [-X KEY=VALUE]…

EXECUTABLE knows `serve` (Fencepost's, or kafka.sh for Apache Kafka). Each id is made by one InitProducerId; many are under way at once
over some connections. Then SIGKILL, and a new start on the same directory; then SIGKILL again, and a start with so short a
`transactional.id.expiration.ms` that all ids are due to expire at once. Prints as JSON:

- ids a second while they were made; memory of the process before the first id and after the last one, and the difference per id;
- after the restart the milliseconds until the port answers and until an old id has committed a transaction, the processor time of
  the process by then, its memory and the most it ever had;
- milliseconds of transactions of one record of another id, back to back: without ids, with all of them, and while they expire;
- seconds until every id (of a sample) is unknown, counted from the port's answer; records that this wrote to
  __transaction_state beside those of that other id, which are the tombstones; memory then, and after half as many ids again.
"""
import argparse
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

TOPIC, STATE_TOPIC, STATE_PARTITIONS, OTHER = 'ids', '__transaction_state', 50, 'other'
UNDER_WAY, PATIENCE_S, SAMPLE = 200, 600, 200
NOT_YET = {14, 15, 16, 51}  # loading, no coordinator yet, not the coordinator, concurrent
NOT_YET_NAMES = {k.error_name(code) for code in NOT_YET}
# Kafka looks at its ids every so often; Fencepost needs no such setting.
EXPIRES = ['transactional.id.expiration.ms=1000', 'transaction.remove.expired.transaction.cleanup.interval.ms=10000']


def request(number, name):
    """InitProducerId version 1 of one id."""
    encoded = name.encode()
    body = struct.pack('>hhih', 22, 1, number, -1) + struct.pack('>h', len(encoded)) + encoded + struct.pack('>i', 60_000)
    return struct.pack('>i', len(body)) + body


def make(port, prefix, numbers, failures):
    """Makes the ids of `numbers`; an id that the broker has no time for is asked for again."""
    with socket.create_connection(('127.0.0.1', port), PATIENCE_S) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, left, under_way = stream.makefile('rb'), list(numbers)[::-1], 0
        while left or under_way:
            # A window that slides: half of it is filled at a time.
            if left and under_way <= UNDER_WAY // 2:
                now, left = left[under_way - UNDER_WAY:], left[:under_way - UNDER_WAY]
                stream.sendall(b''.join(request(number, f'{prefix}-{number}') for number in now))
                under_way += len(now)
            size, = struct.unpack('>i', reader.read(4))
            number, _, error = struct.unpack_from('>iih', reader.read(size))
            under_way -= 1
            if error in NOT_YET:
                left.append(number)
            elif error:
                failures.append(k.error_name(error))


def make_all(port, prefix, count, connections):
    """Makes ids over some connections; answers the seconds."""
    failures, began = [], time.monotonic()
    makers = [threading.Thread(target=make, args=(port, prefix, range(n, count, connections), failures)) for n in range(connections)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    if failures:
        raise SystemExit(f'{len(failures)} ids were refused, the first with {failures[0]}')
    return time.monotonic() - began


class Node:
    """A broker that was started just now."""

    def __init__(self, options, settings=()):
        command = [options.executable, 'serve', '--data', options.data, '--listen', f'127.0.0.1:{options.port}']
        command += [word for setting in [*options.settings, *settings] for word in ('-X', setting)]
        properties = pathlib.Path(options.data, 'server.properties')
        if properties.exists():
            # kafka.sh reads its arguments at the first start alone.
            with properties.open('a', encoding='utf-8') as file:
                file.writelines(f'{setting}\n' for setting in settings)
        self.port, self.began = options.port, time.monotonic()
        log = open(f'{options.data}.log', 'a', encoding='utf-8')  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        while True:
            try:
                socket.create_connection(('127.0.0.1', self.port), 1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() - self.began > PATIENCE_S:
                    raise
                time.sleep(0.001)
        self.port_ms = self.lived_ms()

    def lived_ms(self):
        return round((time.monotonic() - self.began) * 1000)

    def mib(self, field='VmRSS'):
        """Memory of the process, or of the one that it has become."""
        for line in pathlib.Path(f'/proc/{self.process.pid}/status').read_text(encoding='ascii').splitlines():
            if line.startswith(field):
                return round(int(line.split()[1]) / 1024, 1)
        raise SystemExit('no process')

    def cpu_ms(self):
        fields = pathlib.Path(f'/proc/{self.process.pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()
        return round((int(fields[11]) + int(fields[12])) * 1000 / os.sysconf('SC_CLK_TCK'))

    def kill(self):
        self.process.kill()
        self.process.wait()


class Committer:
    """One id that commits transactions of one record."""

    def __init__(self, port, name):
        self.name, self.probe, self.records = name, k.Probe('127.0.0.1', port, PATIENCE_S), 1
        # Kafka makes the coordinator's topic when somebody looks for it.
        self.probe.find_coordinator(name)
        while True:
            error, self.pid, self.epoch = self.probe.init_pid(name)
            if error == 'NONE':
                return
            if error not in NOT_YET_NAMES:
                raise SystemExit(f'no producer id: {error}')
            time.sleep(0.005)

    def commit(self):
        """One transaction; asks until the coordinator has time for it. Answers the milliseconds."""
        began, left = time.monotonic(), ['produce', 'end']
        while left:
            if left[0] == 'produce':
                records = k.batch([b'x'], self.pid, self.epoch, 0, transactional=True)
                error = self.probe.produce(TOPIC, records, txn_id=self.name, version=12)[0]
            else:
                error, pid, epoch = self.probe.end_txn(self.name, self.pid, self.epoch, True, version=5)
            if error == 'NONE':
                left.pop(0)
            elif error in NOT_YET_NAMES:
                time.sleep(0.001)
            else:
                raise SystemExit(f'no commit: {error}')
        self.pid, self.epoch = pid, epoch
        self.records += 3
        return (time.monotonic() - began) * 1000

    def commit_until(self, done):
        """Transactions back to back until `done`, which is asked between them; how long they took."""
        took = []
        while not done() or not took:
            took.append(self.commit())
        return spread(took)

    def commit_for(self, seconds):
        until = time.monotonic() + seconds
        return self.commit_until(lambda: time.monotonic() > until)


def spread(took_ms):
    ordered = sorted(took_ms)
    at = lambda share: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)  # noqa: E731
    return {'count': len(ordered), 'p50': at(0.5), 'p99': at(0.99), 'max': at(1)}


def log_ends(probe):
    """Offsets of all partitions of the coordinator's log together."""
    return sum(probe.list_offset(STATE_TOPIC, partition=partition)[1] for partition in range(STATE_PARTITIONS))


class Expiry:
    """Whether all ids of a sample are unknown; looked at now and then."""

    def __init__(self, port, sample):
        self.probe, self.left, self.next_look = k.Probe('127.0.0.1', port, PATIENCE_S), list(sample), 0

    def is_over(self):
        if time.monotonic() < self.next_look:
            return False
        answer = self.probe.conn.call(k.DescribeTransactionsRequest[0](transactional_ids=self.left))
        unknown = {state.transactional_id for state in answer.transaction_states if state.error_code == 105}
        self.left = [name for name in self.left if name not in unknown]
        self.next_look = time.monotonic() + 0.2
        return not self.left


def measure(options):
    found = {'ids': options.ids}
    node = Node(options)
    try:
        probe = k.Probe('127.0.0.1', node.port)
        if probe.create_topic(TOPIC) != 'NONE' or not probe.wait_topic(TOPIC):
            raise SystemExit('no topic')
        other = Committer(node.port, OTHER)
        found['commit_without_ids_ms'] = other.commit_for(options.commits)
        found['idle_mib'] = node.mib()
        seconds = make_all(node.port, 'id', options.ids, options.connections)
        found['ids_per_second'], found['full_mib'] = round(options.ids / seconds), node.mib()
        found['bytes_per_id'] = round((found['full_mib'] - found['idle_mib']) * (1 << 20) / options.ids)
        found['commit_with_ids_ms'] = other.commit_for(options.commits)

        node.kill()
        node = Node(options)
        Committer(node.port, f'id-{options.ids // 2}').commit()
        found |= {'restart_port_ms': node.port_ms, 'restart_commit_ms': node.lived_ms(), 'restart_cpu_ms': node.cpu_ms()}
        found |= {'restart_mib': node.mib(), 'restart_peak_mib': node.mib('VmHWM')}
        before = log_ends(k.Probe('127.0.0.1', node.port))

        node.kill()
        node = Node(options, EXPIRES)
        began, other = time.monotonic(), Committer(node.port, OTHER)
        numbers = random.Random(1).sample(range(options.ids), min(SAMPLE, options.ids))
        found['commit_while_expiring_ms'] = other.commit_until(Expiry(node.port, [f'id-{number}' for number in numbers]).is_over)
        found |= {'expired_after_s': round(time.monotonic() - began, 1), 'expired_mib': node.mib()}
        # The sample may be gone before the last of them.
        time.sleep(1)
        found['tombstones'] = log_ends(k.Probe('127.0.0.1', node.port)) - before - other.records
        make_all(node.port, 'again', options.ids // 2, options.connections)
        found |= {'again_half_mib': node.mib(), 'again_peak_mib': node.mib('VmHWM')}
    finally:
        node.kill()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('executable')
    parser.add_argument('data')
    parser.add_argument('--ids', type=int, default=1_000_000)
    parser.add_argument('--connections', type=int, default=4)
    parser.add_argument('--commits', type=float, default=10, help='seconds of transactions of another id, twice')
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('-X', dest='settings', action='append', default=[])
    options = parser.parse_args()
    if not options.port:
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            options.port = free.getsockname()[1]
    print(json.dumps(measure(options)))


if __name__ == '__main__':
    main()
