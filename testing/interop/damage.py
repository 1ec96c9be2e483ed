#!/usr/bin/env python3
"""One flipped bit in a log directory: is it refused, taken offline, repaired with a warning, or harmless, and is nothing else lost?

  damage.py EXECUTABLE DIR [--rounds N] [--seed NUMBER] [--kind KIND] [--port PORT] [--replay TEMPLATE/FILE:BYTE:BIT]

A broker writes plain records, transactions and committed offsets; one directory is left by a clean stop and one by a kill. Each round
copies one of them, flips a random bit of a file (kinds of files take turns), starts the broker, reads everything that is
served, and starts it again. Compared with what the same directory says when nothing is flipped, a round fails for: an exit by anything
but a refusal, a refusal that changes files, a start or a reader that does not come to an end, records or committed offsets or
transactions that are missing or others without a word, a cut below the recovery point, topics that are gone, and a second start that
shows something else than the first. What is known to be weak is counted apart, with its reason. Prints a table of outcomes by kind
of file, and the seed; the exit status is 1 when a round has failed. The templates stay in DIR, and --replay uses them.
"""
import argparse
import collections
import hashlib
import pathlib
import random
import re
import shutil
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
import damage_broker as b  # noqa: E402
from damage_broker import GROUPS, PARTITIONS, TOPICS, TRANSACTIONAL_IDS, Broker, Failure, Refused, wanted  # noqa: E402
from process import free_port  # noqa: E402

LOADED_S, FETCHES_MAX = 3, 2_000
# What the broker may write about the checkpoints within this time is written when the template is half full.
CHECKPOINT_S = 0.5
DATA = r'(plain|transactional)-\d+/'
ANY = r'(plain|transactional|__consumer_offsets|__transaction_state)-\d+/'
KINDS = {
    'data .log': DATA + r'\d+\.log', '.index': ANY + r'\d+\.index', '.timeindex': ANY + r'\d+\.timeindex', '.txnindex': ANY + r'\d+\.txnindex',
    '.snapshot': ANY + r'\d+\.snapshot', '.window': ANY + r'\d+\.window', 'leader-epoch-checkpoint': ANY + 'leader-epoch-checkpoint',
    'partition.metadata': ANY + r'partition\.metadata', 'recovery-point-offset-checkpoint': 'recovery-point-offset-checkpoint',
    'replication-offset-checkpoint': 'replication-offset-checkpoint', 'log-start-offset-checkpoint': 'log-start-offset-checkpoint',
    'cleaner-offset-checkpoint': 'cleaner-offset-checkpoint', 'meta.properties': r'meta\.properties',
    '.kafka_cleanshutdown': r'\.kafka_cleanshutdown', '__consumer_offsets .log': r'__consumer_offsets-\d+/\d+\.log',
    '__transaction_state .log': r'__transaction_state-\d+/\d+\.log', '__cluster_metadata .log': r'__cluster_metadata-0/\d+\.log',
    '__cluster_metadata .checkpoint': r'__cluster_metadata-0/.*\.checkpoint', 'quorum-state': '__cluster_metadata-0/quorum-state',
    '__cluster_metadata, others': r'__cluster_metadata-0/(.*index|.*\.snapshot|leader-epoch-checkpoint|partition\.metadata)',
}
OUTCOMES = ('refused', 'offline', 'coordinator unavailable', "reader's checksum", 'cut, warned', 'rebuilt, warned', 'served, warned', 'served whole', 'known', 'FAIL')
# What a check of the broker cannot see, or not at a price that a start could pay.
KNOWN = {
    'base offset': 'a base offset in an older segment, which a start does not read, is not covered by the checksum',
    'checkpoint': 'a number in a text checkpoint that is another and still possible: the file has no checksum',
    'txnindex': 'a first_offset in an entry of a .txnindex, which has no checksum',
    'cut': 'after a kill a batch looks torn, by zeros in its records or at its end, and is cut with a warning',
}
CUT, REBUILT = 'the torn end of a log was cut off', 'were made anew'
DAMAGED, GONE = 'a log is damaged', 'partitions are gone:'


def make_template(options, name):
    data = options.directory / name
    shutil.rmtree(data, ignore_errors=True)
    broker = Broker(options, data)
    try:
        probe = broker.start()
        for topic in TOPICS:
            wanted(probe.create_topic(topic, PARTITIONS, internal_segment_bytes=b.SEGMENT_BYTES, index_interval_bytes=500), topic)
            if not probe.wait_topic(topic, PARTITIONS):
                raise SystemExit(f'{topic} has no leader')
        b.make_segments_small(options)
        b.write(probe, 0, 2)
        time.sleep(CHECKPOINT_S)
        b.write(probe, 1, 2)
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                probe.wait_lso(topic, probe.hw(topic, partition), partition)
        b.leave_open(probe)
        view = look(probe, broker, None)
        broker.stop(signal.SIGTERM if name == 'clean' else signal.SIGKILL)
    finally:
        broker.end()
    return view


# ---------------------------------------------------------------- what is read

def fetch(probe, topic, partition, offset, isolation):
    """(error, high watermark, start, aborted, batches' bytes), unparsed: what is broken must not break the reader."""
    F = k.FetchRequest
    part = F.FetchTopic.FetchPartition(partition=partition, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
                                       log_start_offset=-1, partition_max_bytes=1 << 20)
    answer = probe.conn.call(F[11](replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation, session_id=0,
                                   session_epoch=-1, topics=[F.FetchTopic(topic=topic, partitions=[part])], forgotten_topics_data=[], rack_id=''))
    part = answer.responses[0].partitions[0]
    aborted = sorted((int(a.producer_id), a.first_offset) for a in part.aborted_transactions or [])
    end = part.last_stable_offset if isolation == k.READ_COMMITTED else part.high_watermark
    return k.error_name(part.error_code), end, part.log_start_offset, aborted, bytes(part.records or b'')


def take(data, at):
    """Whole batches of an answer, as a client with check.crcs reads them: (batches, the next offset, what is wrong)."""
    pos, batches = 0, []
    while pos + 61 <= len(data):
        size, = struct.unpack_from('>i', data, pos + 8)
        end = pos + 12 + size
        if size < 49 or data[pos + 16] != 2:
            return batches, at, 'a batch with a wrong head'
        if end > len(data):
            break
        if k.crc32c(data[pos + 21:end]) != struct.unpack_from('>I', data, pos + 17)[0]:
            return batches, at, 'a wrong checksum'
        batch, = k.parse_batches(data[pos:end])
        if batch['last'] >= at:
            batches.append(batch)
            at = batch['last'] + 1
        pos = end
    return batches, at, None


def read(probe, topic, partition, isolation):
    """Everything that one reader gets: records by offset, and how it ended."""
    at, records, gone, fetches = 0, [], collections.defaultdict(list), 0
    while fetches < FETCHES_MAX:
        fetches += 1
        error, end, start, aborted, data = fetch(probe, topic, partition, at, isolation)
        if error == 'OFFSET_OUT_OF_RANGE' and at < start:
            at = start
            continue
        if error != 'NONE':
            return dict(records=records, end=f'error {error}', next=at)
        if at >= end:
            return dict(records=records, end='whole', next=at)
        batches, after, wrong = take(data, at)
        for pid, first in aborted:
            if first not in gone[pid]:
                gone[pid].append(first)
        for batch in batches:
            firsts = gone[batch['pid']]
            is_aborted = isolation == k.READ_COMMITTED and any(first <= batch['base'] for first in firsts)
            if batch['control']:
                gone[batch['pid']] = [first for first in firsts if first > batch['base']]
                records.append((batch['base'], batch['marker'].encode()))
            elif not is_aborted:
                records += batch['records']
        if wrong or after == at:
            return dict(records=records, end=wrong or 'stuck', next=after)
        at = after
    return dict(records=records, end='stuck', next=at)


def leaders(probe):
    M = k.MetadataRequest
    answer = probe.conn.call(M[8](topics=[M.MetadataRequestTopic(name=name) for name in TOPICS], allow_auto_topic_creation=False,
                                  include_cluster_authorized_operations=False, include_topic_authorized_operations=False))
    return {(t.name, p.partition_index): p.leader_id for t in answer.topics for p in t.partitions}


def committed(probe, group):
    """(error, offset) of a group."""
    O = k.OffsetFetchRequest
    answer = probe.conn.call(O[7](group_id=group, require_stable=False, topics=[O.OffsetFetchRequestTopic(name='plain', partition_indexes=[0])]))
    if answer.error_code or not answer.topics:
        return k.error_name(answer.error_code), -1
    part = answer.topics[0].partitions[0]
    return k.error_name(part.error_code), part.committed_offset


def coordinated(broker, step, expected):
    """What a coordinator answers, asked again while it may be loading; None when it is not available."""
    deadline = time.monotonic() + LOADED_S
    while True:
        answer = step()
        if answer[0] == 'NONE' and (expected is None or answer == expected):
            return answer
        if time.monotonic() > deadline or (answer[0] != 'NONE' and DAMAGED in broker.said() and time.monotonic() > deadline - LOADED_S * 0.7):
            return None if answer[0] in ('COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR', 'COORDINATOR_LOAD_IN_PROGRESS') else answer
        time.sleep(0.05)


def look(probe, broker, before):
    """Everything that clients can see."""
    view = dict(leaders=leaders(probe), logs={}, groups={}, transactions={})
    for (topic, partition), leader in view['leaders'].items():
        if leader >= 0:
            for isolation in (k.READ_UNCOMMITTED, k.READ_COMMITTED):
                view['logs'][topic, partition, isolation] = read(probe, topic, partition, isolation)
    for number in range(GROUPS):
        name = f'group-{number}'
        view['groups'][name] = coordinated(broker, lambda n=name: committed(probe, n), before and before['groups'][name])
    for name in (*(f'txn-{number}' for number in range(TRANSACTIONAL_IDS)), b.OPEN):
        def step(n=name):
            said = probe.describe_txn(n)
            return said['error'], said['state'], int(said['pid']), said['epoch']
        view['transactions'][name] = coordinated(broker, step, before and before['transactions'][name])
    return view


# ---------------------------------------------------------------- judging

def known(template, path, byte):
    """The weakness that a flip at this place meets, if any."""
    if path.suffix == '.txnindex' and 10 <= byte % 34 < 18:
        return 'txnindex'
    if path.name.endswith('-checkpoint'):
        return 'checkpoint'
    if path.suffix == '.log' and path != max(path.parent.glob('*.log')):
        pos, data = 0, path.read_bytes()
        while pos + 12 <= byte:
            pos += 12 + struct.unpack_from('>i', data, pos + 8)[0]
        # A batch is found by its base offset and its leader epoch; neither is below the checksum.
        if byte - pos < 8:
            return 'base offset'
    return None


def is_explained(weakness, name, difference):
    """Whether a difference is one that the weakness of this file can make."""
    directory = name.partition('/')[0]
    return {'base offset': difference.startswith(f'{directory}, '), 'txnindex': difference.startswith(f'{directory}, isolation {k.READ_COMMITTED}'),
            'checkpoint': not difference.startswith(GONE)}[weakness]


def warned(said, topic, partition=None):
    """Whether the log says what was cut of a partition, with bytes, batches and offsets."""
    name = f'{topic}-' if partition is None else f'{topic}-{partition}'
    return any(CUT in line and name in line and all(word in line for word in ('bytes=', 'batches=', 'end_offset='))
               for line in said.splitlines())


def check_cuts(said, template):
    """Nothing may be cut below the recovery point that the template has noted."""
    lines = [line.split() for line in (template / 'recovery-point-offset-checkpoint').read_text().splitlines()[2:]]
    noted = {f'{topic}-{partition}': int(offset) for topic, partition, offset in lines}
    for line in said.splitlines():
        if CUT in line:
            name, end = re.search(r'partition=(\S+)', line)[1], int(re.search(r' end_offset=(\d+)', line)[1])
            if end < noted.get(name, 0):
                raise Failure(f'{name} was cut at {end}, below its recovery point {noted[name]}')


def differences(before, now, said):
    """(what is told to somebody, what nobody is told of, what was cut with a warning): sentences."""
    told, silent, cut = [], [], []
    if now['leaders'].keys() != before['leaders'].keys():
        silent.append(f'{GONE} {sorted(before["leaders"].keys() - now["leaders"].keys())}')
    told += ['offline' for leader in now['leaders'].values() if leader < 0]
    for (topic, partition, isolation), log in now['logs'].items():
        old, what = before['logs'][topic, partition, isolation], f'{topic}-{partition}, isolation {isolation}'
        is_prefix = log['records'] == old['records'][:len(log['records'])]
        if log == old:
            continue
        if not is_prefix:
            at = next((i for i, (a, b) in enumerate(zip(log['records'], old['records'])) if a != b), len(old['records']))
            silent.append(f'{what}: other records from offset {(log["records"] + old["records"])[at][0]} on')
        elif log['end'] == 'stuck':
            silent.append(f'{what}: a reader stands still at offset {log["next"]} and is not told')
        elif log['end'] != 'whole':
            told.append("reader's checksum")
        elif warned(said, topic, partition):
            cut.append(f'{what} ends at {log["next"]}, not at {old["next"]}')
        else:
            silent.append(f'{what} ends at {log["next"]}, not at {old["next"]}')
    for kind, topic in ('groups', '__consumer_offsets'), ('transactions', '__transaction_state'):
        for name, answer in now[kind].items():
            if answer is None:
                told.append('coordinator unavailable')
            elif answer != before[kind][name]:
                (cut if warned(said, topic) else silent).append(f'{name} is {answer}, not {before[kind][name]}')
    return told, silent, cut


def hashes(directory):
    return {path.relative_to(directory): hashlib.sha256(path.read_bytes()).digest()
            for path in directory.rglob('*') if path.is_file() and path.name != '.lock'}


def refused_twice(broker, before, why):
    """A refusal leaves every file alone and comes again."""
    if hashes(broker.data) != before:
        raise Failure(f'files were changed by a start that was refused: {why}')
    try:
        broker.start()
    except Refused as again:
        if str(again) == str(why):
            return 'refused', None, str(why)
        raise Failure(f'the second start says {again}, the first {why}') from None
    raise Failure(f'the second start is not refused, the first was: {why}')


def judge(options, template, name, byte, bit, before):
    """(outcome, weakness if it is a known one, what was seen) of one flip; raises Failure."""
    data = options.directory / 'round'
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(options.directory / template, data)
    content = bytearray((data / name).read_bytes())
    weakness = known(template, data / name, byte)
    content[byte] ^= 1 << bit
    (data / name).write_bytes(content)
    broker, files = Broker(options, data), hashes(data)
    try:
        try:
            probe = broker.start()
        except Refused as why:
            return refused_twice(broker, files, why)
        view = look(probe, broker, before)
        broker.stop()
        said = broker.said()
        check_cuts(said, options.directory / template)
        told, silent, cut = differences(before, view, said)
        try:
            again = look(broker.start(), broker, view)
        except Refused as why:
            raise Failure(f'the second start is refused, the first was not: {why}') from None
        broker.stop()
        check_cuts(broker.said(), options.directory / template)
    except (OSError, k.Closed) as trouble:
        raise Failure(f'no answer: {trouble!r}') from trouble
    finally:
        broker.end()
    # A format number that a flip has made is put right by a start that recovers, and not by one after a clean stop: then all is there again.
    if again not in (view, before):
        raise Failure('the second start shows something else than the first: ' + '; '.join(sum(differences(view, again, ''), [])))
    if silent:
        if weakness and all(is_explained(weakness, name, one) for one in silent):
            return 'known', weakness, silent[0]
        raise Failure('; '.join(silent))
    if cut:
        if template == 'clean':
            raise Failure('cut after a clean stop: ' + '; '.join(cut))
        return 'known', 'cut', cut[0]
    for outcome in OUTCOMES[1:4]:
        if outcome in told:
            return outcome, None, said
    return 'cut, warned' if CUT in said else 'rebuilt, warned' if REBUILT in said else 'served, warned' if ' WARN ' in said else 'served whole', None, said


def choose(options, number):
    """(kind, template, file, byte, bit) of a round; kinds take turns, and the templates with every turn."""
    numbers, kinds = random.Random(f'{options.seed}-{number}'), options.kind or list(KINDS)
    kind, turn = kinds[number % len(kinds)], number // len(kinds)
    for template in (('clean', 'killed') if turn % 2 == 0 else ('killed', 'clean')):
        root = options.directory / template
        names = sorted(str(path.relative_to(root)) for path in root.rglob('*') if path.is_file() and path.stat().st_size)
        if names := [name for name in names if re.fullmatch(KINDS[kind], name)]:
            name = numbers.choice(names)
            return kind, template, name, numbers.randrange((root / name).stat().st_size), numbers.randrange(8)
    return kind, None, None, 0, 0


def table(counts, options, reasons):
    print('| ' + ' | '.join(('file', *OUTCOMES)) + ' |')
    print('|' + '---|' * (len(OUTCOMES) + 1))
    for kind in KINDS:
        if counts[kind]:
            print('| ' + ' | '.join((kind, *(str(counts[kind][outcome] or '') for outcome in OUTCOMES))) + ' |')
    for reason, count in reasons.items():
        print(f'known, {count} times: {reason}')
    print(f'seed {options.seed}')


def templates(options):
    """What the undamaged directories show; they are made unless a replay finds them."""
    before = {}
    for name in ('clean', 'killed'):
        made = None if options.replay and (options.directory / name).exists() else make_template(options, name)
        data = options.directory / 'round'
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(options.directory / name, data)
        broker = Broker(options, data)
        try:
            before[name] = look(broker.start(), broker, made)
            broker.stop()
        finally:
            broker.end()
        if made and before[name] != made:
            raise SystemExit(f'{name}: without any damage a restart shows something else: {differences(made, before[name], "")}')
    return before


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('executable')
    parser.add_argument('directory', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--kind', action='append', choices=KINDS)
    parser.add_argument('--port', type=int, default=free_port())
    parser.add_argument('--replay')
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    before = templates(options)
    counts, reasons = collections.defaultdict(collections.Counter), collections.Counter()
    for number in range(1 if options.replay else options.rounds):
        if options.replay:
            place, byte, bit = options.replay.rsplit(':', 2)
            template, _, name = place.partition('/')
            kind, byte, bit = next(kind for kind, names in KINDS.items() if re.fullmatch(names, name)), int(byte), int(bit)
        else:
            kind, template, name, byte, bit = choose(options, number)
        if name is None:
            raise SystemExit(f'no template has a file of the kind {kind}')
        place = f'{template}/{name}:{byte}:{bit}'
        try:
            outcome, weakness, seen = judge(options, template, name, byte, bit, before[template])
        except Failure as failure:
            outcome, weakness, seen = 'FAIL', None, ''
            print(f'round {number}: {place} (file, byte, bit): {failure}\n  again: {sys.argv[0]} {options.executable} {options.directory} '
                  f"--replay '{place}'", flush=True)
        counts[kind][outcome] += 1
        if outcome == 'known':
            reasons[KNOWN[weakness]] += 1
        if outcome == 'known' or options.replay:
            print(f'round {number}: {place}: {outcome}: {seen}', flush=True)
    table(counts, options, reasons)
    sys.exit(any(count['FAIL'] for count in counts.values()))


main()
