"""The holder of an exhausted producer id after a rotation: what the coordinator tells it, step by step of its successor."""
import kprobe as k
from scenario import scenario
from _coord import Log, Tx, exhausted, new_topic, refusal

LAST = 32766  # the last epoch that a client gets
MS = 500


def old_instance(r, tv, timeout_ms=60000):
    """An instance with an open transaction at the last epoch, and its successor, which has no pair yet."""
    assert r.p.init_pid(r.name('first'))[0] == 'NONE'  # a broker that has just started may have no producer ids yet
    old, new = Tx.__new__(Tx), Tx.__new__(Tx)
    name, pid = exhausted(r)
    topic = new_topic(r, partitions=3)
    for t in (old, new):
        t.r, t.tv, t.topic, t.id, t.seq, t.timeout_ms = r, tv, topic, name, 0, timeout_ms
    error, old.pid, old.epoch = old.init(pid, LAST - 1)
    assert (error, old.epoch) == ('NONE', LAST), (error, old.epoch)
    return old.open(), new


def one_code(answer):
    codes = sorted(set(answer.values())) if isinstance(answer, dict) else [answer]
    return codes[0] if len(codes) == 1 else codes


def ask_all(r, old, when):
    """Each request by the old pair that names a transactional id, and an end that changes nothing last."""
    p, held = r.p, (old.id, old.pid, old.epoch)
    group, offsets = r.name('g'), {(old.topic, 0): 1}
    assert p.find_coordinator(group, k.GROUP)[0] == 'NONE'

    def note(what, answer):
        r.note('%s, %s' % (when, what), answer)

    for version in (1, 3):
        note('AddPartitionsToTxn %d' % version, old.add([1], version=version))
    for verify in (False, True):
        answer = p.add_partitions_batch([held + (verify, {old.topic: [1]})])
        note('AddPartitionsToTxn 5, verify only: %s' % verify, one_code(answer))
    note('AddOffsetsToTxn', p.add_offsets(*held, group))
    for version in (3, 4, 5):
        note('TxnOffsetCommit %d' % version, one_code(p.txn_offset_commit(old.id, group, *held[1:], offsets, version=version)))
    for partition, which in ((0, 'its own partition'), (2, 'another partition')):
        for version in (11, 12):
            note('Produce %d to %s' % (version, which), old.send(partition, seq=1 if partition == 0 else 0, version=version)[0])
    for version in (1, 4, 5):
        note('commit, EndTxn %d' % version, refusal(old.end(True, version=version)))
    note('commit at an older epoch', refusal(old.end(True, 7, version=5)))
    note('abort, EndTxn 4', refusal(old.end(False, version=4)))
    note('abort, EndTxn 5', refusal(old.end(False, version=5)))
    note('commit by a stranger', refusal(old.end(True, pid=1 << 40, version=5)))


def by_new_instance(tv):
    def run(r):
        old, new = old_instance(r, tv)
        r.note('old', [old.pid, old.epoch])
        log = Log(r, old.id)
        r.note('fence', refusal(r.p.init_pid_once(new.id)))
        old.wait('CompleteAbort')
        ask_all(r, old, 'aborted')
        error, new.pid, new.epoch = new.init()
        r.note('successor', [error, new.pid, new.epoch])
        ask_all(r, old, 'successor')
        r.note('successor, InitProducerId', refusal(old.init(old.pid, old.epoch)))
        new.open(1)
        ask_all(r, old, 'successor in a transaction')
        r.note('successor in a transaction, InitProducerId', refusal(old.init(old.pid, old.epoch)))
        r.note('state', new.state())
        new.finish()
        ask_all(r, old, 'successor has committed')
        r.note('successor has committed, InitProducerId', refusal(old.init(old.pid, old.epoch)))
        r.note('transaction log', [(w['state'], w['pid'], w['epoch'], w.get('previous_pid'), w.get('next_pid')) for w in log.read()])
    return run


for _tv in (1, 2):
    scenario('txn-exhausted-old-instance-tv%d' % _tv,
             'a producer id that a new instance rotated away: each request of its holder, until the successor has committed (TV%d)' % _tv
             )(by_new_instance(_tv))


@scenario('timeout-exhausted-old-instance', 'a producer id that a timeout rotated away: its holder commits once a successor has its pair')
def _(r):
    old, new = old_instance(r, 2, MS)
    r.note('old', [old.pid, old.epoch])
    old.wait('CompleteAbort')
    r.note('aborted, commit', refusal(old.end(True)))
    error, new.pid, new.epoch = new.init()
    r.note('successor', [error, new.pid, new.epoch])
    r.note('successor, commit', refusal(old.end(True)))
    r.note('successor, abort', refusal(old.end(False)))


@scenario('txn-restart-exhausted-old-instance', 'the same after restarts: what the coordinator remembers of a producer id that was rotated away',
          needs=('restart',))
def _(r):
    old, new = old_instance(r, 2, 900000)
    r.note('old', [old.pid, old.epoch])
    assert r.p.init_pid_once(new.id)[0] == 'CONCURRENT_TRANSACTIONS'
    old.wait('CompleteAbort')
    error, new.pid, new.epoch = new.init()
    r.note('successor', [error, new.pid, new.epoch])
    for step in ('successor', 'successor in a transaction', 'successor has committed'):
        if step == 'successor in a transaction':
            new.open(1)
        if step == 'successor has committed':
            new.finish()
        r.restart(step != 'successor in a transaction')
        assert r.p.find_coordinator(old.id)[0] == 'NONE'
        k.Probe._retry(lambda: r.p.list_txns()[0], 60)
        r.note(step + ', commit', refusal(old.end(True)))
        r.note(step + ', add', old.add([1]))
        r.note(step + ', InitProducerId', refusal(old.init(old.pid, old.epoch)))
