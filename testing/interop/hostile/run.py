#!/usr/bin/env python3
"""Strangers and heavy users against a broker, with a well-behaved neighbour beside each.

  run.py EXECUTABLE DIR [--against fencepost|kafka] [--case NAME]

EXECUTABLE knows `serve` (Fencepost's, or kafka.sh for Apache Kafka). Each case has a broker of its own, and prints a line of a table: resident
memory before, its peak and its end, the most handles, and the 99th percentile and the longest of the neighbour's produces. A case fails
where the broker ends, the neighbour is told of an error, or a figure is beyond the bound of the case.
Kafka's figures are printed for comparison. The exit status is 1 when a case has failed. Source: issue 12, B6 to B15.
"""
import argparse
import fcntl
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import cases  # noqa: E402
from process import Node  # noqa: E402

# A machine with other work on it writes a small record in less; the code before these bounds took 2 to 14 s.
NEIGHBOUR_MAX_MS = 1_500
LOOK_S, SETTLE_S, STOP_S = 0.05, 2, 20
HANDLES_MAX, PIPE_BYTES = 1_024, 4_096
# New groups start at once.
NEW_GROUPS = 'group.initial.rebalance.delay.ms=0'
SIGNALS = {'fencepost': ['SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'], 'kafka': ['SIGQUIT']}
# Name, case, bound of the memory's growth in MB.
CASES = [
    ('B6 parked fetches', cases.parked, 400),
    ('B7 DescribeProducers', cases.describe_producers, 200),
    ('B7 DescribeTransactions', cases.describe_transactions, 200),
    ('B7 OffsetFetch', cases.offset_fetch, 200),
    ('B7 ConsumerGroupDescribe', cases.consumer_group_describe, 200),
    ('B11 JoinGroup', cases.joins, 200),
    ('B12 handles', cases.handles, 200),
    ('B13 log unread', cases.nonsense, 200),
    ('B14 signals', cases.signals, 200),
    ('B8 answers unread', cases.unread, 100),
    ('B9 frames pinned', cases.pinned, 100),
    ('B10 gzip bombs', cases.bombs, 200),
    ('B15 memory returned', cases.comes_back, 100),
]


def resident_mb(pid):
    return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{pid}/status').read_text())[1]) // 1024


class Watch(threading.Thread):
    """Looks at the memory and the handles of a process again and again."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.ended, self.peak_mb, self.handles = pid, threading.Event(), resident_mb(pid), 0

    def run(self):
        while not self.ended.wait(LOOK_S):
            try:
                self.peak_mb = max(self.peak_mb, resident_mb(self.pid))
                self.handles = max(self.handles, len(os.listdir(f'/proc/{self.pid}/fd')))
            except (OSError, TypeError):
                return  # The process is gone, which the case is told.


class Neighbour:
    """The well-behaved client, in a process of its own."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, '-B', HERE / 'neighbour.py', str(port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != 'ready':
            raise cases.Hurt('the neighbour is not served')

    def figures(self):
        self.process.stdin.close()
        line = self.process.stdout.readline()
        self.process.wait()
        return json.loads(line)


def started(node, name):
    """Starts the broker of a case; of one whose log nobody reads, the end of the pipe that nobody reads."""
    if name == 'B12 handles':
        node.command = ['bash', '-c', f'ulimit -n {HANDLES_MAX} && exec "$@"', 'bash', *node.command]
    if name != 'B13 log unread':
        node.start().conn.close()
        return None
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    # Kafka fills a pipe before it serves: what it says at its start is read.
    threading.Thread(target=lambda: drain(reads, node), daemon=True).start()
    node.start(stderr=writes).conn.close()
    node.serving = True
    os.close(writes)
    return reads


def drain(reads, node):
    os.set_blocking(reads, False)
    while not getattr(node, 'serving', False):
        try:
            os.read(reads, PIPE_BYTES)
        except BlockingIOError:
            time.sleep(LOOK_S)


def judge(neighbour, grown_mb, bound_mb, node):
    """What is wrong with the figures."""
    if node.process.poll() is not None:
        return f'the process ended: {node.process.poll()}'
    if neighbour['errors']:
        return f'the neighbour was told: {neighbour["errors"]}'
    if neighbour['max_ms'] > NEIGHBOUR_MAX_MS:
        return f'the neighbour waited {neighbour["max_ms"]:.0f} ms, the bound is {NEIGHBOUR_MAX_MS}'
    if grown_mb > bound_mb:
        return f'the memory grew by {grown_mb} MB, the bound is {bound_mb}'
    return None


def ended(node):
    """Stops the broker; one that does not go is killed."""
    node.process.send_signal(signal.SIGTERM)
    try:
        node.process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        node.end()


def run(options, name, case, bound_mb):
    """The row of a case, and what is wrong or None."""
    node = Node(options.executable, f'{options.data}/{name.replace(" ", "-")}', NEW_GROUPS)
    unread, wrong, words, held = started(node, name), None, '', []
    pid = node.process.pid
    try:
        before_mb, watch, neighbour = resident_mb(pid), Watch(pid), Neighbour(node.port)
        watch.start()
        try:
            more = (node.process, SIGNALS[options.against]) if case is cases.signals else ()
            held, words = case(node.port, *more)
        except (cases.Hurt, OSError) as e:
            wrong = f'{type(e).__name__}: {e}'
        time.sleep(SETTLE_S)
        figures = neighbour.figures()
        watch.ended.set()
        watch.join()
        wrong = wrong or judge(figures, watch.peak_mb - before_mb, bound_mb, node)
        end_mb = resident_mb(pid) if node.process.poll() is None else 0
        row = [name, words, before_mb, watch.peak_mb, end_mb, watch.handles, f'{figures["p99_ms"]:.1f}', f'{figures["max_ms"]:.0f}']
    except (cases.Hurt, ValueError) as e:
        row, wrong = [name, words], f'{type(e).__name__}: {e}'
    finally:
        for one in held:
            one.close()
        if node.process.poll() is None:
            ended(node)
        if unread is not None:
            os.close(unread)
    return [*row, 'as wanted' if wrong is None else f'FAILED: {wrong}'], wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('executable')
    parser.add_argument('data')
    parser.add_argument('--against', choices=SIGNALS, default='fencepost')
    parser.add_argument('--case', help='the words before the case: B6')
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print('| case | what | MB before | peak | end | handles | neighbour p99 ms | max ms | |', flush=True)
    failed, ran = 0, 0
    for name, case, bound_mb in CASES:
        if options.case and name.split()[0] != options.case:
            continue
        row, wrong = run(options, name, case, bound_mb)
        print('|', ' | '.join(str(cell) for cell in row), '|', flush=True)
        ran += 1
        failed += wrong is not None and options.against == 'fencepost'
    if not ran:
        raise SystemExit('no such case')
    sys.exit(failed > 0)


main()
