#!/usr/bin/env python3
"""Kafka's own dump tool over the directory of a broker that has stopped, and `fencepost dump-log` beside it.

  dump_log.py --fencepost EXECUTABLE DIR

Every file of every partition is read by both (the files of one kind in one run, with each set of options that changes what
is read), from a copy: Kafka's tool makes an index that it misses. It must have nothing to complain about, make no file, and
print the same as ours. Prints a line for each directory, and at the end how many runs were alike; the exit status is 1 when
one was not.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

KAFKA = pathlib.Path(__file__).resolve().parent / 'kafka.sh'
PATIENCE_S = 120
DECODERS = {'__consumer_offsets': '--offsets-decoder', '__transaction_state': '--transaction-log-decoder',
            '__cluster_metadata': '--cluster-metadata-decoder'}
COMPLAINTS = re.compile(r'isvalid: false|invalid bytes|skipping\.|Mismatches|mismatch|out of order|not found|corrupt|Exception')
# Compaction leaves gaps, and the tool counts from -1 in each file.
FINE = re.compile(r'^(Non-consecutive offsets in .*|  -?\d+ is followed by \d+)$')


def runs(partition):
    """(suffix, options) for each run over a partition's directory."""
    decoder = DECODERS.get(partition.name.rpartition('-')[0])
    for suffix in '.log', '.checkpoint':
        yield suffix, []
        yield suffix, ['--print-data-log'] + ([decoder] if decoder else [])
    for suffix in '.index', '.timeindex':
        yield suffix, []
        yield suffix, ['--index-sanity-check']
    yield '.txnindex', []
    yield '.snapshot', []


def printed(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr.decode(errors='replace')


def wrong(partition, suffix, options, fencepost):
    """What is wrong with one run; None where there are no such files, an empty list where nothing is."""
    files = sorted(str(path) for path in partition.iterdir() if path.suffix == suffix)
    if not files:
        return None
    arguments = ['--files', ','.join(files), *options]
    status, theirs, aside = printed([str(KAFKA), 'tool', 'dump-log', *arguments])
    _, ours, _ = printed([fencepost, 'dump-log', '--format', 'kafka', *arguments])
    found = ['exit status %d' % status] if status else []
    # Contents of records are anybody's, unless a decoder had to make sense of them.
    is_decoded = any(option.endswith('-decoder') for option in options)
    said = [line for line in theirs.decode(errors='replace').split('\n') if is_decoded or not line.startswith('|')]
    said += [line for line in aside.split('\n') if not FINE.match(line)]
    found += ['complaint: ' + line for line in said if COMPLAINTS.search(line)]
    if ours != theirs:
        pairs = zip(theirs.split(b'\n'), ours.split(b'\n'))
        first = next(((a, b) for a, b in pairs if a != b), (b'(longer or shorter)', b''))
        found.append('not alike:\n  kafka:     %r\n  fencepost: %r' % first)
    return ['%s %s: %s' % (suffix, ' '.join(options), what) for what in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--fencepost', required=True, help='the executable')
    parser.add_argument('directory', type=pathlib.Path, help='a log directory, not in use')
    options = parser.parse_args()
    alike = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / 'data'
        shutil.copytree(options.directory, copy)
        before = {path for path in copy.rglob('*')}
        for partition in sorted(path for path in copy.iterdir() if path.is_dir()):
            results = [wrong(partition, suffix, extra, options.fencepost) for suffix, extra in runs(partition)]
            results = [result for result in results if result is not None]
            alike += sum(not result for result in results)
            failed += sum(bool(result) for result in results)
            print('%s %s' % ('FAIL' if any(results) else 'ok  ', partition.name))
            for line in sum(results, []):
                print('  ' + line)
        for path in sorted({path for path in copy.rglob('*')} - before):
            failed += 1
            print('FAIL the tool made %s' % path.relative_to(copy))
    print('%d runs alike, %d not' % (alike, failed))
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
