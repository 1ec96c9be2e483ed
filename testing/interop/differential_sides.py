"""Two brokers that are told the same: a request with places for what each of them has of its own, and answers without it.

A request is made of plain values; in it a `Pid`, a `Batch` and `TOPIC_ID` stand for a producer id, records and a topic id. In an answer producer ids
are named by their order of appearance, and what may differ between two brokers (clocks, leader and coordinator epochs, the words of messages)
is left out.
"""
import dataclasses
import pathlib
import sys
import time
import uuid

CONFORMANCE = pathlib.Path(__file__).resolve().parents[1] / 'conformance'
sys.path[:0] = [str(CONFORMANCE), str(CONFORMANCE / 'scenarios')]

import kprobe as k  # noqa: E402
from _ask import ask, topic_id  # noqa: E402

COME_AGAIN = {'CONCURRENT_TRANSACTIONS', 'COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR', 'NOT_ENOUGH_REPLICAS',
              'NOT_LEADER_OR_FOLLOWER'}
# How long a request is sent again, and how long a transaction may take to complete.
PATIENCE_S, AGAIN_S = 8, 0.005
CLOSED, NO_ANSWER = 'the connection is closed', 'no answer'
NOT_COMPARED = {'log_append_time_ms', 'leader_epoch', 'current_leader_epoch', 'committed_leader_epoch', 'transaction_start_time_ms', 'last_timestamp',
                'current_leader', 'node_endpoints', 'error_message', 'batch_index_error_message', 'coordinator_epoch', 'timestamp'}
PRODUCER_IDS = {'producer_id', 'ongoing_txn_producer_id'}


@dataclasses.dataclass(frozen=True, order=True)
class Pid:
    """The producer id that was the so many'th to appear; no broker has given out number -1."""
    index: int

    def __repr__(self):
        return f'P{self.index}'


UNKNOWN = Pid(-1)
UNKNOWN_ID = 987_654_321


class TopicId:
    """The id of the sequence's topic."""

    def __repr__(self):
        return 'TOPIC_ID'


TOPIC_ID = TopicId()


@dataclasses.dataclass(frozen=True)
class Batch:
    """Records of a producer."""
    pid: Pid | int
    epoch: int
    sequence: int
    count: int
    transactional: bool
    timestamp: int = dataclasses.field(repr=False)


class Side:
    """A broker, for one sequence: its producer ids, its topic id, two connections."""

    def __init__(self, name, node, topic):
        self.name, self.node, self.topic = name, node, topic
        self.pids, self.topic_id, self.probes = [], None, []
        self.connect()

    def connect(self):
        """Opens the connections anew."""
        self.probes = [self.node.probe() for _ in range(2)]

    def make_topic(self, partitions):
        probe = self.probes[0]
        error = probe.create_topic(self.topic, partitions)
        assert error == 'NONE' and probe.wait_topic(self.topic, partitions), (self.name, error)
        self.topic_id = topic_id(probe, self.topic)

    def close(self):
        for probe in self.probes:
            probe.conn.close()

    def ask(self, connection, api, version, fields):
        """The answer, comparable; a request that is told to come again does so, for a while."""
        given, deadline = self.given(fields), time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self.seen(ask(self.probes[connection], api, version, **given))
            except (k.Closed, OSError) as error:
                self.probes[connection] = self.node.probe()
                return NO_ANSWER if isinstance(error, TimeoutError) else CLOSED
            if not COME_AGAIN & errors(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(AGAIN_S)

    def given(self, value):
        """A request's values, as this broker is sent them."""
        match value:
            case Pid():
                return self.pids[value.index] if value != UNKNOWN else UNKNOWN_ID
            case TopicId():
                return self.topic_id
            case Batch():
                return k.batch([b'%d' % n for n in range(value.count)], self.given(value.pid), value.epoch, value.sequence,
                               transactional=value.transactional, timestamp=value.timestamp)
            case dict():
                return {name: self.given(v) for name, v in value.items()}
            case list():
                return [self.given(v) for v in value]
            case _:
                return value

    def seen(self, value, name=''):
        """An answer's values, as the other broker could have given them."""
        if name in PRODUCER_IDS:
            return self.named(value)
        if name == 'records' and not isinstance(value, list):
            return value and [self.seen(batch) for batch in k.parse_batches(value)]
        match value:
            case k.Pid():
                return self.named(value)
            case dict():
                return {n: self.seen(v, n) for n, v in value.items() if n not in NOT_COMPARED}
            case list():
                values = [self.seen(v) for v in value]
                return sorted(values, key=repr) if values and isinstance(values[0], dict | int) else values
            case uuid.UUID():
                return TOPIC_ID if value == self.topic_id else value
            case _:
                return value

    def named(self, pid):
        """A producer id by its order of appearance. 0 is what an answer with an error says, and no broker's id here."""
        if pid in (-1, 0):
            return pid
        if pid == UNKNOWN_ID:
            return UNKNOWN
        if pid not in self.pids:
            self.pids.append(int(pid))
        return Pid(self.pids.index(pid))


def errors(answer):
    """Every error code of an answer."""
    if isinstance(answer, dict):
        own = {v for n, v in answer.items() if n.endswith('error_code')}
        return own.union(*(errors(v) for v in answer.values()))
    return set().union(*(errors(v) for v in answer)) if isinstance(answer, list) else set()


def differences(one, other, path=()):
    """Where two answers differ: (path, the one's value, the other's)."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for name in one for found in differences(one[name], other[name], (*path, name))]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [found for n, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, (*path, n))]
    return [] if one == other else [(path, one, other)]
