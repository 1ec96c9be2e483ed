#!/usr/bin/env python3
"""The Python worker that is killed, and what goes round it.

  crash.py fill   --client C --bootstrap B --source T --target T --first N --count N
  crash.py work   --client C --bootstrap B --source T --target T --group G --txn ID [--instance ID]
  crash.py verify --client C --bootstrap B --source T --target T --group G

`fill` adds numbered records to the source. `work` copies until the end of the source is reached, in transactions that carry the
consumer's offsets, and says after each commit how many records this process has committed; any error ends it with status 1, and the
next worker goes on from what was committed. `verify` compares what a read_committed reader sees with the source.
"""
import argparse
import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'conformance' / 'clients'))

import python_eos as eos  # noqa: E402

BATCH = 5
WORK_S = 0.005  # the length of a transaction, so that a kill finds one open more often than not
SESSION_MS = 6000
CALL_S = 10  # librdkafka can wait for a long time after its broker was gone; the next worker is quicker


async def fill(client, args):
    try:
        await client.topics(args.source, args.target)
    except Exception as e:  # noqa: BLE001 - each client has its own class for it
        if 'exist' not in str(e).lower():
            raise
    await client.fill(args.source, [b'%08d' % n for n in range(args.first, args.first + args.count)])
    return 'filled'


class ConfluentWorker:
    """librdkafka: the calls block."""

    def __init__(self, client, args):
        self.args = args
        # With the default, librdkafka 2.16 throws away its handle of the coordinator when the only broker is gone, and can wait for it for ever.
        client.conf['metadata.recovery.strategy'] = 'none'
        settings = {**client.conf, 'group.id': args.group, 'enable.auto.commit': False, 'auto.offset.reset': 'earliest',
                    'isolation.level': 'read_committed', 'session.timeout.ms': SESSION_MS, 'heartbeat.interval.ms': 1000}
        if args.instance:
            settings['group.instance.id'] = args.instance
        self.consumer = client.ck.Consumer(settings)
        self.producer = client.ck.Producer({**client.conf, 'transactional.id': args.txn, 'transaction.timeout.ms': 60000})

    async def start(self):
        self.producer.init_transactions(eos.PATIENCE_S)
        self.consumer.subscribe([self.args.source])

    async def poll(self):
        batch = []
        for m in self.consumer.consume(BATCH, 0.5):
            if not m.error():
                batch.append((m.partition(), m.value()))
            elif not m.error().retriable():
                raise eos.Failure('consume: %s' % m.error())
        return batch

    async def copy(self, batch):
        self.producer.begin_transaction()
        for partition, value in batch:
            self.producer.produce(self.args.target, value, partition=partition)
        at = [p for p in self.consumer.position(self.consumer.assignment()) if p.offset >= 0]
        self.producer.send_offsets_to_transaction(at, self.consumer.consumer_group_metadata(), CALL_S)
        time.sleep(WORK_S)
        self.producer.commit_transaction(CALL_S)

    async def at_end(self):
        assigned = self.consumer.assignment()
        if len(assigned) < eos.PARTITIONS:
            return False
        committed = self.consumer.committed(assigned, CALL_S)
        return all(p.offset >= self.consumer.get_watermark_offsets(p, CALL_S)[1] for p in committed)

    async def stop(self):
        self.consumer.close()


class AiokafkaWorker:
    """aiokafka: pure Python."""

    def __init__(self, client, args):
        self.args = args
        self.consumer = client.ak.AIOKafkaConsumer(
            **client.conf, group_id=args.group, group_instance_id=args.instance, enable_auto_commit=False, auto_offset_reset='earliest',
            isolation_level='read_committed', session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000)
        self.producer = client.ak.AIOKafkaProducer(**client.conf, transactional_id=args.txn, transaction_timeout_ms=60000)

    async def start(self):
        await self.producer.start()
        self.consumer.subscribe([self.args.source])
        await self.consumer.start()

    async def poll(self):
        found = await self.consumer.getmany(timeout_ms=500, max_records=BATCH)
        return [(m.partition, m.value) for ms in found.values() for m in ms]

    async def copy(self, batch):
        await self.producer.begin_transaction()
        sent = [await self.producer.send(self.args.target, value, partition=partition) for partition, value in batch]
        at = {p: await self.consumer.position(p) for p in self.consumer.assignment()}
        await self.producer.send_offsets_to_transaction(at, self.args.group)
        await asyncio.gather(*sent)
        await asyncio.sleep(WORK_S)
        await self.producer.commit_transaction()

    async def at_end(self):
        assigned = self.consumer.assignment()
        if len(assigned) < eos.PARTITIONS:
            return False
        ends = await self.consumer.end_offsets(assigned)
        return all([(await self.consumer.committed(p) or 0) >= ends[p] for p in assigned])

    async def stop(self):
        await self.consumer.stop()
        await self.producer.stop()


async def work(client, args):
    worker = {'confluent': ConfluentWorker, 'aiokafka': AiokafkaWorker}[args.client](client, args)
    await worker.start()
    committed = 0
    while True:
        batch = await worker.poll()
        if batch:
            await worker.copy(batch)
            committed += len(batch)
            print('committed %d' % committed, flush=True)
        elif await worker.at_end():
            await worker.stop()
            return 'end'


async def verify(client, args):
    wanted = await client.read(args.source, 'read_uncommitted')
    seen = await client.read(args.target, 'read_committed')
    flat = [v for vs in seen.values() for v in vs]
    lost = len({v for vs in wanted.values() for v in vs} - set(flat))
    twice = len(flat) - len(set(flat))
    said = '%d records, %d lost, %d twice, order %s' % (len(flat), lost, twice, 'right' if seen == wanted else 'wrong')
    if seen != wanted:
        raise eos.Failure(said)
    lag = await client.lag(args.group, args.source)
    if lag:
        raise eos.Failure('committed offsets are %d behind' % lag)
    return said


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('step', choices=('fill', 'work', 'verify'))
    ap.add_argument('--client', choices=('confluent', 'aiokafka'), required=True)
    for name in ('bootstrap', 'source', 'target', 'group', 'txn', 'instance'):
        ap.add_argument('--' + name)
    ap.add_argument('--first', type=int, default=0)
    ap.add_argument('--count', type=int, default=0)
    args = ap.parse_args()

    async def run():
        client = {'confluent': eos.Confluent, 'aiokafka': eos.Aiokafka}[args.client](args.bootstrap)
        return await asyncio.wait_for({'fill': fill, 'work': work, 'verify': verify}[args.step](client, args), 3 * eos.PATIENCE_S)
    try:
        print(asyncio.run(run()), flush=True)
    except Exception as e:  # noqa: BLE001 - whatever goes wrong ends this step
        print('FAIL %s %s: %s: %s' % (args.client, args.step, type(e).__name__, e), flush=True)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
