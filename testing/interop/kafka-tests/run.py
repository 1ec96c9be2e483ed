#!/usr/bin/env python3
"""Apache Kafka's own integration tests, unmodified, against one broker process; compares what passed with the kept list.

  run.py --executable PATH --work DIR [--quick] [--methods REGEX] [--write] [CLASS…]

The compiled tests come from the jars that Apache Kafka publishes (pom.xml), the adapter in `java` puts processes in the place of brokers in
the JVM. Each class runs in a JVM of its own; CLASS is a name of `classes.tsv`, with or without its package, and all run where none is named.
A test that is listed as passed and does not pass has one more try by itself, for many of these tests measure time; if it fails again the
exit status is 1. A test that is listed as failing and passes is told. `--write` puts the outcomes into the list.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / 'expected.tsv'
CLASS_S = 1800
JAVA = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xmx1300m', '-Djava.net.preferIPv4Stack=true', '-Dkafka.log.level=OFF',
        '-Dlog4j2.configurationFile=%s' % (HERE.parent / 'kafka' / 'log4j2.properties')]

Test = collections.namedtuple('Test', 'type method case')
Outcome = collections.namedtuple('Outcome', 'verdict reason')


def classes():
    """The classes of the list: a name, and whether it is in the quick set."""
    rows = [line.split('\t') for line in (HERE / 'classes.tsv').read_text().splitlines()]
    return {row[0]: row[1:] == ['quick'] for row in rows}


def chosen(names, quick):
    """The classes to run, by their names or the ends of them."""
    known = classes()
    if not names:
        return [name for name, is_quick in known.items() if is_quick or not quick]
    found = []
    for name in names:
        some = [one for one in known if one == name or one.endswith('.' + name)]
        if not some:
            sys.exit('no class named %s in classes.tsv' % name)
        found += some
    return found


def expected():
    """The kept list."""
    rows = [line.split('\t') for line in EXPECTED.read_text().splitlines()[1:]]
    return {Test(*row[:3]): Outcome(row[3], row[4]) for row in rows}


def keep(listed):
    """Writes the list."""
    rows = ['\t'.join([*test, *outcome]) for test, outcome in sorted(listed.items())]
    EXPECTED.write_text('\n'.join(['class\tmethod\tcase\toutcome\treason', *rows]) + '\n')


def prepare(work):
    """Fetches the jars and compiles the adapter, where that has not been done for this source."""
    source = ''.join(str(file.relative_to(HERE)) + '\n' + file.read_text() for file in sorted([HERE / 'pom.xml', *(HERE / 'java').rglob('*.java')]))
    mark, jars = work / 'source.txt', work / 'jars'
    if mark.exists() and mark.read_text() == source:
        return
    subprocess.run(['mvn', '-q', '-B', '-Dstyle.color=never', '-f', HERE / 'pom.xml', 'dependency:copy-dependencies', '-DincludeScope=runtime',
                    '-DoutputDirectory=%s' % jars], check=True)
    services = work / 'runner' / 'META-INF' / 'services'
    services.mkdir(parents=True, exist_ok=True)
    (services / 'org.junit.jupiter.api.extension.Extension').write_text('org.fencepost.apache.OneType\n')
    for part, path in [('runner', '%s/*' % jars), ('broker', '%s:%s/*' % (work / 'runner', jars))]:
        files = sorted((HERE / 'java' / part).rglob('*.java'))
        subprocess.run(['javac', '-nowarn', '-cp', path, '-d', work / part, *files], check=True)
    (work / 'manifest').write_text('Premain-Class: org.fencepost.apache.Agent\n')
    subprocess.run(['jar', 'cfm', work / 'agent.jar', work / 'manifest'], check=True)
    mark.write_text(source)


def run(work, executable, name, methods):
    """One class in a JVM of its own; what came of each test."""
    out, log = work / 'out' / (name + '.tsv'), work / 'logs' / (name + '.log')
    for folder in (out.parent, log.parent, work / 'tmp'):
        folder.mkdir(exist_ok=True)
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=work / 'tmp') as scratch, open(log, 'wb') as said:
        path = '%s:%s:%s/*' % (work / 'broker', work / 'runner', work / 'jars')
        command = ['java', *JAVA, '-Djava.io.tmpdir=%s' % scratch, '-javaagent:%s' % (work / 'agent.jar'), '-Dfencepost.bin=%s' % executable,
                   '-Dfencepost.logs=%s' % (work / 'logs'), '-cp', path, 'org.fencepost.apache.Runner', out, log.with_suffix('.trace'), methods, name]
        try:
            # Some tests write beside where they are started.
            subprocess.run(command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=CLASS_S, check=False)
        except subprocess.TimeoutExpired:
            print('%s: no end within %d s' % (name, CLASS_S), flush=True)
    return read(out) if out.exists() else {}


def read(path):
    """The lines of the runner. A case is the parameters, but for the time of the run, and which one of several alike."""
    found, seen = {}, collections.Counter()
    for line in path.read_text(errors='replace').splitlines():
        fields = line.split('\t')
        if len(fields) < 5:
            continue
        case = re.sub(r'^\[\d+\] ', '', re.sub(r'^.*?Type=Raft-\w+, ', '', fields[2]))
        case = re.sub(r',BrokerListenerName=.*', '', case).replace(fields[1] + '()', '')
        case = re.sub(r'(?<=Timestamp=)\d+', 'N', case)  # another in each run
        seen[fields[0], fields[1], case] += 1
        number = seen[fields[0], fields[1], case]
        found[Test(fields[0], fields[1], case + (' #%d' % number if number > 1 else ''))] = Outcome(fields[3], fields[5] if len(fields) > 5 else '')
    return found


def examine(work, executable, name, methods, listed):
    """Runs a class; a test that is listed as passed and has not passed has another try by itself."""
    results = run(work, executable, name, methods)
    pattern = re.compile(methods)
    wanted = {test for test, outcome in listed.items() if test.type == name and outcome.verdict == 'pass' and pattern.search(test.method)}
    again = sorted({test.method for test in wanted if results.get(test, Outcome('', '')).verdict != 'pass'})
    if again:
        print('  by themselves: %s' % ', '.join(again), flush=True)
        alone = run(work, executable, name, '^(%s)$' % '|'.join(again))
        results.update((test, outcome) for test, outcome in alone.items() if results.get(test, outcome).verdict != 'pass' or outcome.verdict == 'pass')
    return results, wanted


def one_class(arguments, name, listed):
    """Runs a class and prints how it differs from the list; whether every test passed that is listed so."""
    began = time.monotonic()
    results, wanted = examine(arguments.work, arguments.executable, name, arguments.methods, listed)
    count = collections.Counter(outcome.verdict for outcome in results.values())
    print('%s: %d passed, %d failed, %d skipped; %d s' % (name, count['pass'], count['fail'], count['skip'], time.monotonic() - began))
    missing = sorted(test for test in wanted if test not in results or results[test].verdict != 'pass')
    for test in missing:
        print('  listed, and not passed: %s %s: %s' % (test.method, test.case, results.get(test, Outcome('', 'not run')).reason[:300]))
    for test, outcome in sorted(results.items()):
        before = listed.get(test)
        if outcome.verdict == 'pass' and (before is None or before.verdict != 'pass'):
            print('  passed, and not listed: %s %s' % (test.method, test.case))
        if outcome.verdict != 'pass' and before is None:
            print('  failed, and not listed: %s %s: %s' % (test.method, test.case, outcome.reason[:300]))
    sys.stdout.flush()
    if arguments.write:
        for test, outcome in results.items():
            reason = listed[test].reason if test in listed else outcome.reason[:200]
            listed[test] = Outcome(outcome.verdict, '' if outcome.verdict == 'pass' else reason)
    return bool(results) and not missing


def main():
    """Reads the arguments and runs what they name."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--executable', type=pathlib.Path, required=True)
    parser.add_argument('--work', type=pathlib.Path, required=True)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--methods', default='.')
    parser.add_argument('--write', action='store_true')
    parser.add_argument('classes', nargs='*')
    arguments = parser.parse_args()
    arguments.work, arguments.executable = arguments.work.resolve(), arguments.executable.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    os.environ.pop('JAVA_TOOL_OPTIONS', None)
    prepare(arguments.work)
    listed = expected()
    good = [one_class(arguments, name, listed) for name in chosen(arguments.classes, arguments.quick)]
    if arguments.write:
        keep(listed)
    print('%d of %d classes as wanted' % (sum(good), len(good)))
    return 0 if all(good) else 1


if __name__ == '__main__':
    sys.exit(main())
