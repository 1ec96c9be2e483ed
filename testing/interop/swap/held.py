"""Transactions that are open over a swap, by a client whose every field is in our hands."""
import time

import kprobe as k

TOPIC, GROUP = 'held', 'held-group'
PARTITIONS = (0, 1)
TIMEOUT_MS = 600_000
# What a program that has just started may need until its coordinators are loaded.
ANSWER_S = 60
STALE = {'INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'}


class Outcome:
    """What a transaction came to; one that nobody ended was aborted."""
    committed = False


class Txn:
    """One transactional id under one version of the protocol."""

    def __init__(self, name, version, sent):
        self.name, self.version, self.sent = name, version, sent
        self.id = self.epoch = None
        self.sequences, self.last, self.outcome = {}, {}, Outcome()

    def init(self, p):
        error, self.id, self.epoch = p.init_pid(self.name, TIMEOUT_MS)
        assert error == 'NONE', (self.name, error)
        self.sequences = {}

    def send(self, p, partition, values):
        """Adds records to the transaction."""
        if self.version == 1:
            added = p.add_partitions(self.name, self.id, self.epoch, {TOPIC: [partition]})
            assert set(added.values()) == {'NONE'}, (self.name, added)
        first = self.sequences.get(partition, 0)
        batch = k.batch([v.encode() for v in values], self.id, self.epoch, first, transactional=True)
        answer = self.produce(p, partition, batch)
        assert answer[0] == 'NONE', (self.name, answer)
        self.sequences[partition] = first + len(values)
        self.last[partition] = (batch, answer[1])
        self.sent[partition] += [(v, self.outcome) for v in values]

    def produce(self, p, partition, batch):
        return p.produce(TOPIC, batch, partition, txn_id=self.name, version=12 if self.version == 2 else 9)

    def send_again(self, p, partition):
        """The last batch a second time: it is known, and answered as the first time."""
        batch, base = self.last[partition]
        end = p.hw(TOPIC, partition)
        answer = self.produce(p, partition, batch)
        assert answer[:2] == ('NONE', base), (self.name, 'sent again', answer, base)
        assert p.hw(TOPIC, partition) == end, (self.name, 'written twice')

    def offsets(self, p, offset):
        if self.version == 1:
            error = p.add_offsets(self.name, self.id, self.epoch, GROUP)
            assert error == 'NONE', (self.name, error)
        answer = p.txn_offset_commit(self.name, GROUP, self.id, self.epoch, {(TOPIC, self.version - 1): offset},
                                     version=5 if self.version == 2 else 3)
        assert set(answer.values()) == {'NONE'}, (self.name, answer)

    def end(self, p, commit):
        error, id_, epoch = p.end_txn(self.name, self.id, self.epoch, commit, version=5 if self.version == 2 else 4)
        assert error == 'NONE', (self.name, error)
        if self.version == 2:
            assert (id_, epoch) == (self.id, self.epoch + 1), (self.name, id_, epoch, self.epoch)
            self.epoch, self.sequences = epoch, {}
        # The answer comes before the markers are written.
        state = p.wait_txn(self.name, ('CompleteCommit', 'CompleteAbort'), ANSWER_S)
        assert state['state'] == ('CompleteCommit' if commit else 'CompleteAbort') and not state['partitions'], state
        self.outcome.committed, self.outcome = commit, Outcome()


class Held:
    """Two transactions that go on after each swap, and one that is fenced then."""

    def __init__(self, random):
        self.random = random
        # Everything that was sent, in order for each partition, with what became of it.
        self.sent = {partition: [] for partition in PARTITIONS}
        self.goes_on = [Txn('held-1', 1, self.sent), Txn('held-2', 2, self.sent)]
        self.fenced = Txn('held-fenced', 2, self.sent)
        self.counts, self.offset, self.said = [0, 0, 0], {}, ''

    def open(self, p, swap):
        self.expected_offset(p)
        for txn in [*self.goes_on, self.fenced]:
            if txn.id is None or txn is self.fenced:
                txn.init(p)
            for partition in PARTITIONS:
                txn.send(p, partition, ['%s %d %d' % (txn.name, swap, n) for n in range(self.random.randint(1, 4))])
        for txn in self.goes_on:
            txn.offsets(p, swap + 1)

    def view(self, p):
        """What a client is told of all of this."""
        partitions = {n: (p.list_offset(TOPIC, k.EARLIEST, n), p.list_offset(TOPIC, k.LATEST, n), p.lso(TOPIC, n),
                          p.describe_producers(TOPIC, n)) for n in PARTITIONS}
        transactions = [p.describe_txn(txn.name) for txn in [*self.goes_on, self.fenced]]
        p.find_coordinator(GROUP, k.GROUP)
        offsets = [p.offset_fetch(GROUP, {TOPIC: list(PARTITIONS)}, stable) for stable in (False, True)]
        return partitions, transactions, offsets

    def until_view(self, node, before):
        """Waits until the program that has been started tells the same; answers how many seconds that took."""
        began, now = time.time(), None
        while time.time() < began + ANSWER_S:
            try:
                now = self.view(node.probe())
            except (OSError, k.Closed):
                pass
            if now == before:
                unstable = {error for error, _ in now[2][1].values()}
                assert unstable == {'UNSTABLE_OFFSET_COMMIT'}, unstable
                return time.time() - began
            time.sleep(0.05)
        raise AssertionError('before:\n%s\nunder %s:\n%s' % (before, node.program, now))

    def go_on(self, p, swap):
        outcomes = []
        for txn in self.goes_on:
            commit = self.random.random() < 0.6
            for partition in PARTITIONS:
                txn.send_again(p, partition)
                txn.send(p, partition, ['%s %d went on' % (txn.name, swap)])
            txn.end(p, commit)
            outcomes.append('%s %s' % (txn.name, 'committed' if commit else 'aborted'))
            self.counts[0 if commit else 1] += 1
            if commit:
                self.offset[txn.version - 1] = swap + 1
        self.fence(p)
        self.settled(p)
        self.said = ', '.join(outcomes)

    def fence(self, p):
        """The next instance of the third producer: the old one's transaction aborts, and it may not go on."""
        txn, old = self.fenced, (self.fenced.id, self.fenced.epoch)
        late = k.batch([b'too late'], *old, txn.sequences[0], transactional=True)
        txn.init(p)
        assert (txn.id, txn.epoch) > old, (txn.id, txn.epoch, old)
        answer = txn.produce(p, 0, late)
        assert answer[0] in STALE, ('a fenced producer', answer)
        txn.outcome = Outcome()
        self.counts[2] += 1

    def settled(self, p):
        """Nothing is open any more: the stable offset is at the end, the offsets are known."""
        deadline = time.time() + ANSWER_S
        while any(p.lso(TOPIC, n) != p.hw(TOPIC, n) for n in PARTITIONS):
            assert time.time() < deadline, 'the last stable offset stands still'
            time.sleep(0.02)
        self.expected_offset(p)

    def expected_offset(self, p):
        wanted = {(TOPIC, n): ('NONE', self.offset.get(n, -1)) for n in PARTITIONS}
        p.find_coordinator(GROUP, k.GROUP)
        deadline = time.time() + ANSWER_S
        while (found := p.offset_fetch(GROUP, {TOPIC: list(PARTITIONS)}, True)) != wanted:
            assert time.time() < deadline, ('offsets of a group', found, wanted)
            time.sleep(0.02)

    def committed(self):
        """What must be read of each partition, in order."""
        return {n: [value for value, outcome in sent if outcome.committed] for n, sent in self.sent.items()}

    def summary(self):
        return '%d open transactions committed, %d aborted, %d fenced' % tuple(self.counts)
