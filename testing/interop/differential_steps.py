"""Random conversations about transactions: which request comes next, by a seed and by what Apache Kafka has answered so far.

One sequence has a topic and a group of its own, one or two transactional ids, and perhaps a producer without one. Its requests are those of older
clients, of clients of version 2, or of both. Most fit the state the transaction is in; the others come with epochs, sequences, producer ids,
partitions and versions that no client would send at that moment.
"""
import random
import time

from differential_sides import TOPIC_ID, UNKNOWN, Batch, Pid

# Nothing times out: a group of sequences takes a minute or two.
PARTITIONS, TIMEOUT_MS, MAX_EPOCH = 2, 900_000, 32_767
# Of the batches: before every marker.
BEHIND_MS = 60_000
OLD, NEW, MIXED = 'old', 'new', 'mixed'
ENDS, PRODUCES, OFFSETS = (range(5), (5,)), (range(3, 12), (12, 13)), (range(5), (5,))
EXHAUSTED, SECOND_ID, CROSSING, FITTING, SECOND_CONNECTION = 0.02, 0.25, 0.1, 0.7, 0.1


class Step:
    """A request, and what is to be learnt from Kafka's answer to it."""

    def __init__(self, api, version, fields, name=None, connection=0, learn=None, about=()):
        self.api, self.version, self.fields, self.connection, self.about = api, version, fields, connection, about
        # The transactional id it is about.
        self.name, self.learn = name, learn or (lambda answer: None)

    def __repr__(self):
        return f'{self.api} {self.version} {self.fields}{" on the second connection" if self.connection else ""}'


class Sequence:
    """The random choices of one seed."""

    def __init__(self, seed, tag):
        self.seed, self.random = seed, random.Random(seed)
        self.topic = f'differential-{tag}-{seed}'
        self.group = f'{self.topic}-group'
        self.mode = self.random.choice((OLD, NEW, MIXED))
        self.exhausted = self.random.random() < EXHAUSTED
        self.names = [f'{self.topic}-{n}' for n in range(2 if self.random.random() < SECOND_ID else 1)]
        self.length = self.random.randint(8, 22)
        self.pairs = {name: [] for name in (*self.names, None)}
        self.states = dict.fromkeys(self.names, '')
        self.next = {}
        self.clock = int(time.time() * 1000) - BEHIND_MS

    def step(self):
        """The next request."""
        name = self.random.choice(self.names)
        made = getattr(self, self.what(name))(name)
        if self.random.random() < SECOND_CONNECTION:
            made.connection = 1
        return made

    def what(self, name):
        """A verb that fits, or any."""
        chance, old = self.random.random(), self.mode == OLD or (self.mode == MIXED and self.random.random() < 0.5)
        if not self.pairs[name] and chance < 0.9:
            return 'init'
        if chance > FITTING:
            weights = dict(init=3, add=3, verify=2, add_offsets=2, offsets=2, end=3, produce=4, plain=1, plain_offsets=1, markers=1, alone=2)
        elif self.states[name] == 'Ongoing':
            weights = dict(produce=6, offsets=2, end=4, verify=1, init=1) | (dict(add=3, add_offsets=2) if old else {})
        else:
            weights = dict(add=5, add_offsets=2, init=1, end=1) if old else dict(produce=5, offsets=2, init=1, end=2)
        # Where the epochs end, they are to be raised.
        weights |= dict(init=4, end=4) if self.exhausted else {}
        return self.random.choices(list(weights), list(weights.values()))[0]

    def version(self, old, new):
        """A version of the clients of this sequence, rarely of the others."""
        of_new = self.random.random() < 0.5 if self.mode == MIXED else (self.mode == NEW) != (self.random.random() < CROSSING)
        return self.random.choice(new if of_new else old)

    def pair(self, name):
        """A producer id and epoch: the newest of this transactional id, or another."""
        known, chance = self.pairs[name], self.random.random()
        if not known:
            return UNKNOWN, 0
        pid, epoch = known[-1]
        if chance < 0.68:
            return pid, epoch
        if chance < 0.82:
            return self.random.choice(known[-3:])
        if chance < 0.95:
            return pid, self.random.choice((epoch - 1, epoch - 1, epoch + 1, MAX_EPOCH, MAX_EPOCH - 1, -1))
        other = [pair for pairs in self.pairs.values() for pair in pairs]
        return self.random.choice(((UNKNOWN, epoch), (-1, 0), (-1, -1), self.random.choice(other)))

    def producer(self, name):
        pid, epoch = self.pair(name)
        return dict(producer_id=pid, producer_epoch=epoch)

    def learnt(self, name, pid, epoch):
        if isinstance(pid, Pid) and (pid, epoch) not in self.pairs[name][-1:]:
            self.pairs[name].append((pid, epoch))

    # The coordinator's requests.

    def init(self, name):
        version = self.random.randint(0, 6)
        timeout = self.random.choice((TIMEOUT_MS,) * 8 + (TIMEOUT_MS - 1, 0, -1, TIMEOUT_MS + 1))
        fields = dict(transactional_id=name, transaction_timeout_ms=timeout)
        if version >= 3:
            bare = self.random.random() < 0.4
            fields |= dict(producer_id=-1, producer_epoch=-1) if bare else self.producer(name)
        if version == 6:
            fields |= dict(enable2_pc=self.random.random() < 0.2, keep_prepared_txn=self.random.random() < 0.1)

        def learn(answer):
            if answer['error_code'] == 'NONE':
                self.learnt(name, answer['producer_id'], answer['producer_epoch'])
        return Step('InitProducerId', version, fields, name, learn=learn)

    def partitions(self):
        mine = self.topic
        usual = [(mine, [0])], [(mine, [1])], [(mine, [0, 1])]
        odd = ([], [(mine, [])], [(mine, [7])], [(mine, [0]), ('nothing', [0])], [('__consumer_offsets', [3])], [(mine, [0, 0])],
               [(mine, [1]), (mine, [0])], [(mine, [0]), (mine, [0])], [(mine, [0, 0, 7])])
        chosen = self.random.choice(usual if self.random.random() < 0.85 else odd)
        return [dict(name=topic, partitions=list(partitions)) for topic, partitions in chosen]

    def add(self, name):
        version = self.version(range(4), (0, 3, 4, 5))
        if version >= 4:
            return self.batch_of_adds(name, version, verify=False)
        fields = dict(transactional_id=name, topics=self.partitions(), **self.producer(name))
        return Step('AddPartitionsToTxn', version, {f'v3_and_below_{field}': value for field, value in fields.items()}, name)

    def verify(self, name):
        return self.batch_of_adds(name, self.random.choice((4, 5)), verify=True)

    def batch_of_adds(self, name, version, verify):
        # One id twice is left out: Kafka mixes the two up.
        names = self.names if len(self.names) > 1 and self.random.random() < 0.3 else [name]
        of_all = [dict(transactional_id=n, verify_only=verify, topics=self.partitions(), **self.producer(n)) for n in names]
        return Step('AddPartitionsToTxn', version, dict(transactions=of_all), name)

    def add_offsets(self, name):
        fields = dict(transactional_id=name, group_id=self.group_id(), **self.producer(name))
        return Step('AddOffsetsToTxn', self.random.randint(0, 4), fields, name)

    def group_id(self):
        return self.random.choices((self.group, self.group + '-other', ''), (20, 2, 1))[0]

    def end(self, name):
        version, committed = self.version(*ENDS), self.random.random() < 0.6

        def learn(answer):
            if version >= 5 and answer['error_code'] == 'NONE':
                self.learnt(name, answer['producer_id'], answer['producer_epoch'])
        return Step('EndTxn', version, dict(transactional_id=name, committed=committed, **self.producer(name)), name, learn=learn)

    def offsets(self, name):
        version = self.version(*OFFSETS)
        fields = dict(transactional_id=name, group_id=self.group_id(), topics=self.committed(), **self.producer(name))
        if version >= 3:
            member, generation = self.random.choice((('', -1),) * 6 + (('m', 3), ('', 4), ('m', -1)))
            fields |= dict(generation_id=generation, member_id=member, group_instance_id=None)
        return Step('TxnOffsetCommit', version, fields, name)

    def committed(self):
        mine, each = self.topic, [(self.topic, [0]), (self.topic, [1]), (self.topic, [0, 1])]
        odd = [(mine, [0, 7])], [(mine, [1, 1])], [(mine, [0]), (mine, [0])], [('nothing', [0]), (mine, [1])], []
        chosen = self.random.choice(odd) if self.random.random() < 0.15 else [self.random.choice(each)]

        def partition(index):
            return dict(partition_index=index, committed_offset=self.random.randint(0, 99), committed_leader_epoch=-1, committed_metadata='')
        return [dict(name=topic, partitions=[partition(index) for index in indexes]) for topic, indexes in chosen]

    def plain_offsets(self, name):
        """Offsets of no transaction."""
        version = self.random.randint(2, 9)
        fields = dict(group_id=self.group, generation_id_or_member_epoch=-1, member_id='', topics=self.committed())
        if version < 6:
            for topic in fields['topics']:
                for partition in topic['partitions']:
                    del partition['committed_leader_epoch']
        return Step('OffsetCommit', version, fields, name)

    # What is written.

    def produce(self, name):
        """A transactional batch or two."""
        pair = self.pair(name)
        indexes = self.random.choice(([0], [1])) if self.random.random() < 0.85 else [0, 1]
        batches = {index: self.batch(pair, index, transactional=True) for index in indexes}
        if len(indexes) > 1 and self.random.random() < 0.2:
            batches[1] = self.batch(self.pair(name), 1, transactional=self.random.random() < 0.5)
        given = self.random.choices((name, None, '', self.topic + '-nobody'), (40, 1, 1, 1))[0]
        return self.produced(name, given, self.version(*PRODUCES), batches)

    def plain(self, name):
        """A plain batch of a transactional producer."""
        index = self.random.choice((0, 1))
        given = self.random.choice((name, None))
        return self.produced(name, given, self.random.randint(3, 13), {index: self.batch(self.pair(name), index, transactional=False)})

    def alone(self, name):
        """A producer without a transactional id: its InitProducerId, or a batch."""
        if not self.pairs[None] or self.random.random() < 0.1:
            step = self.init(None)
            step.fields['transaction_timeout_ms'] = TIMEOUT_MS
            return step
        index = self.random.choice((0, 1))
        transactional = self.random.random() < 0.1
        batch = self.batch(self.pair(None), index, transactional)
        return self.produced(name, name if transactional else None, self.random.randint(3, 13), {index: batch})

    def batch(self, pair, index, transactional):
        last, self.clock = self.next.get((*pair, index), 0), self.clock + 10
        sequence = self.random.choice((last,) * 10 + (last + 2, max(last - 1, 0), max(last - 2, 0), 0))
        return Batch(*pair, sequence, self.random.choice((1, 1, 2)), transactional, self.clock)

    def may_follow(self, batch, index):
        """Whether a batch goes on where its producer was in that partition: after its last one, from 0 at a new epoch, anywhere if it is new."""
        expected = self.next.get((batch.pid, batch.epoch, index))
        is_new = not any((pid, at) == (batch.pid, index) for pid, _, at in self.next)
        return batch.sequence == expected if expected is not None else is_new or batch.sequence == 0

    def produced(self, name, given, version, batches):
        data = [dict(index=index, records=batch) for index, batch in batches.items()]
        topic = dict(topic_id=TOPIC_ID) if version >= 13 else dict(name=self.topic)
        fields = dict(transactional_id=given, acks=-1, timeout_ms=30_000, topic_data=[topic | dict(partition_data=data)])

        def learn(answer):
            for partition in answer['responses'][0]['partition_responses'] if isinstance(answer, dict) else ():
                batch = batches[partition['index']]
                key = batch.pid, batch.epoch, partition['index']
                if partition['error_code'] == 'NONE':
                    self.next[key] = max(self.next.get(key, 0), batch.sequence + batch.count)
        return Step('Produce', version, fields, name, learn=learn, about=batches)

    def markers(self, name):
        """What an operator writes, or a coordinator that has been replaced. One partition twice is left out: Kafka does not answer."""
        version, indexes = self.random.choice((1, 2)), self.random.choice(([0], [1], [0, 1], [0, 7], []))
        marker = dict(transaction_result=self.random.random() < 0.5, coordinator_epoch=self.random.choice((0, 0, 0, 1)),
                      topics=[dict(name=self.topic, partition_indexes=indexes)], **self.producer(name))
        if version >= 2:
            marker['transaction_version'] = self.random.choice((0, 1, 2, 2, 2, 3))
        return Step('WriteTxnMarkers', version, dict(markers=[marker]), name)

    # What is looked at.

    def states_of_all(self):
        """DescribeTransactions, which is asked after each step."""
        def learn(answer):
            for state in answer['transaction_states']:
                self.states[state['transactional_id']] = state['transaction_state']
        return Step('DescribeTransactions', 0, dict(transactional_ids=self.names), learn=learn)

    def views(self):
        """All that a client can see, in versions of all ages."""
        choice, each = self.random.choice, [dict(partition_index=index) for index in range(PARTITIONS)]
        yield Step('DescribeProducers', 0, dict(topics=[dict(name=self.topic, partition_indexes=list(range(PARTITIONS)))]))
        version = choice((0, 1, 2))
        pids = sorted({pid for pairs in self.pairs.values() for pid, _ in pairs} | {UNKNOWN})
        fields = dict(state_filters=choice(([], ['Ongoing'], ['Empty', 'CompleteAbort', 'nonsense'])), producer_id_filters=pids)
        fields |= dict(duration_filter=choice((-1, 3_600_000))) if version >= 1 else {}
        fields |= dict(transactional_id_pattern=choice((None, '', '.*-0'))) if version >= 2 else {}
        yield Step('ListTransactions', version, fields)
        for isolation in 0, 1:
            version, timestamp = self.random.randint(2, 10), choice((-1, -1, -2, self.clock - choice((0, 10, 25))))
            if version >= 7:
                timestamp = choice((timestamp, -3))
            asked = [dict(index, timestamp=timestamp, **({'current_leader_epoch': -1} if version >= 4 else {})) for index in each]
            yield Step('ListOffsets', version, dict(replica_id=-1, isolation_level=isolation, topics=[dict(name=self.topic, partitions=asked)]))
            yield self.fetch(isolation)
        yield self.offset_fetch()

    def fetch(self, isolation):
        version, offset = self.random.randint(4, 17), self.random.choice((0, 0, 0, 1, 3))
        partition = dict(fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = dict(topic_id=TOPIC_ID) if version >= 13 else dict(topic=self.topic)
        topic['partitions'] = [dict(partition, partition=index) for index in range(PARTITIONS)]
        return Step('Fetch', version, dict(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation, topics=[topic]))

    def offset_fetch(self):
        version = self.random.randint(1, 9)
        topics = [dict(name=self.topic, partition_indexes=list(range(PARTITIONS)))]
        stable = dict(require_stable=self.random.random() < 0.5) if version >= 7 else {}
        if version >= 8:
            return Step('OffsetFetch', version, dict(groups=[dict(group_id=self.group, topics=topics)], **stable))
        return Step('OffsetFetch', version, dict(group_id=self.group, topics=topics, **stable))
