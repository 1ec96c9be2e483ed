#!/usr/bin/env python3
"""How late transactions are aborted that outlive their timeout, under load.

  timeouts.py HOST:PORT [--transactions N] [--load PROCESSES] [--shortest MS] [--longest MS] [--seed NUMBER] [--metrics HOST:PORT]

Opens transactions with random timeouts, one to a partition, and leaves them. A consumer of another process waits at each partition
with a read_committed fetch, which is answered when the abort has moved the last stable offset. Meanwhile other processes commit
transactions of one record back to back. Prints as JSON, in milliseconds after start + timeout (both as the broker has them):
`decision` for the time in the record that decides the abort, `marker` for the time in the abort marker, `reader` for the moment in which
the consumer has the answer in its hands. The clocks of broker and reader are taken to be one: run both on one machine. With --metrics
also `timer`, of all deadlines that the broker had meanwhile: how many it met within how many milliseconds, by its own account.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import selectors
import struct
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

TOPIC, LOAD_TOPIC, STATE_TOPIC = 'timeouts', 'timeouts-load', '__transaction_state'
WAIT_MS = 100_000
PREPARE_ABORT = 3


def fetch_request(partition, isolation, max_wait_ms, name=TOPIC, offset=0):
    request = k.FetchRequest
    part = request.FetchTopic.FetchPartition(partition=partition, current_leader_epoch=-1, fetch_offset=offset,
                                             last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=1 << 20)
    topic = request.FetchTopic(topic=name, partitions=[part])
    return request[11](replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation,
                       session_id=0, session_epoch=-1, topics=[topic], forgotten_topics_data=[], rack_id='')


def marker_time(probe, partition):
    """The time in the last batch of a partition, which is the marker."""
    answer = probe.conn.call(fetch_request(partition, k.READ_UNCOMMITTED, 0))
    log, at, newest = bytes(answer.responses[0].partitions[0].records), 0, None
    while at < len(log):
        size, = struct.unpack_from('>i', log, at + 8)
        attributes, _, _, newest = struct.unpack_from('>hiqq', log, at + 21)
        at += 12 + size
    assert attributes & 0x20, 'the last batch is no marker'
    return newest


def coordinator_partition(name, partitions):
    """Where the coordinator keeps an id: Java's hash of the string."""
    code = 0
    for char in name:
        code = (31 * code + ord(char)) & 0xFFFFFFFF
    code = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if code == -(1 << 31) else abs(code)) % partitions


def first_record(log, at):
    """Key and value of the first record of the batch at `at`."""
    at += 61
    fields = []
    for skipped in (0, 1, 0, 0):  # length, attributes and time, offset, then the key
        number, at = k.read_varint(log, at + skipped)
    for length in (number, None):
        if length is None:
            length, at = k.read_varint(log, at)
        fields.append(log[at:at + length] if length >= 0 else b'')
        at += max(length, 0)
    return fields


def decision_times(probe, names, partitions=50):
    """When each id's abort was decided: the time of its record of that state, which is alone in its batch."""
    times = {}
    for partition in {coordinator_partition(name, partitions) for name in names}:
        offset, end = 0, probe.list_offset(STATE_TOPIC, partition=partition)[1]
        while offset < end:
            answer = probe.conn.call(fetch_request(partition, k.READ_UNCOMMITTED, 0, STATE_TOPIC, offset))
            log, at = bytes(answer.responses[0].partitions[0].records), 0
            while at + 61 <= len(log):
                base, size = struct.unpack_from('>qi', log, at)
                if at + 12 + size > len(log):
                    break
                _, last_delta, newest = struct.unpack_from('>hiq', log, at + 21)
                key, value = first_record(log, at)
                if len(value) > 16 and value[16] == PREPARE_ABORT:
                    times[key[4:].decode()] = newest
                offset, at = base + last_delta + 1, at + 12 + size
    return times


def timer_counts(address):
    """Upper bounds in milliseconds, and how many deadlines were met within them, from the broker's page of metrics."""
    if not address:
        return {}
    counts = {}
    with urllib.request.urlopen(f'http://{address}/metrics') as page:
        for line in page.read().decode().splitlines():
            if line.startswith('fencepost_deadline_lateness_seconds_bucket'):
                bound, count = line.split('le="')[1].split('"} ')
                counts[float(bound) * 1000] = int(count)
    return counts


def watch(host, port, partitions, ready, arrived):
    """One parked fetch to a partition; puts (partition, wall clock in seconds) when each is answered."""
    selector = selectors.DefaultSelector()
    for partition in range(partitions):
        connection = k.Conn(host, port, 120)
        connection.send(fetch_request(partition, k.READ_COMMITTED, WAIT_MS))
        selector.register(connection.sock, selectors.EVENT_READ, partition)
    ready.set()
    times = {}
    while len(times) < partitions:
        events = selector.select(60)
        now = time.time()
        if not events:
            break
        for key, _ in events:
            times[key.data] = now
            selector.unregister(key.fileobj)
    arrived.send(times)


def load(host, port, number, stop, committed):
    """Transactions of one record, back to back."""
    probe, name = k.Probe(host, port), f'timeouts-load-{number}'
    error, pid, epoch = probe.init_pid(name)
    count = 0
    while not stop.is_set():
        error = probe.produce(LOAD_TOPIC, k.batch([b'x' * 100], pid, epoch, 0, transactional=True), number, txn_id=name,
                              version=12)[0]
        if error == 'NONE':
            error, pid, epoch = probe.end_txn(name, pid, epoch, True, version=5)
        if error != 'NONE':
            raise k.Closed(error)
        count += 1
    committed.put(count)


def start_of(probe, name):
    answer = probe.conn.call(k.DescribeTransactionsRequest[0](transactional_ids=[name])).transaction_states[0]
    return answer.transaction_start_time_ms


def open_transactions(probe, timeouts):
    """Opens one transaction to a partition; the due time of each, in milliseconds of the broker's clock."""
    due = []
    for partition, timeout_ms in enumerate(timeouts):
        name = f'timeouts-{partition}'
        error, pid, epoch = probe.init_pid(name, timeout_ms)
        if error == 'NONE':
            records = k.batch([b'left behind'], pid, epoch, 0, transactional=True)
            error = probe.produce(TOPIC, records, partition, txn_id=name, version=12)[0]
        if error != 'NONE':
            raise k.Closed(error)
        due.append(start_of(probe, name) + timeout_ms)
    return due


def spread(lateness_ms):
    ordered = sorted(lateness_ms)
    at = lambda share: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)  # noqa: E731
    return {'min': at(0), 'p50': at(0.5), 'p90': at(0.9), 'p99': at(0.99), 'max': round(ordered[-1], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('broker')
    parser.add_argument('--transactions', type=int, default=200)
    parser.add_argument('--load', type=int, default=2)
    parser.add_argument('--shortest', type=int, default=1_000)
    parser.add_argument('--longest', type=int, default=10_000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--metrics', help='where the broker serves its metrics')
    options = parser.parse_args()
    host, _, port = options.broker.rpartition(':')
    port = int(port)
    probe = k.Probe(host, port)
    for topic, partitions in ((TOPIC, options.transactions), (LOAD_TOPIC, max(1, options.load))):
        if probe.create_topic(topic, partitions) != 'NONE' or not probe.wait_topic(topic, partitions):
            raise SystemExit(f'{topic} cannot be made: run against a fresh broker')
    ready, stop = multiprocessing.Event(), multiprocessing.Event()
    (arrived, sender), committed = multiprocessing.Pipe(False), multiprocessing.Queue()
    watcher = multiprocessing.Process(target=watch, args=(host, port, options.transactions, ready, sender))
    watcher.start()
    ready.wait()
    loaders = [multiprocessing.Process(target=load, args=(host, port, number, stop, committed))
               for number in range(options.load)]
    began = time.monotonic()
    for loader in loaders:
        loader.start()
    numbers = random.Random(options.seed)
    timeouts = [numbers.randint(options.shortest, options.longest) for _ in range(options.transactions)]
    due, timer_before = open_transactions(probe, timeouts), timer_counts(options.metrics)
    times = arrived.recv()
    timer = {bound: count - timer_before[bound] for bound, count in timer_counts(options.metrics).items()}
    stop.set()
    counts = [committed.get() for _ in loaders]
    seconds = time.monotonic() - began
    for process in [watcher, *loaders]:
        process.join()
    decided = decision_times(probe, [f'timeouts-{partition}' for partition in range(options.transactions)])
    decisions, markers, readers = [], [], []
    for partition, due_ms in enumerate(due):
        # Its first moment beyond the timeout is a millisecond later.
        decisions.append(decided[f'timeouts-{partition}'] - (due_ms + 1))
        readers.append(times[partition] * 1000 - (due_ms + 1))
        markers.append(marker_time(probe, partition) - (due_ms + 1))
    print(json.dumps({
        'transactions': options.transactions, 'seed': options.seed, 'load_commits_per_s': round(sum(counts) / seconds),
        'load_average': [round(load, 1) for load in os.getloadavg()],
        'decision_ms': spread(decisions), 'marker_ms': spread(markers), 'reader_ms': spread(readers),
        'timer': {f'{bound:g}': count for bound, count in timer.items()},
    }))


if __name__ == '__main__':
    main()
