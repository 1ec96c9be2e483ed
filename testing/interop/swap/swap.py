#!/usr/bin/env python3
"""Fencepost and Apache Kafka take turns on one directory, and nobody notices.

  swap.py --fencepost EXECUTABLE [--swaps N] [--data DIR] [--kill] [--seed N] [--seconds S]

Fencepost begins on an empty directory. Then, N times, whichever runs is stopped cleanly (with --kill: killed) and the other is started on what
it left, on the same port, while clients go on:

  held      transactions of a raw client in both versions of the protocol, open over every swap: before and after it the partitions,
            producers, transactions and offsets are told the same; a batch that is sent again is recognised; the transaction goes on
            and commits or aborts. A third one is fenced by its next instance instead.
  load      transactional producers (librdkafka) that commit and abort all the time, and are in the middle of one at each swap
  steady    an idempotent producer (raw) of numbered records that keeps its id
  pipeline  a consumer group that copies `steady` in transactions with its offsets

At the end every topic is read from both programs: each committed record is there once, in order, nothing of what was aborted is, the copy is
the source, and the group's offsets are at its end. Kafka's own dump tool has nothing to say about the files that Fencepost left.
Prints a line for each swap and one at the end; the exit status is 1 when something is wrong.
"""
import argparse
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / 'conformance')]

import clients  # noqa: E402
import held  # noqa: E402
from node import Node  # noqa: E402
from verify import Failure, check_files, verify  # noqa: E402

TOPICS = {'held': 2, 'load': 3, 'steady': 2, 'copy': 2}
# Small segments, so that every swap finds several of them.
SEGMENT_BYTES = 100_000


def turns(options, node, random_):
    """Swaps under load; answers how long each took."""
    node.start('fencepost')
    probe = node.probe()
    for topic, partitions in TOPICS.items():
        error = probe.create_topic(topic, partitions, internal_segment_bytes=SEGMENT_BYTES, index_interval_bytes=1000)
        assert error == 'NONE', (topic, error)
        assert probe.wait_topic(topic, partitions), topic
    load = clients.Clients(node.bootstrap, random_)
    transactions = held.Held(random_)
    load.start()
    figures = []
    try:
        for swap in range(options.swaps):
            time.sleep(options.seconds)
            load.check()
            transactions.open(node.probe(), swap)
            load.hold(node.probe())
            before, counts = transactions.view(node.probe()), load.counts()
            stopped = node.end(kill=options.kill)
            started = node.start(node.other)
            answered = transactions.until_view(node, before)
            load.gate.open()
            transactions.go_on(node.probe(), swap)
            figures.append((stopped, started, answered))
            print('swap %d: %s %s in %.1f s, %s started in %.1f s and answers after %.1f s; %s; %s' % (
                swap + 1, node.other, 'killed' if options.kill else 'stopped', stopped, node.program, started, answered, transactions.said, counts),
                flush=True)
    except BaseException:
        load.abandon()
        raise
    load.finish()
    return load, transactions, figures


def run(options):
    random_ = random.Random(options.seed)
    began = time.time()
    with tempfile.TemporaryDirectory() as scratch, Node(pathlib.Path(options.data or scratch), options.fencepost) as node:
        load, transactions, figures = turns(options, node, random_)
        told = verify(node, load, transactions)
        node.end()
        if node.program == 'kafka':
            node.start('fencepost')
            again = verify(node, load, transactions)
            node.end()
        else:
            node.start('kafka')
            again = verify(node, load, transactions)
            node.end()
            # What is looked at last is what Fencepost left.
            node.start('fencepost')
            node.end()
        if told != again:
            raise Failure('%s and %s do not read the same' % (node.program, node.other))
        files = check_files(node)
    longest = ['%.1f' % max(column) for column in zip(*figures)]
    return '%d swaps: %s; %s; %d files read by Kafka\'s tool; the longest stop %s s, start %s s, first answers %s s; %d s' % (
        options.swaps, load.summary(), transactions.summary(), files, *longest, time.time() - began)


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--fencepost', required=True, type=pathlib.Path)
    options.add_argument('--swaps', type=int, default=20)
    options.add_argument('--data', type=pathlib.Path, help='an empty or missing directory, kept afterwards')
    options.add_argument('--kill', action='store_true', help='end with SIGKILL instead of SIGTERM')
    options.add_argument('--seed', type=int, default=1)
    options.add_argument('--seconds', type=float, default=2.0, help='load between two swaps')
    options = options.parse_args()
    try:
        print('OK swap: ' + run(options))
    except (Failure, AssertionError) as e:
        print('FAIL swap (--seed %d): %s' % (options.seed, e))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
