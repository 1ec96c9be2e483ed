#!/usr/bin/env python3
"""Two-phase commit as far as Apache Kafka 4.4.0 has it (KIP-939): what InitProducerId 6 answers, and what follows.

  two_phase.py --bootstrap HOST:PORT --enabled yes|no

The broker runs with `unstable.api.versions.enable=true`, without which version 6 closes the connection, and `transaction.two.phase.commit.enable`
as --enabled says. Each answer is compared with that of Apache Kafka 4.4.0; the exit status is 1 when one differs.
"""
import argparse
import difflib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from kprobe import InitProducerIdRequest  # noqa: E402

FOREVER, TOPIC = 2**31 - 1, 'two-phase'


def init(probe, name, enable=False, keep=False, timeout_ms=60_000, pid=-1, epoch=-1):
    """(error, whether there is a producer id, epoch, the pair of the open transaction, producer id)"""
    def step():
        told = probe.conn.call(InitProducerIdRequest[6](
            transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=pid, producer_epoch=epoch, enable2_pc=enable,
            keep_prepared_txn=keep))
        pair = told.ongoing_txn_producer_id, told.ongoing_txn_producer_epoch
        return k.error_name(told.error_code), told.producer_id >= 0, told.producer_epoch, pair, told.producer_id
    return probe._retry(step)


def answers(probe):
    """What was asked: what was answered."""
    seen = {}
    for name, fields in (('plain', {}), ('enable', dict(enable=True)), ('keep', dict(keep=True)), ('both', dict(enable=True, keep=True)),
                         ('enable, no timeout', dict(enable=True, timeout_ms=0)), ('keep, no timeout', dict(keep=True, timeout_ms=0)),
                         ('plain, for ever', dict(timeout_ms=FOREVER)), ('enable, for ever', dict(enable=True, timeout_ms=FOREVER))):
        seen[name] = init(probe, name.replace(', ', '-').replace(' ', '-'), **fields)[:4]
    for name, fields in (('no id, enable', dict(enable=True)), ('no id, keep', dict(keep=True))):
        seen[name] = init(probe, None, **fields)[:4]
    for name, fields in (('empty id, enable', dict(enable=True)), ('empty id, keep', dict(keep=True))):
        seen[name] = init(probe, '', **fields)[:4]
    return seen


def produce(probe, name, pid, epoch, value):
    while (error := probe.produce(TOPIC, k.batch([value], pid, epoch, 0, transactional=True), txn_id=name, version=12)[0]) in (
            'CONCURRENT_TRANSACTIONS', 'NOT_ENOUGH_REPLICAS'):
        time.sleep(0.02)
    return error


def open_transactions(probe):
    """An open transaction of a two-phase commit: kept, asked for again, ended."""
    seen, name = {}, 'open'
    error, _, epoch, _, pid = init(probe, name, enable=True)
    if error != 'NONE':
        return seen
    seen['produce'] = produce(probe, name, pid, epoch, b'one')
    seen['timeout'] = probe.describe_txn(name)['timeout_ms']
    seen['keep over it'] = init(probe, name, enable=True, keep=True)[:4]
    seen['still'] = probe.describe_txn(name)['state']
    seen['commit'] = probe.end_txn(name, pid, epoch, True, version=5)[0]
    seen['committed'] = probe.wait_txn(name, ['CompleteCommit'])['state']
    error, _, epoch, _, pid = init(probe, name, enable=True)
    seen['again'] = error, produce(probe, name, pid, epoch, b'two')
    # Without keepPreparedTxn the open transaction is aborted, as that of any other producer.
    seen['over it'] = init(probe, name, enable=True)[:2]
    seen['aborted'] = probe.end_txn(name, pid, epoch, True, version=5)[0]
    # A producer without two-phase commit takes the id over, with a timeout again.
    seen['plain over it'] = init(probe, name)[:2]
    seen['its timeout'] = probe.describe_txn(name)['timeout_ms']
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('--enabled', choices=['yes', 'no'], required=True)
    options = parser.parse_args()
    host, _, port = options.bootstrap.rpartition(':')
    probe = k.Probe(host, int(port))
    if probe.create_topic(TOPIC, 1) != 'NONE' or not probe.wait_topic(TOPIC):
        raise SystemExit('no topic')
    probe.find_coordinator('plain')
    seen = answers(probe) | open_transactions(probe)
    lines = [f'{what}: {told}' for what, told in seen.items()]
    wanted = (pathlib.Path(__file__).resolve().parent / f'two_phase_{options.enabled}.txt').read_text().splitlines()
    differences = [f'FAIL two-phase commit: {line}' for line in difflib.ndiff(wanted, lines) if line[0] in '+-']
    print('\n'.join(differences or [f'OK two-phase commit, enabled {options.enabled}: {len(lines)} answers as of Apache Kafka 4.4.0']))
    return 1 if differences else 0


if __name__ == '__main__':
    sys.exit(main())
