#!/usr/bin/env python3
"""Random conversations about transactions with Fencepost and with Apache Kafka 4.4.0, side by side: every answer is to be the same.

  differential.py FENCEPOST KAFKA DIR [--rounds N] [--seed S]

FENCEPOST and KAFKA are executables that know `serve`. There is one sequence of requests for each of the seeds S, S + 1, …, N in all
(differential_steps.py). Fifty sequences stand in one group: in two of three groups all of them are begun, the brokers are stopped or killed and
started again, and all are gone on with; one of four groups has `transaction.version` 1. After each request the states of the transactions are
compared, now and then and at the end everything else that a client can see: producers, offsets of both isolations, records with their markers and
the lists of aborted transactions, committed offsets.

Where we differ on purpose is in differential_known.py, each with the place that says so; such a difference is counted, and ends its sequence if
the brokers' states part. Any other fails the run: its sequence is printed, and `--seed` with `--rounds 1` repeats it.
"""
import argparse
import collections
import pathlib
import signal
import sys
import time

from differential_known import KNOWN, explained
from differential_sides import PATIENCE_S, Side, differences
from differential_steps import PARTITIONS, Sequence
from exhaust_epochs import exhaust
from process import Node

# What lets InitProducerId 6 be asked; a busy machine must not cost Kafka its session with its own controller. (A killed one waits for its end.)
SETTINGS = ('unstable.api.versions.enable=true', 'transaction.two.phase.commit.enable=true', 'group.initial.rebalance.delay.ms=0',
            'broker.session.timeout.ms=30000', 'initial.broker.registration.timeout.ms=180000')
GROUP, VIEW_EVERY, RESTARTED = 50, 3, 'Both brokers start again'
# How the groups are interrupted, and the level of transaction.version in them, by their number.
RESTARTS, LEVELS = (None, signal.SIGTERM, signal.SIGKILL), (2, 2, 2, 1)


class Run(Sequence):
    """A sequence and its two sides."""

    def __init__(self, seed, tag, nodes):
        super().__init__(seed, tag)
        self.sides = [Side(name, node, self.topic) for name, node in nodes.items()]
        # `past` is what changes something; `trace` has what was looked at, too.
        self.past, self.trace, self.known = [], [], []
        self.restarted, self.over, self.failed = False, False, False
        for side in self.sides:
            side.make_topic(PARTITIONS)
            for name in self.names:
                side.probes[0].find_coordinator(name)
                if self.exhausted:
                    exhaust(side.probes[0], name)
            side.probes[0].find_coordinator(self.group, 0)

    def steps(self, count):
        """So many steps, unless the sequence is over."""
        for _ in range(count):
            if self.over:
                return
            step = self.step()
            self.past.append(step)
            self.compare(step)
            self.settle()
            if len(self.past) % VIEW_EVERY == 0:
                self.view()

    def compare(self, step):
        """Asks both; Kafka's answer is what the sequence goes on with."""
        kafka, fencepost = (side.ask(step.connection, step.api, step.version, step.fields) for side in self.sides)
        unexplained, reasons = explained(step, self, differences(kafka, fencepost))
        self.known += sorted(reason.name for reason in reasons)
        self.trace.append((step, kafka, unexplained))
        self.failed = bool(unexplained)
        self.over = self.over or self.failed or any(reason.parts for reason in reasons)
        if isinstance(kafka, dict):
            step.learn(kafka)

    def settle(self):
        """Compares the states, once nothing is completing. One that stays so, as it does after some markers, is the end."""
        step, deadline = self.states_of_all(), time.monotonic() + PATIENCE_S
        for side in () if self.over else self.sides:
            while 'Prepare' in repr(side.ask(0, step.api, step.version, step.fields)):
                if time.monotonic() > deadline:
                    self.compare(step)
                    self.over = True
                    return
        if not self.over:
            self.compare(step)

    def view(self):
        for step in self.views():
            if not self.over:
                self.compare(step)

    def restart(self):
        self.restarted = True
        self.trace.append((RESTARTED, '', []))
        for side in self.sides:
            side.connect()
            side.probes[0].wait_topic(self.topic, PARTITIONS)

    def close(self):
        for side in self.sides:
            side.probes[0].delete_topic(self.topic)
            side.close()

    def story(self):
        """What was asked and what Kafka said, to the difference."""
        yield f'seed {self.seed}, {self.mode} clients{", exhausted epochs" if self.exhausted else ""}'
        for step, kafka, unexplained in self.trace:
            if step in self.past or step == RESTARTED or unexplained:
                yield f'  {step}'.replace(self.topic, 'topic')
                yield f'    {kafka}'.replace(self.topic, 'topic')
            for path, one, other in unexplained:
                yield f'  DIFFERENT {path}: Kafka {one}, Fencepost {other}'.replace(self.topic, 'topic')


def group(nodes, tag, seeds, number):
    """Runs some sequences, all of them interrupted in the midst or none."""
    how, level, runs = RESTARTS[number % len(RESTARTS)], LEVELS[number % len(LEVELS)], []
    for node in nodes.values():
        node.set_level(level)
    for seed in seeds:
        run = Run(seed, tag, nodes)
        runs.append(run)
        run.steps(run.length // 2)
    if how is not None:
        for node in nodes.values():
            node.end(how)
        for node in nodes.values():
            node.start()
    for run in runs:
        if how is not None:
            run.restart()
        run.steps(run.length - run.length // 2)
        run.view()
        run.close()
        if run.failed:
            print('\n'.join(run.story()), flush=True)
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    for name in ('fencepost', 'kafka', 'data'):
        parser.add_argument(name)
    parser.add_argument('--rounds', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    tag, data = f'{time.time_ns() // 1_000_000 % 1_000_000:06d}', pathlib.Path(options.data)
    nodes = {'kafka': Node(options.kafka, str(data / 'kafka'), *SETTINGS), 'fencepost': Node(options.fencepost, str(data / 'fencepost'), *SETTINGS)}
    seeds, sums, asked, failed = range(options.seed, options.seed + options.rounds), collections.Counter(), 0, []
    try:
        for node in nodes.values():
            # An answer with an error names producer id 0: nobody is to have that.
            node.start().init_pid()
        for number in sorted({seed // GROUP for seed in seeds}):
            of_group = [seed for seed in seeds if seed // GROUP == number]
            for run in group(nodes, tag, of_group, number):
                asked += len(run.trace)
                sums.update(run.known)
                failed += [run.seed] if run.failed else []
    finally:
        for node in nodes.values():
            if node.process:
                node.end()
    for known in KNOWN:
        print(f'{sums[known.name]} times {known.name}: {known.said}')
    print(f'{"FAIL" if failed else "OK"} differential: {len(seeds)} sequences, {asked} answers; different: {failed or "none"}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
