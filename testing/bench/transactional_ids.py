#!/usr/bin/env python3
"""Many transactional ids: made, the broker killed, started again.

  transactional_ids.py EXECUTABLE DIR [--ids N] [--connections N] [-X KEY=VALUE]…

EXECUTABLE knows `serve` (Fencepost's, or kafka.sh for Apache Kafka). Each id is made by one InitProducerId; many are under way at once
over some connections. Then SIGKILL, and a new start on the same directory. Prints as JSON: ids a second, resident memory before the
first id and after the last one, and after the restart the milliseconds until the port answers and until an old id has committed a
transaction, and the memory again.
"""
import argparse
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

TOPIC, UNDER_WAY, PATIENCE_S = 'ids', 200, 120
NOT_YET = (14, 15, 16, 51)  # loading, no coordinator yet, not the coordinator, concurrent


def request(number, name):
    """InitProducerId version 1 of one id."""
    encoded = name.encode()
    body = struct.pack('>hhih', 22, 1, number, -1) + struct.pack('>h', len(encoded)) + encoded + struct.pack('>i', 60_000)
    return struct.pack('>i', len(body)) + body


def make(port, numbers, failures):
    """Makes the ids of `numbers`; an id that the broker has no time for is asked for again."""
    with socket.create_connection(('127.0.0.1', port), PATIENCE_S) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, left = stream.makefile('rb'), list(numbers)
        while left:
            now, left = left[:UNDER_WAY], left[UNDER_WAY:]
            stream.sendall(b''.join(request(number, f'id-{number}') for number in now))
            for _ in now:
                size, = struct.unpack('>i', reader.read(4))
                number, _, error = struct.unpack_from('>iih', reader.read(size))
                if error in NOT_YET:
                    left.append(number)
                elif error:
                    failures.append(k.error_name(error))


def resident_mib(process):
    """Of the process, or of the one that it has become."""
    for line in pathlib.Path(f'/proc/{process.pid}/status').read_text(encoding='ascii').splitlines():
        if line.startswith('VmRSS:'):
            return round(int(line.split()[1]) / 1024, 1)
    raise SystemExit('no process')


def start(command, port):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while True:
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            return process, began, (time.monotonic() - began) * 1000
        except OSError:
            if process.poll() is not None or time.monotonic() - began > PATIENCE_S:
                raise
            time.sleep(0.001)


def commit(port, name):
    """One transaction of an id; asks until the coordinator has loaded it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        probe = k.Probe('127.0.0.1', port, PATIENCE_S)
        error, pid, epoch = probe.init_pid(name)
        if error == 'NONE':
            error = probe.produce(TOPIC, k.batch([b'x'], pid, epoch, 0, transactional=True), txn_id=name, version=12)[0]
        if error == 'NONE':
            error = probe.end_txn(name, pid, epoch, True, version=5)[0]
        if error == 'NONE':
            return
        if time.monotonic() > deadline:
            raise SystemExit(f'no commit: {error}')
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('executable')
    parser.add_argument('data')
    parser.add_argument('--ids', type=int, default=1_000_000)
    parser.add_argument('--connections', type=int, default=4)
    parser.add_argument('-X', dest='settings', action='append', default=[])
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    command = [options.executable, 'serve', '--data', options.data, '--listen', f'127.0.0.1:{port}']
    command += [word for setting in options.settings for word in ('-X', setting)]
    process, _, _ = start(command, port)
    try:
        probe = k.Probe('127.0.0.1', port)
        if probe.create_topic(TOPIC) != 'NONE' or not probe.wait_topic(TOPIC):
            raise SystemExit('no topic')
        commit(port, 'first')
        idle_mib, failures, began = resident_mib(process), [], time.monotonic()
        makers = [threading.Thread(target=make, args=(port, range(n, options.ids, options.connections), failures))
                  for n in range(options.connections)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        seconds, full_mib = time.monotonic() - began, resident_mib(process)
        if failures:
            raise SystemExit(f'{len(failures)} ids were refused, the first with {failures[0]}')
        process.kill()
        process.wait()
        process, began, port_ms = start(command, port)
        commit(port, f'id-{options.ids // 2}')
        commit_ms = (time.monotonic() - began) * 1000
        commit(port, f'id-{options.ids - 1}')
        again_mib = resident_mib(process)
    finally:
        process.kill()
        process.wait()
    print(json.dumps({'ids': options.ids, 'ids_per_second': round(options.ids / seconds), 'idle_mib': idle_mib, 'full_mib': full_mib,
                      'bytes_per_id': round((full_mib - idle_mib) * (1 << 20) / options.ids), 'port_ms': round(port_ms),
                      'first_commit_ms': round(commit_ms), 'restarted_mib': again_mib}))


main()
