#!/usr/bin/env python3
"""Other people's tests against one broker: those of franz-go, sarama and librdkafka.

  run.py --against fencepost|kafka --executable PATH --work DIR [--write] [--only TEST…] [SUITE…]

Fetches the pinned sources, builds them, and runs each suite on a new broker with settings that are the same for both programs. What
passed is compared with the kept list SUITE.PROGRAM.txt; a test that did not pass runs up to twice more by itself before it counts as
failed, for many of these tests measure time. `--write` writes the list instead, with `--only` into the one there is. `--document`
writes the section of docs/clients.md from the kept lists, and runs nothing. The exit status is 1 when a listed test has not passed.
"""
import argparse
import pathlib
import shutil
import sys
import time

import broker
import report
import suites

SUITES = {'franz-go': suites.FranzGo, 'sarama': suites.Sarama, 'librdkafka': suites.Librdkafka}
TRIES_ALONE = 2


def examine(suite, wanted, only):
    """Runs a suite; what failed, and what was wanted and is missing, has another try by itself."""
    results = suite.run(only)
    for _ in range(TRIES_ALONE):
        failed = {n for n, r in results.items() if r == 'fail'} | {n for n in wanted if results.get(n) != 'pass'}
        again = sorted(n for n in failed if not report.reason(suite.name, n))
        if again:
            print('%s: by themselves: %s' % (suite.name, ', '.join(again)), flush=True)
            results.update((n, r) for n, r in suite.alone(again).items() if results.get(n) != 'pass')
    return results


def one_suite(name, arguments):
    """One suite on brokers of its own; whether it was as wanted."""
    began = time.monotonic()
    scratch = arguments.work / ('%s.%s' % (name, arguments.against))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    program, only = broker.Program(arguments.against, arguments.executable, scratch), set(arguments.only)
    suite = SUITES[name](program, arguments.work / 'sources', scratch)
    listed = report.kept(name, arguments.against)
    wanted = set() if arguments.write else {n for n in listed if not only or n.split('/')[0] in only}
    results = examine(suite, wanted, only)
    passed = {n for n, r in results.items() if r == 'pass'}
    failed = {n for n, r in results.items() if r == 'fail'}
    if arguments.write:
        report.keep(name, arguments.against, passed | listed - failed if only else passed)
    print('%s on %s: %d passed, %d failed, %d skipped; %d s' % (name, arguments.against, len(passed), len(failed),
                                                               sum(r == 'skip' for r in results.values()), time.monotonic() - began))
    for kind, names in (('failed', failed), ('listed, but not passed', wanted - passed), ('passed, but not listed', passed - listed)):
        if names:
            print('  %s: %s' % (kind, ', '.join(sorted(names))))
    print('  outputs are in %s' % scratch, flush=True)
    return not wanted - passed


def main():
    """Reads the arguments and runs what they name."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--against', choices=['fencepost', 'kafka'], default='fencepost')
    parser.add_argument('--executable', type=pathlib.Path)
    parser.add_argument('--work', type=pathlib.Path)
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--document', action='store_true')
    parser.add_argument('--only', action='append', default=[])
    parser.add_argument('suites', nargs='*')
    arguments = parser.parse_args()
    if arguments.document:
        report.document(SUITES)
        return 0
    if unknown := set(arguments.suites) - set(SUITES):
        parser.error('no suite named %s' % ', '.join(unknown))
    arguments.work = arguments.work.resolve()
    good = [one_suite(name, arguments) for name in arguments.suites or SUITES]
    return 0 if all(good) else 1


if __name__ == '__main__':
    sys.exit(main())
