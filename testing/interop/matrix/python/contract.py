"""What every Python client of the matrix has in common.

An adapter is a module `NAME_client` with NAME, version() and `async connect(bootstrap)`, which returns a client:

  codecs                                            names of compressions, 'none' among them
  one_header, reach                                 whether a batch has one header; topics and partitions of a transaction
  async topic(name, partitions)                     creates it
  async producer(codec=, idempotent=, txn=)         -> producer: send(topic, records), begin, commit, abort, close
  async read(topic, partitions, committed)          -> for each partition what is before the record END
  async member(group, topic, protocol)              -> member: poll() -> records, assigned() -> partitions, commit, close
  async etl(group, source, txn)                     -> etl: step(target, commit) -> number of records, close
  async committed(group, topic, partitions)         -> {partition: offset}
  fenced(error)                                     whether it says that a newer producer has taken over
  async admin(topic)                                -> the calls that an administrator made
  async close()

What a client cannot do raises Lacks.
"""
import asyncio
import dataclasses
import re
import time

END = 'end'
PATIENCE_S = 40
PAUSE_S = 0.2
SETTLING_S = 10


class Adapter:
    """What nearly every client can do."""
    codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
    one_header = False
    reach = (2, 2)


class Broken(Exception):
    """Something is otherwise than it has to be."""


class Lacks(Exception):
    """The client does not have what is asked for."""


@dataclasses.dataclass(frozen=True)
class Record:
    partition: int
    key: str
    value: str
    header: str
    offset: int = dataclasses.field(default=-1, compare=False)


def incoming(partition, offset, key, value, headers):
    found = dict(headers or [])
    return Record(partition, key.decode(), value.decode(), found.get('h', b'').decode() if len(found) == 1 else '', offset)


class Member:
    """A consumer of a group; `inner` is the client's own, which says what it is assigned. A client adds poll, commit and close."""

    def __init__(self, inner):
        self.inner = inner

    def assigned(self):
        return [p.partition for p in self.inner.assignment()]


class Etl:
    """Writes what its member reads, in transactions with the offsets. A client adds send_offsets, which is given the member's inner consumer."""

    def __init__(self, member, producer):
        self.member, self.producer = member, producer

    async def step(self, target, commits):
        records = await self.member.poll()
        if not records:
            return 0
        await self.producer.begin()
        await self.producer.send(target, records)
        await self.send_offsets(self.member.inner)
        await (self.producer.commit() if commits else self.producer.abort())
        return len(records)

    async def close(self):
        await self.member.close()
        await self.producer.close()


class Reading:
    """What came of each partition, up to the record END of each."""

    def __init__(self, partitions):
        self.read, self.left = [[] for _ in range(partitions)], partitions

    def complete_with(self, record):
        """Takes a record in; whether that was the last one."""
        if record.value == END:
            self.left -= 1
        else:
            self.read[record.partition].append(record)
        return not self.left


def ensure(holds, found):
    if not holds:
        raise Broken('found %s' % (found,))


async def steps(*calls):
    """Runs (name, async function) in order. What is read may lag behind what was changed: the broker or the client may have it from before."""
    for name, call in calls:
        deadline = time.monotonic() + (SETTLING_S if re.match('describe|list|metadata', name) else 0)
        while True:
            try:
                await call()
                break
            except Exception as e:  # noqa: BLE001 - tried again, or told with its name
                if time.monotonic() > deadline:
                    raise Broken('%s: %s: %s' % (name, type(e).__name__, e)) from e
            await asyncio.sleep(0.05)
    return ', '.join(name for name, _ in calls)
