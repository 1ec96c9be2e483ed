"""What is asked of every client, and how the outcome is judged."""
import asyncio
import time

from contract import END, PATIENCE_S, Broken, Record


async def run(client, scope, capability):
    if capability in ('classic', 'consumer'):
        return await group(client, scope, capability)
    if capability == 'admin':
        return await client.admin(scope)
    return await {'produce': produce, 'idempotent': idempotent, 'commit': commit, 'abort': abort,
                  'fencing': fencing, 'offsets': offsets}[capability](client, scope)


def made(client, prefix, count, partitions):
    return [Record(i % partitions, 'k%d' % i, '%s%d' % (prefix, i), 'h' if client.one_header else 'h%d' % i) for i in range(count)]


async def create(client, partitions, *topics):
    """Makes topics and waits a moment: with Apache Kafka a broker hears of them later than the controller answers."""
    for topic in topics:
        await client.topic(topic, partitions)
    await asyncio.sleep(0.3)


async def send(client, topic, records, **options):
    producer = await client.producer(**options)
    await producer.send(topic, records)
    await producer.close()


async def seal(client, topic, partitions):
    await send(client, topic, [Record(p, 'k', END, 'h') for p in range(partitions)])


def short(records):
    values = [r.value for r in records]
    return '%d records %s%s' % (len(values), values[:12], '…' if len(values) > 12 else '')


async def holds(client, topic, partitions, committed, sent):
    read = await client.read(topic, partitions, committed)
    for p, records in enumerate(read):
        wanted = [r for r in sent if r.partition == p]
        places = [r.offset for r in records]
        if places != sorted(set(places)):
            raise Broken('%s-%d: offsets %s' % (topic, p, places))
        if records != wanted:
            raise Broken('%s-%d %s: wanted %s, read %s' % (topic, p, 'read_committed' if committed else '', short(wanted), short(records)))


async def produce(client, topic):
    await create(client, 3, topic)
    sent = []
    for codec in client.codecs:
        records = made(client, codec + '-', 60, 3)
        await send(client, topic, records, codec=codec)
        sent += records
    await seal(client, topic, 3)
    await holds(client, topic, 3, False, sent)
    return ', '.join(client.codecs)


async def idempotent(client, topic):
    await create(client, 3, topic)
    producer = await client.producer(idempotent=True)
    sent = made(client, 'v', 3000, 3)
    for first in range(0, len(sent), 300):
        await producer.send(topic, sent[first:first + 300])
    await producer.close()
    await seal(client, topic, 3)
    await holds(client, topic, 3, True, sent)


async def transact(producer, topics, records, commits):
    await producer.begin()
    for topic in topics:
        await producer.send(topic, records)
    await (producer.commit() if commits else producer.abort())


async def transactions(client, scope, outcomes):
    count, partitions = client.reach
    topics = [scope + '-a', scope + '-b'][:count]
    await create(client, partitions, *topics)
    producer = await client.producer(txn=scope)
    everything, kept = [], []
    for n, commits in enumerate(outcomes):
        records = made(client, 't%d-' % n, 20, partitions)
        await transact(producer, topics, records, commits)
        everything += records
        kept += records if commits else []
    await producer.close()
    for topic in topics:
        await seal(client, topic, partitions)
        await holds(client, topic, partitions, True, kept)
        await holds(client, topic, partitions, False, everything)


async def commit(client, scope):
    await transactions(client, scope, [True] * 5)


async def abort(client, scope):
    await transactions(client, scope, [True, False, True, False, False, True])


async def fencing(client, topic):
    await create(client, 1, topic)
    old = await client.producer(txn=topic)
    await transact(old, [topic], made(client, 'first', 1, 1), True)
    await old.begin()
    await old.send(topic, made(client, 'open', 1, 1))
    new = await client.producer(txn=topic)
    await transact(new, [topic], made(client, 'next', 1, 1), True)
    try:
        await old.send(topic, made(client, 'late', 1, 1))
        await old.commit()
    except Exception as e:  # noqa: BLE001 - each client has its own class for it
        if not client.fenced(e):
            raise Broken('the old instance is not told that it is fenced: %s: %s' % (type(e).__name__, e)) from e
    else:
        raise Broken('the old instance could commit')
    await seal(client, topic, 1)
    await holds(client, topic, 1, True, made(client, 'first', 1, 1) + made(client, 'next', 1, 1))


async def etl_life(client, scope, count, commits):
    """One life of a worker: transactions until so many records have gone through."""
    etl = await client.etl(scope + '-group', scope + '-in', scope)
    done, deadline = 0, time.monotonic() + PATIENCE_S
    while done < count:
        done += await etl.step(scope + '-out', commits)
        if time.monotonic() > deadline:
            raise Broken('%d of %d records in time' % (done, count))
    await etl.close()
    return done


async def offsets(client, scope):
    source, target, name = scope + '-in', scope + '-out', scope + '-group'
    await create(client, 2, source, target)
    sent = made(client, 'v', 60, 2)
    await send(client, source, sent)
    aborted = await etl_life(client, scope, 1, False)
    found = await client.committed(name, source, 2)
    if found:
        raise Broken('after the abort offsets %s are committed' % found)
    await etl_life(client, scope, 60, True)
    found = await client.committed(name, source, 2)
    if found != {0: 30, 1: 30}:
        raise Broken('offsets %s are committed, wanted 30 and 30' % found)
    await seal(client, target, 2)
    await holds(client, target, 2, True, sent)
    seen = sum(len(records) for records in await client.read(target, 2, False))
    if seen != 60 + aborted:
        raise Broken('%d records were aborted and 60 committed, read_uncommitted sees %d' % (aborted, seen))


async def group(client, topic, protocol):
    await create(client, 4, topic)
    a = await client.member(topic, topic, protocol)
    await shared(4, a)
    # It reads from every partition before it gives some away: an answer of ListOffsets that librdkafka has been waiting for through
    # two rebalances would send it back to the start.
    await consumed(client, topic, made(client, 'u', 4, 4), a)
    b = await client.member(topic, topic, protocol)
    await shared(4, a, b)
    await consumed(client, topic, made(client, 'v', 200, 4), a, b)
    await b.close()
    await shared(4, a)
    await consumed(client, topic, made(client, 'w', 40, 4), a)
    await a.close()
    found = await client.committed(topic, topic, 4)
    if found != {p: 61 for p in range(4)}:
        raise Broken('offsets %s are committed, wanted 61 of each partition' % found)


async def shared(partitions, *members):
    """Waits until the members share the partitions evenly."""
    while True:
        for m in members:
            came = await m.poll()
            if came:
                raise Broken('polling gave %s' % short(came))
        owned = [sorted(m.assigned()) for m in members]
        if sorted(sum(owned, [])) == list(range(partitions)) and all(len(own) == partitions // len(members) for own in owned):
            return


async def consumed(client, topic, records, *members):
    """Sends records and has the members read each of them once, in order, and commit."""
    await send(client, topic, records)
    read, count = {}, 0
    while count < len(records):
        for m in members:
            for r in await m.poll():
                if r.partition not in m.assigned():
                    raise Broken('a record of partition %d came, which is not assigned' % r.partition)
                read.setdefault(r.partition, []).append(r)
                count += 1
    for p in sorted({r.partition for r in records}):
        if read.get(p) != [r for r in records if r.partition == p]:
            raise Broken('partition %d: read %s' % (p, short(read.get(p, []))))
    for m in members:
        await m.commit()
