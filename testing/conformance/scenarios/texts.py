"""The sentences beside error codes of the admin APIs: tools and test suites read them, so they are Kafka's own.

Other scenarios leave the sentences out. Each of these sends wrong requests, one fault at a time, and notes code and sentence.
"""
import uuid

from scenario import scenario
from _ask import ZERO, new_topic, said
from admin import node

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP_CONFIG = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def told(entry):
    """Code and sentence of one entry of an answer."""
    return [entry['error_code'], entry['error_message']]


def attempts(r, step, cases):
    """Notes what ``step(value)`` tells for each of the labelled values."""
    for label, value in cases:
        r.attempt(label, lambda value=value: step(value))


# ---------------------------------------------------------------- CreateTopics, CreatePartitions, DeleteTopics

def creation(r, timeout_ms=30000, validate_only=True):
    def step(topic):
        base = dict(name=r.name('new'), num_partitions=1, replication_factor=1, assignments=[], configs=[])
        a = said(r.p, 'CreateTopics', 7, topics=[dict(base, **topic)], timeout_ms=timeout_ms, validate_only=validate_only)
        return [told(x) for x in a['topics']]
    return step


def setting(*pairs):
    return dict(configs=[dict(name=n, value=v) for n, v in pairs])


def placed(*partitions):
    return dict(num_partitions=-1, replication_factor=-1,
                assignments=[dict(partition_index=n, broker_ids=list(b)) for n, b in partitions])


@scenario('texts-create-topics-name', 'CreateTopics: names that no topic can have, that are taken, or that collide')
def _(r):
    t = new_topic(r, 'a.b')
    attempts(r, creation(r), [
        ('empty', dict(name='')), ('dot', dict(name='.')), ('dots', dict(name='..')), ('letters', dict(name='a b/c')),
        ('ümlaut', dict(name='ü')), ('long', dict(name='x' * 250)), ('metadata log', dict(name='__cluster_metadata')),
        ('taken', dict(name=t)), ('collides', dict(name=t.replace('.', '_')))])
    twice = [dict(name=r.name('twice'), num_partitions=1, replication_factor=1, assignments=[], configs=[])] * 2
    a = said(r.p, 'CreateTopics', 7, topics=twice, timeout_ms=30000, validate_only=True)
    r.note('twice', [told(x) for x in a['topics']])


@scenario('texts-create-topics-counts', 'CreateTopics: counts of partitions and replicas that cannot be')
def _(r):
    attempts(r, creation(r), [
        ('no partition', dict(num_partitions=0)), ('partitions -2', dict(num_partitions=-2)),
        ('no replica', dict(replication_factor=0)), ('replicas -2', dict(replication_factor=-2)),
        ('two replicas', dict(replication_factor=2)), ('many replicas', dict(replication_factor=32767)),
        ('both', dict(num_partitions=0, replication_factor=0)), ('too many', dict(num_partitions=10001)),
        ('three replicas of two', dict(num_partitions=2, replication_factor=3))])


@scenario('texts-create-topics-assignments', 'CreateTopics: replicas assigned by hand that cannot be')
def _(r):
    n = node(r.p)
    attempts(r, creation(r), [
        ('beside a count', dict(placed((0, [n])), num_partitions=1)),
        ('beside a factor', dict(placed((0, [n])), replication_factor=1)),
        ('beside both', dict(placed((0, [n])), num_partitions=1, replication_factor=1)),
        ('no broker', placed((0, []))), ('unknown broker', placed((0, [n + 77]))), ('twice a broker', placed((0, [n, n]))),
        ('one known', placed((0, [n, n + 77]))), ('negative broker', placed((0, [-1]))),
        ('partition twice', placed((0, [n]), (0, [n]))), ('gap', placed((0, [n]), (2, [n]))), ('from one', placed((1, [n]))),
        ('negative partition', placed((-1, [n]))), ('unequal', placed((0, [n]), (1, [n, n + 77]))),
        ('unequal, second empty', placed((0, [n]), (1, [])))])


@scenario('texts-create-topics-configs', 'CreateTopics: settings that cannot be')
def _(r):
    attempts(r, creation(r), [(label, setting(*pairs)) for label, pairs in [
        ('unknown key', [('no.such.key', '1')]), ('empty key', [('', '1')]), ('null value', [('retention.ms', None)]),
        ('two null values', [('retention.ms', None), ('cleanup.policy', None)]),
        ('null of an unknown key', [('no.such.key', None)]),
        ('key of brokers', [('log.retention.ms', '1')]), ('known beside unknown', [('retention.ms', '1'), ('nope', '1')]),
        ('second wins', [('retention.ms', 'x'), ('retention.ms', '1')])]])
    attempts(r, creation(r), [('%s=%s' % pair, setting(pair)) for pair in TOPIC_VALUES])
    attempts(r, creation(r), [
        ('lags', setting(('min.compaction.lag.ms', '10'), ('max.compaction.lag.ms', '5'))),
        ('remote', setting(('remote.storage.enable', 'true'))),
        ('local retention', setting(('local.retention.ms', '10'), ('retention.ms', '5'))),
        ('local bytes', setting(('local.retention.bytes', '10'), ('retention.bytes', '5')))])


@scenario('texts-create-topics-timeout', 'CreateTopics, CreatePartitions and DeleteTopics with no time')
def _(r):
    t = new_topic(r)
    r.attempt('create', lambda: creation(r, 0, False)({}))
    r.attempt('partitions', lambda: [told(x) for x in said(
        r.p, 'CreatePartitions', 3, topics=[dict(name=t, count=5, assignments=None)], timeout_ms=0, validate_only=False)['results']])
    r.attempt('delete', lambda: [told(x) for x in said(
        r.p, 'DeleteTopics', 6, topics=[dict(name=t, topic_id=None)], timeout_ms=0)['responses']])


@scenario('texts-create-partitions', 'CreatePartitions: all that can be wrong')
def _(r):
    t, n = new_topic(r, partitions=2), node(r.p)

    def step(case):
        name, count, replicas = case
        given = None if replicas is None else [dict(broker_ids=b) for b in replicas]
        a = said(r.p, 'CreatePartitions', 3, topics=[dict(name=name, count=count, assignments=given)], timeout_ms=30000,
                 validate_only=True)
        return [told(x) for x in a['results']]
    attempts(r, step, [
        ('unknown', (r.name('none'), 3, None)), ('no name', ('', 3, None)), ('same', (t, 2, None)), ('fewer', (t, 1, None)),
        ('none', (t, 0, None)), ('negative', (t, -1, None)), ('too many', (t, 10003, None)),
        ('too few lists', (t, 4, [[n]])), ('too many lists', (t, 3, [[n], [n]])), ('no list', (t, 3, [])),
        ('empty list', (t, 3, [[]])), ('unknown broker', (t, 3, [[n + 77]])), ('twice a broker', (t, 3, [[n, n]])),
        ('two replicas', (t, 3, [[n, n + 77]])), ('negative broker', (t, 3, [[-1]])),
        ('second is wrong', (t, 4, [[n], [n + 77]]))])
    twice = [dict(name=t, count=3, assignments=None)] * 2
    a = said(r.p, 'CreatePartitions', 3, topics=twice, timeout_ms=30000, validate_only=True)
    r.note('twice', [told(x) for x in a['results']])


@scenario('texts-delete-topics', 'DeleteTopics: what is named wrongly or is not there')
def _(r):
    t = new_topic(r)

    def step(topics):
        a = said(r.p, 'DeleteTopics', 6, topics=[dict(name=x, topic_id=i) for x, i in topics], timeout_ms=30000)
        return sorted([x['name'], *told(x)] for x in a['responses']) if all(x['name'] for x in a['responses']) else [
            told(x) for x in a['responses']]
    some = uuid.UUID(int=77)
    attempts(r, step, [
        ('unknown name', [(r.name('none'), ZERO)]), ('unknown id', [(None, some)]), ('neither', [(None, ZERO)]),
        ('both', [(t, some)]), ('twice', [(t, ZERO), (t, ZERO)]), ('bad name', [('a b', ZERO)]), ('empty name', [('', ZERO)])])


# ---------------------------------------------------------------- configurations

TOPIC_VALUES = [
    ('retention.ms', 'x'), ('retention.ms', ''), ('retention.ms', '-2'), ('retention.ms', '1.5'),
    ('retention.ms', '9223372036854775808'), ('segment.bytes', '1'), ('segment.bytes', '2147483648'), ('segment.ms', '0'),
    ('cleanup.policy', 'x'), ('cleanup.policy', 'compact,x'), ('cleanup.policy', 'delete,delete'), ('cleanup.policy', ''),
    ('cleanup.policy', ',compact'), ('compression.type', 'x'), ('compression.type', ''), ('compression.gzip.level', '10'),
    ('compression.gzip.level', '0'), ('compression.lz4.level', '18'), ('compression.zstd.level', '23'),
    ('min.cleanable.dirty.ratio', '2'), ('min.cleanable.dirty.ratio', 'x'), ('min.insync.replicas', '0'),
    ('preallocate', 'x'), ('unclean.leader.election.enable', 'yes'), ('message.timestamp.type', 'x'),
    ('message.timestamp.before.max.ms', '-1'), ('max.message.bytes', '-1'), ('index.interval.bytes', '-1'),
    ('segment.index.bytes', '3'), ('flush.messages', '0'), ('flush.ms', '-1'), ('file.delete.delay.ms', '-1'),
    ('delete.retention.ms', '-1'), ('max.compaction.lag.ms', '0'), ('min.compaction.lag.ms', '-1'),
    ('local.retention.ms', '-3'), ('remote.log.delete.on.disable', 'x'),
    ('leader.replication.throttled.replicas', 'x'), ('leader.replication.throttled.replicas', '0:1,*'),
    ('follower.replication.throttled.replicas', '0'), ('retention.bytes', '-2'), ('segment.jitter.ms', '-1')]


def alteration(r, kind, name):
    def step(ops):
        a = said(r.p, 'IncrementalAlterConfigs', 1, validate_only=True, resources=[dict(
            resource_type=kind, resource_name=name, configs=[dict(name=n, config_operation=o, value=v) for n, o, v in ops])])
        return [told(x) for x in a['responses']]
    return step


@scenario('texts-alter-topic', 'IncrementalAlterConfigs of a topic: keys, values and operations that cannot be')
def _(r):
    t = new_topic(r)
    attempts(r, alteration(r, TOPIC, t), [
        ('unknown key', [('no.such.key', SET, '1')]), ('delete unknown', [('no.such.key', DELETE, None)]),
        ('null value', [('retention.ms', SET, None)]), ('two null values', [('retention.ms', SET, None), ('segment.ms', SET, None)]),
        ('append null', [('cleanup.policy', APPEND, None)]), ('append to a number', [('retention.ms', APPEND, '1')]),
        ('subtract from a number', [('retention.ms', SUBTRACT, '1')]), ('append to unknown', [('nope', APPEND, '1')]),
        ('append wrong', [('cleanup.policy', APPEND, 'x')]), ('key twice', [('retention.ms', SET, '1'), ('retention.ms', SET, '2')]),
        ('subtract all', [('cleanup.policy', SUBTRACT, 'delete')]),
        ('second is wrong', [('segment.ms', SET, '1000'), ('retention.ms', SET, 'x')])])
    attempts(r, alteration(r, TOPIC, t), [('%s=%s' % (n, v), [(n, SET, v)]) for n, v in TOPIC_VALUES])
    attempts(r, alteration(r, TOPIC, t), [
        ('lags', [('min.compaction.lag.ms', SET, '10'), ('max.compaction.lag.ms', SET, '5')]),
        ('remote', [('remote.storage.enable', SET, 'true')])])


@scenario('texts-alter-resources', 'IncrementalAlterConfigs of resources that are not there or have no such kind')
def _(r):
    t, n = new_topic(r), node(r.p)
    for label, kind, name in [
            ('unknown topic', TOPIC, r.name('none')), ('topic without name', TOPIC, ''), ('bad topic', TOPIC, 'a b'),
            ('other broker', BROKER, str(n + 77)), ('no broker', BROKER, 'x'), ('negative broker', BROKER, '-5'),
            ('other logger', BROKER_LOGGER, str(n + 77)), ('all loggers', BROKER_LOGGER, ''), ('no logger', BROKER_LOGGER, 'x'),
            ('group without name', GROUP_CONFIG, ''), ('metrics without name', CLIENT_METRICS, ''),
            ('kind 0', 0, 'x'), ('kind 1', 1, 'x'), ('kind 3', 3, 'x'), ('kind 99', 99, 'x')]:
        r.attempt(label, lambda: alteration(r, kind, name)([('retention.ms', SET, '1')]))
    twice = [dict(resource_type=TOPIC, resource_name=t, configs=[dict(name='retention.ms', config_operation=SET, value='1')])] * 2
    r.attempt('twice', lambda: told(said(
        r.p, 'IncrementalAlterConfigs', 1, resources=twice, validate_only=True)['responses'][0]))


@scenario('texts-alter-legacy', 'AlterConfigs: the older request in the same cases')
def _(r):
    t, n = new_topic(r), node(r.p)

    def step(case):
        kind, name, pairs = case
        a = said(r.p, 'AlterConfigs', 2, validate_only=True, resources=[dict(
            resource_type=kind, resource_name=name, configs=[dict(name=x, value=v) for x, v in pairs])])
        return [told(x) for x in a['responses']]
    attempts(r, step, [
        ('unknown key', (TOPIC, t, [('no.such.key', '1')])), ('value', (TOPIC, t, [('retention.ms', 'x')])),
        ('null', (TOPIC, t, [('retention.ms', None)])), ('key twice', (TOPIC, t, [('retention.ms', '1'), ('retention.ms', '2')])),
        ('unknown topic', (TOPIC, r.name('none'), [('retention.ms', '1')])), ('no name', (TOPIC, '', [('retention.ms', '1')])),
        ('other broker', (BROKER, str(n + 77), [('log.cleaner.threads', '1')])),
        ('logger', (BROKER_LOGGER, str(n), [('root', 'INFO')])), ('kind 0', (0, 'x', [('a', 'b')])),
        ('kind 99', (99, 'x', [('a', 'b')]))])


@scenario('texts-alter-broker', 'IncrementalAlterConfigs of a broker and of all: keys and values that cannot be')
def _(r):
    n = node(r.p)
    cases = [
        ('read-only', [('node.id', SET, '5')]), ('read-only delete', [('node.id', DELETE, None)]),
        ('two read-only', [('node.id', SET, '5'), ('broker.rack', SET, 'x')]),
        ('number', [('log.cleaner.threads', SET, 'x')]), ('range', [('log.cleaner.threads', SET, '-1')]),
        ('retention', [('log.retention.ms', SET, 'x')]), ('retention range', [('log.retention.ms', SET, '-2')]),
        ('compression', [('compression.type', SET, 'x')]), ('policy', [('log.cleanup.policy', SET, 'x')]),
        ('null', [('log.retention.ms', SET, None)]),
        ('append to a number', [('log.retention.ms', APPEND, '1')]), ('max connections', [('max.connections', SET, 'x')]),
        ('per ip', [('max.connections.per.ip', SET, '-1')]), ('min isr', [('min.insync.replicas', SET, '0')]),
        ('message size', [('message.max.bytes', SET, '-1')]), ('threads', [('num.io.threads', SET, '0')]),
        ('segment', [('log.segment.bytes', SET, '1')]), ('bool', [('auto.create.topics.enable', SET, 'x')]),
        ('roll', [('log.roll.ms', SET, '0')]), ('jitter', [('log.roll.jitter.ms', SET, '-1')]),
        ('no retention', [('log.retention.ms', SET, '0')]), ('timestamp type', [('log.message.timestamp.type', SET, 'x')])]
    attempts(r, alteration(r, BROKER, ''), [('all: per broker', [('listeners', SET, 'PLAINTEXT://127.0.0.1:1')])])
    for label, name in [('broker', str(n)), ('all', '')]:
        attempts(r, alteration(r, BROKER, name), [('%s: %s' % (label, c), ops) for c, ops in cases])


@scenario('texts-alter-groups-and-metrics', 'IncrementalAlterConfigs of groups, of client metrics and of loggers')
def _(r):
    n = node(r.p)
    attempts(r, alteration(r, GROUP_CONFIG, r.name('g')), [(label, [(key, SET, value)]) for label, key, value in [
        ('unknown', 'nope', '1'), ('number', 'consumer.session.timeout.ms', 'x'), ('low', 'consumer.session.timeout.ms', '1'),
        ('negative', 'consumer.session.timeout.ms', '-1'), ('high', 'consumer.session.timeout.ms', '2147483647'),
        ('heartbeat low', 'consumer.heartbeat.interval.ms', '1'), ('heartbeat high', 'consumer.heartbeat.interval.ms', '900000'),
        ('isolation', 'share.isolation.level', 'x'), ('reset', 'share.auto.offset.reset', 'x'),
        ('reset duration', 'share.auto.offset.reset', 'by_duration:x')]])
    attempts(r, alteration(r, CLIENT_METRICS, r.name('m')), [(label, [(key, SET, value)]) for label, key, value in [
        ('unknown', 'nope', '1'), ('number', 'interval.ms', 'x'), ('low', 'interval.ms', '1'), ('high', 'interval.ms', '3600001'),
        ('negative', 'interval.ms', '-1'), ('match', 'match', 'x'), ('match key', 'match', 'nope=x'),
        ('match empty', 'match', 'client_id=')]])
    attempts(r, alteration(r, BROKER_LOGGER, str(n)), [
        ('root deleted', [('root', DELETE, None)]), ('unknown logger', [(r.name('no.such.logger'), SET, 'INFO')]),
        ('root append', [('root', APPEND, 'INFO')]), ('root null', [('root', SET, None)])])


@scenario('texts-describe-configs', 'DescribeConfigs of what is not there')
def _(r):
    n = node(r.p)

    def step(case):
        kind, name = case
        a = said(r.p, 'DescribeConfigs', 4, include_synonyms=False, include_documentation=False,
                 resources=[dict(resource_type=kind, resource_name=name, configuration_keys=['x'])])
        return [told(x) for x in a['results']]
    attempts(r, step, [
        ('unknown topic', (TOPIC, r.name('none'))), ('bad topic', (TOPIC, 'a b')), ('no topic name', (TOPIC, '')),
        ('other broker', (BROKER, str(n + 77))), ('no broker', (BROKER, 'x')), ('other logger', (BROKER_LOGGER, str(n + 77))),
        ('all loggers', (BROKER_LOGGER, '')), ('no logger', (BROKER_LOGGER, 'x')), ('no group', (GROUP_CONFIG, '')),
        ('no metrics', (CLIENT_METRICS, '')), ('kind 0', (0, 'x')), ('kind 99', (99, 'x')), ('good topic', (TOPIC, new_topic(r))),
        ('good broker', (BROKER, str(n)))])


# ---------------------------------------------------------------- assignments and elections

@scenario('texts-reassignments', 'AlterPartitionReassignments and ListPartitionReassignments: what cannot be')
def _(r):
    t, n = new_topic(r), node(r.p)

    def step(case):
        name, index, replicas, version, fields = case
        a = said(r.p, 'AlterPartitionReassignments', version, timeout_ms=fields.pop('timeout_ms', 30000), topics=[dict(
            name=name, partitions=[dict(partition_index=index, replicas=replicas)])], **fields)
        return [a['error_code'], a['error_message'], [told(p) for x in a['responses'] for p in x['partitions']]]
    attempts(r, step, [
        ('unknown topic', (r.name('none'), 0, [n], 0, {})), ('unknown partition', (t, 7, [n], 0, {})),
        ('nothing to cancel', (t, 0, None, 0, {})), ('cancel unknown topic', (r.name('none'), 0, None, 0, {})),
        ('cancel unknown partition', (t, 7, None, 0, {})), ('no replica', (t, 0, [], 0, {})), ('twice', (t, 0, [n, n], 0, {})),
        ('unknown broker', (t, 0, [n + 77], 0, {})), ('negative', (t, 0, [-1], 0, {})), ('one known', (t, 0, [n, n + 77], 0, {})),
        ('more replicas', (t, 0, [n, n + 77], 1, dict(allow_replication_factor_change=False))),
        ('no time', (t, 0, [n], 0, dict(timeout_ms=0)))])
    a = said(r.p, 'ListPartitionReassignments', 0, timeout_ms=0, topics=None)
    r.note('list without time', [a['error_code'], a['error_message']])


@scenario('texts-elections', 'ElectLeaders: what cannot be, and what need not')
def _(r):
    t = new_topic(r)

    def step(case):
        kind, name, index, timeout_ms = case
        a = said(r.p, 'ElectLeaders', 2, election_type=kind, timeout_ms=timeout_ms,
                 topic_partitions=[dict(topic=name, partitions=[index])])
        return [a['error_code'], [told(p) for x in a['replica_election_results'] for p in x['partition_result']]]
    attempts(r, step, [
        ('unknown topic', (0, r.name('none'), 0, 30000)), ('unknown partition', (0, t, 7, 30000)),
        ('not needed', (0, t, 0, 30000)), ('unclean not needed', (1, t, 0, 30000)), ('unclean unknown', (1, t, 7, 30000)),
        ('kind 9', (9, t, 0, 30000)), ('no time', (0, t, 0, 0))])
