"""Where Fencepost answers otherwise than Apache Kafka 4.4.0 on purpose, as a random conversation can meet it."""
import dataclasses
from collections.abc import Callable

BETTER = 'testing/conformance/better/'
REFUSED_SEQUENCE, WRITTEN = 'OUT_OF_ORDER_SEQUENCE_NUMBER', 'NONE'


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference that is meant: where that is said, when it is met, and whether the brokers' states differ from then on."""
    name: str
    said: str
    met: Callable
    parts: bool


@dataclasses.dataclass(frozen=True)
class Case:
    """Two error codes in the same place of two answers."""
    step: object
    path: tuple
    kafka: str
    fencepost: str
    sequence: object

    def batch(self):
        """The batch that a Produce was refused for; nothing where it is another request."""
        return list(self.step.about.values())[self.path[3]] if self.step.api == 'Produce' else None


def late_commit(case):
    return case.step.api == 'EndTxn' and case.step.version >= 5 and case.step.fields['committed'] and \
        (case.kafka, case.fencepost) == ('INVALID_TXN_STATE', 'PRODUCER_FENCED')


def end_without_epoch(case):
    return case.step.api == 'EndTxn' and case.step.version >= 5 and case.step.fields['producer_epoch'] == -1 and \
        case.kafka in ('NONE', 'INVALID_TXN_STATE') and case.fencepost == 'PRODUCER_FENCED'


def negative_epoch(case):
    batch = case.batch()
    return batch is not None and batch.pid != -1 and batch.epoch < 0 and case.fencepost == 'INVALID_RECORD'


def no_producer_id(case):
    batch = case.batch()
    return batch is not None and batch.pid == -1 and batch.transactional and case.fencepost == 'INVALID_RECORD'


def lowest_sequence(case):
    """The right batch, plain or not, which Kafka holds up for a transactional one that it has refused, or has had already, of whichever epoch."""
    batch = case.batch()
    if batch is None or (case.kafka, case.fencepost) != (REFUSED_SEQUENCE, WRITTEN):
        return False
    index = list(case.step.about)[case.path[3]]
    if not case.sequence.may_follow(batch, index):
        return False
    before = (step.about[index] for step in case.sequence.past[:-1] if step.api == 'Produce' and index in step.about)
    return any(b.transactional and b.pid == batch.pid and b.sequence < batch.sequence for b in before)


def older_duplicate(case):
    """A batch that is written already, and not the newest: after a restart Kafka knows the newest alone."""
    batch = case.batch()
    if batch is None or not case.sequence.restarted or (case.kafka, case.fencepost) != (REFUSED_SEQUENCE, WRITTEN):
        return False
    index = list(case.step.about)[case.path[3]]
    return batch.sequence + batch.count < case.sequence.next.get((batch.pid, batch.epoch, index), 0)


def exhausted(case):
    return case.step.api == 'InitProducerId' and case.kafka == 'UNKNOWN_SERVER_ERROR' and case.sequence.exhausted and \
        case.fencepost in ('NONE', 'PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH')


def replaced(case):
    """A producer id that a rotation has replaced, named by a request of version 2."""
    first = {'EndTxn': 5, 'Produce': 12, 'TxnOffsetCommit': 5, 'AddPartitionsToTxn': 4}
    if case.step.version < first.get(case.step.api, 100):
        return False
    has_rotated = any(len({pid for pid, _ in case.sequence.pairs[name]}) > 1 for name in case.sequence.names)
    return has_rotated and case.kafka == 'INVALID_PRODUCER_ID_MAPPING' and case.fencepost in ('PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH')


def last_epoch(case):
    """A retry after a restart; or one more of a rotation, which Kafka answers once."""
    step = case.step
    is_again = case.sequence.restarted or case.sequence.exhausted
    return step.api == 'InitProducerId' and is_again and case.fencepost == 'NONE' and \
        case.kafka == ('PRODUCER_FENCED' if step.version >= 4 else 'INVALID_PRODUCER_EPOCH') and \
        (step.fields['producer_id'], step.fields['producer_epoch']) in case.sequence.pairs[step.name]


def negative_marker(case):
    return case.step.api == 'WriteTxnMarkers' and case.kafka == 'UNKNOWN_SERVER_ERROR' and \
        case.fencepost in ('INVALID_REQUEST', 'UNKNOWN_TOPIC_OR_PARTITION')


KNOWN = (
    Known('a commit that comes after the abort', 'docs/transactions.md, KAFKA-20785', late_commit, parts=False),
    Known('an end with epoch -1 where the epoch is 0', 'docs/transactions.md, coordinator trap 28', end_without_epoch, parts=False),
    Known('a batch with a negative epoch', BETTER + 'idem-negative-epoch.json', negative_epoch, parts=True),
    Known('a transactional batch without a producer id', BETTER + 'idem-txn-without-producer-id.json', no_producer_id, parts=True),
    Known('the sequence that is waited for', BETTER + 'idem-txn-refused-sequence-then-right-one.json, idem-txn-late-retry-then-next.json',
          lowest_sequence, parts=True),
    Known('a batch again that was written before a restart', 'testing/conformance/scenarios/idempotence.py, idem-restart-older-duplicates',
          older_duplicate, parts=False),
    Known('the legal retry at the last epoch', 'docs/transactions.md, coordinator trap 10', exhausted, parts=True),
    Known('the holder of a replaced producer id', 'docs/decisions/0011-a-replaced-producer-id-is-fenced.md', replaced, parts=False),
    Known('the last epoch after a restart', 'docs/transactions.md, coordinator trap 9', last_epoch, parts=True),
    Known('a marker with a negative producer id or epoch', BETTER + 'marker-negative-pid.json, marker-negative-epoch.json', negative_marker,
          parts=False),
)


def explained(step, sequence, found):
    """(the differences that nothing explains, the known ones that explain the others)"""
    reasons = {}
    for path, kafka, fencepost in found:
        if path and path[-1] in ('error_code', 'partition_error_code'):
            case = Case(step, path, kafka, fencepost, sequence)
            reasons |= {path[:-1]: known for known in KNOWN if known.met(case)}
    # What stands beside a code goes with it.
    return [one for one in found if one[0][:-1] not in reasons], set(reasons.values())
