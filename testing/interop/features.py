#!/usr/bin/env python3
"""Kafka's `features` tool, each sub-command, against one broker; what it prints is what it printed about Apache Kafka 4.4.0.

  features.py --bootstrap HOST:PORT [--record]

The answers are in features.txt, which `--record` writes anew. Not compared: epochs of the metadata, levels of features that are no part of
this run, and the words of the broker's own messages. Ends at the level it began with, transaction.version 2.
"""
import argparse
import pathlib
import re
import subprocess
import sys

from tools import KAFKA

ANSWERS = pathlib.Path(__file__).resolve().parent / 'features.txt'
PATIENCE_S = 200
OURS = ('transaction.version', 'group.version')
STEPS = """
describe
version-mapping --release-version 4.4-IV2
version-mapping --release-version 3.9-IV0
feature-dependencies --feature transaction.version=2
feature-dependencies --feature transaction.version=3
upgrade --feature transaction.version=2
upgrade --feature transaction.version=1
upgrade --feature transaction.version=3
upgrade --feature nothing.version=1
upgrade --feature transaction.version=2 --feature transaction.version=1
upgrade --feature transaction.version=1 --dry-run
downgrade --feature transaction.version=1 --dry-run
downgrade --feature transaction.version=1
describe
downgrade --feature transaction.version=1
downgrade --feature transaction.version=2
downgrade --feature transaction.version=2 --unsafe
upgrade --feature transaction.version=2 --dry-run
upgrade --feature transaction.version=2 --feature group.version=1
downgrade --feature transaction.version=0 --unsafe
describe
downgrade --feature transaction.version=3 --unsafe
downgrade --feature nothing.version=1
upgrade --feature transaction.version=1
disable --feature transaction.version --dry-run
disable --feature transaction.version
disable --feature transaction.version --unsafe
disable --feature nothing.version
downgrade --feature group.version=0 --feature transaction.version=0 --dry-run
upgrade --feature transaction.version=1 --feature nothing.version=1
downgrade --metadata 3.3-IV3
upgrade --feature transaction.version=2
describe
""".strip().splitlines()


def comparable(line):
    """A line without what may differ; nothing for a line that is not compared."""
    if line.startswith('Feature: ') and line.split()[1] not in OURS:
        return None
    line = re.sub(r'Epoch: \d+', 'Epoch: …', line)
    # "Could not upgrade x to 1. Why": the words of why are the broker's.
    line = re.sub(r'^((?:Could|Can) not \w+ [\w.]+(?: to \d+)?\.) .*', r'\1 …', line)
    return re.sub(r' +', ' ', line).rstrip()


def answers(bootstrap):
    """The comparable answer to each step."""
    done = subprocess.run([str(KAFKA), 'steps', 'features', '--bootstrap-server', bootstrap], input='\n'.join(STEPS), text=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE_S)
    lines = (comparable(line) for line in done.stdout.splitlines())
    return re.split(r'\n(?=\$ )', '\n'.join(line for line in lines if line))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('--record', action='store_true')
    options = parser.parse_args()
    told = answers(options.bootstrap)
    if options.record:
        ANSWERS.write_text('\n\n'.join(told) + '\n')
        return 0
    wanted, failed = ANSWERS.read_text().split('\n\n'), 0
    for step, seen, expected in zip(STEPS, told, wanted, strict=True):
        if seen.strip() != expected.strip():
            failed += 1
            print(f'FAIL features {step}: wanted\n{expected}\nand not\n{seen}', flush=True)
    print(f'{"FAIL" if failed else "OK"} features: {len(STEPS) - failed} of {len(STEPS)} answers as of Apache Kafka 4.4.0', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
