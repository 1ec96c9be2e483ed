#!/usr/bin/env python3
"""Kafka's `consumer-groups` tool, each sub-command, against groups in every condition; what it prints is compared with what it
prints on Apache Kafka 4.4.0.

  groups_tool.py --bootstrap HOST:PORT [--record FILE]

`groups_tool.txt` is what Kafka's tool said there, after masking: member ids are M, blanks count once, the lines of a
table are sorted, times and stack traces are left out. With --record what is said goes to a file instead.
Prints a line for each command that differs; the exit status is 1 when one does.
"""
import argparse
import pathlib
import re
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'conformance'), str(HERE.parent / 'conformance' / 'scenarios')]

import _groups  # noqa: E402
import kprobe as k  # noqa: E402
import scenario  # noqa: E402
from tools import KAFKA  # noqa: E402

RECORD = HERE / 'groups_tool.txt'
PATIENCE_S = 180
PLAIN, LATE = 'orders', 'payments'


def string(text):
    return struct.pack('>h', len(text)) + text.encode()


def subscription(topic):
    """ConsumerProtocolSubscription 0."""
    return struct.pack('>hi', 0, 1) + string(topic) + struct.pack('>i', -1)


def assignment(topic, partitions):
    """ConsumerProtocolAssignment 0."""
    return (struct.pack('>hi', 0, 1) + string(topic) + struct.pack('>i', len(partitions))
            + b''.join(struct.pack('>i', partition) for partition in partitions) + struct.pack('>i', -1))


def live(run, epoch):
    """The heartbeats of the one member that has no long session."""
    groups = _groups.Groups(run)
    while True:
        groups.heartbeat848('consumer', 'm-consumer', epoch)
        time.sleep(2)


def prepare(run, groups):
    """A topic of ten records in each of three partitions, one that ends with an open transaction behind a committed one, and a
    group of each kind."""
    probe = run.p
    for topic, partitions in ((PLAIN, 3), (LATE, 1)):
        assert probe.create_topic(topic, partitions, 1) == 'NONE' and probe.wait_topic(topic, partitions)
    for partition in range(3):
        assert probe.produce(PLAIN, k.batch([b'x'] * 10), partition)[0] == 'NONE'
    for transactional_id, is_over in (('first', True), ('second', False)):
        pid, epoch = run.begin(transactional_id, LATE, timeout_ms=900_000)
        sent = probe.produce(LATE, k.batch([b'x'] * 3, pid, epoch, 0, transactional=True), 0, txn_id=transactional_id)
        assert sent[0] == 'NONE', sent
        if is_over:
            assert probe.end_txn(transactional_id, pid, epoch, True)[0] == 'NONE'
    for group in ('classic', 'consumer', 'offsets', 'committed', 'gone', 'other'):
        assert probe.find_coordinator(group, k.GROUP)[0] == 'NONE'
        _groups.poll(lambda: groups.fetch(group, {}), lambda told: str(told) not in _groups.RETRY, PATIENCE_S)
    member, generation = groups.one('classic', protocols=(('range', subscription(PLAIN)),), assignment=assignment(PLAIN, [0, 1, 2]),
                                    session_ms=1_000_000)
    groups.commit('classic', {(PLAIN, 0): 4, (PLAIN, 1): 10}, member, generation)
    groups.configure('consumer', consumer_assignment_interval_ms=0, consumer_session_timeout_ms=60_000)
    joined = groups.member848('consumer', 'm-consumer', [PLAIN])
    assert joined['error'] == 'NONE' and joined['assignment'], joined
    groups.commit('consumer', {(PLAIN, 2): 7}, 'm-consumer', joined['epoch'], version=9)
    threading.Thread(target=live, args=(scenario.Run(run.host, run.port), joined['epoch']), daemon=True).start()
    groups.commit('offsets', {(PLAIN, 0): (3, 'noted'), (PLAIN, 2): 10})
    groups.commit('committed', {(LATE, 0): 3})
    groups.commit('gone', {(PLAIN, 0): 1})
    groups.one('other', protocol_type='connect', protocols=(('x', b'y'),), session_ms=1_000_000)


COMMANDS = [
    '--list', '--list --state', '--list --type consumer', '--describe --group classic', '--describe --group consumer --offsets --verbose',
    '--describe --group committed', '--describe --group nobody', '--describe --group consumer --state --verbose',
    '--describe --group classic --members --verbose', '--describe --group consumer --members --verbose', '--describe --all-groups --state',
    '--reset-offsets --group offsets --topic orders --to-offset 8 --dry-run', '--reset-offsets --group offsets --all-topics --to-current --export --dry-run',
    '--reset-offsets --group classic --topic orders --to-earliest --execute', '--reset-offsets --group consumer --topic orders --to-latest --execute',
    '--reset-offsets --group committed --topic payments --to-latest --dry-run', '--delete-offsets --group classic --topic orders',
    '--delete-offsets --group consumer --topic orders:2', '--delete --group classic', '--delete --group consumer',
    '--reset-offsets --group offsets --topic orders:0 --to-offset 5 --execute', '--delete-offsets --group offsets --topic orders:2',
    '--describe --group offsets', '--delete --group gone', '--list',
]


def ask(bootstrap, commands):
    """What the tool prints for each command, line by line, masked; tables in any order."""
    classpath = subprocess.run([str(KAFKA), 'classpath'], check=True, capture_output=True, text=True).stdout.strip()
    told = subprocess.run(['java', '-cp', classpath, str(HERE / 'GroupsTool.java'), bootstrap], input='\n'.join(commands) + '\n', text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE_S)
    text = re.sub(r'(kprobe|probe)?-?[0-9a-f]{8}-[0-9a-f-]{27}', 'M', told.stdout)
    text = text.replace(bootstrap, 'HOST:PORT').replace(bootstrap.split(':')[0], 'HOST')
    # What the broker says is its own words.
    text = re.sub(r'(GroupIdNotFoundException:).*', r'\1 …', text)
    answers = []
    for answer in ('\n' + text).split('\n$ ')[1:]:
        command, *lines = [re.sub(r'^[0-9:.]{12} ', '', ' '.join(line.split())) for line in answer.splitlines()]
        answers.append(['$ ' + command] + sorted(line for line in lines if line and not line.startswith(('at ', '...'))))
    return answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('--record', type=pathlib.Path)
    options = parser.parse_args()
    host, port = options.bootstrap.rsplit(':', 1)
    run = scenario.Run(host, int(port))
    groups = _groups.Groups(run)
    prepare(run, groups)
    told = ask(options.bootstrap, COMMANDS)
    assert [lines[0][2:] for lines in told] == COMMANDS, 'the tool has ended early: %s' % told[-1:]
    if options.record:
        options.record.write_text('\n'.join('\n'.join(lines) for lines in told) + '\n')
        return
    wanted = RECORD.read_text().split('$ ')[1:]
    wanted = [('$ ' + lines).splitlines() for lines in wanted]
    assert [lines[0] for lines in wanted] == [lines[0] for lines in told], 'other commands were recorded'
    different = 0
    for before, now in zip(wanted, told):
        if before != now:
            different += 1
            print('FAIL %s\n  Kafka 4.4.0:\n    %s\n  here:\n    %s' % (now[0][2:], '\n    '.join(before[1:]), '\n    '.join(now[1:])))
    print('%d of %d commands say what they say on Kafka 4.4.0' % (len(told) - different, len(told)))
    sys.exit(1 if different else 0)


if __name__ == '__main__':
    main()
