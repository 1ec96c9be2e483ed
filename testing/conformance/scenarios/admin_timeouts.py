"""Requests of administrators that give the broker no time: `timeout_ms` of 0 and below."""
import kprobe as k
from scenario import scenario
from _ask import ask, errors_in
from admin import create, metadata, new_topic, node

TIMES = (0, -1, -2**31)


def attempts(r, label, step):
    for timeout_ms in TIMES:
        r.attempt('%s %d' % (label, timeout_ms), lambda: step(timeout_ms))


@scenario('admin-timeout-create-topics', 'CreateTopics with no time: what is answered, and whether the topic is there')
def _(r):
    there = new_topic(r)

    def step(fields, validate_only=False):
        def with_timeout(timeout_ms):
            name = r.name('n%d' % -timeout_ms)
            a = create(r.p, dict(dict(name=name), **fields), timeout_ms=timeout_ms, validate_only=validate_only)
            return [(x['error_code'], x.get('num_partitions')) for x in a], metadata(r.p, [name])[0]['error_code']
        return with_timeout
    attempts(r, 'new', step({}))
    attempts(r, 'validate', step(dict(name=r.name('v')), True))
    attempts(r, 'there', step(dict(name=there)))
    attempts(r, 'bad name', step(dict(name='!')))
    attempts(r, 'bad factor', step(dict(name=r.name('f'), replication_factor=9)))
    r.attempt('nothing', lambda: create(r.p, timeout_ms=0))


@scenario('admin-timeout-create-partitions', 'CreatePartitions with no time')
def _(r):
    t = new_topic(r)

    def step(name, count, validate_only=False):
        def with_timeout(timeout_ms):
            a = ask(r.p, 'CreatePartitions', 3, topics=[dict(name=name, count=count, assignments=None)], timeout_ms=timeout_ms,
                    validate_only=validate_only)
            return [x['error_code'] for x in a['results']], len(metadata(r.p, [t])[0]['partitions'])
        return with_timeout
    attempts(r, 'more', step(t, 5))
    attempts(r, 'validate', step(t, 6, True))
    attempts(r, 'fewer', step(t, 1))
    attempts(r, 'unknown', step(r.name('none'), 2))


@scenario('admin-timeout-delete-topics', 'DeleteTopics with no time')
def _(r):
    def step(version):
        def with_timeout(timeout_ms):
            t = new_topic(r, 't%d-%d' % (version, -timeout_ms))
            fields = dict(topics=[dict(name=t, topic_id=None)]) if version >= 6 else dict(topic_names=[t])
            a = ask(r.p, 'DeleteTopics', version, timeout_ms=timeout_ms, **fields)
            return [x['error_code'] for x in a['responses']], metadata(r.p, [t])[0]['error_code']
        return with_timeout
    for version in (1, 5, 6):
        attempts(r, 'v%d' % version, step(version))
    attempts(r, 'unknown', lambda timeout_ms: [x['error_code'] for x in ask(
        r.p, 'DeleteTopics', 5, topic_names=[r.name('none')], timeout_ms=timeout_ms)['responses']])


@scenario('admin-timeout-delete-records', 'DeleteRecords with no time')
def _(r):
    t = new_topic(r)
    for n in range(5):
        assert r.p.produce(t, k.batch([b'v%d' % n]))[0] == 'NONE'
    at = [0]

    def step(timeout_ms):
        at[0] += 1
        a = ask(r.p, 'DeleteRecords', 2, timeout_ms=timeout_ms, topics=[dict(name=t, partitions=[
            dict(partition_index=0, offset=at[0])])])
        return [(p['low_watermark'], p['error_code']) for x in a['topics'] for p in x['partitions']]
    attempts(r, 'to the next', step)


@scenario('admin-timeout-leaders', 'ElectLeaders and partition reassignments with no time')
def _(r):
    t, me = new_topic(r), node(r.p)

    def elect(topics):
        def with_timeout(timeout_ms):
            a = ask(r.p, 'ElectLeaders', 2, election_type=0, topic_partitions=topics, timeout_ms=timeout_ms)
            return a['error_code'], [p['error_code'] for x in a['replica_election_results'] for p in x['partition_result']]
        return with_timeout

    def reassign(timeout_ms):
        a = ask(r.p, 'AlterPartitionReassignments', 1, timeout_ms=timeout_ms, topics=[dict(name=t, partitions=[
            dict(partition_index=0, replicas=[me])])])
        return a['error_code'], [p['error_code'] for x in a['responses'] for p in x['partitions']]

    def reassigned(timeout_ms):
        a = ask(r.p, 'ListPartitionReassignments', 0, timeout_ms=timeout_ms, topics=None)
        return a['error_code'], len(a['topics'])
    attempts(r, 'elect', elect([dict(topic=t, partitions=[0])]))
    attempts(r, 'elect nothing', elect([]))
    attempts(r, 'reassign', reassign)
    attempts(r, 'list', reassigned)


@scenario('admin-timeout-features', 'UpdateFeatures with no time')
def _(r):
    def step(name, level):
        def with_timeout(timeout_ms):
            a = ask(r.p, 'UpdateFeatures', 2, timeout_ms=timeout_ms, feature_updates=[dict(feature=name, max_version_level=level,
                    upgrade_type=1)], validate_only=True)
            return a['error_code'], [x['error_code'] for x in a.get('results') or []]
        return with_timeout
    attempts(r, 'same', step('transaction.version', r.p.features().get('transaction.version')))
    attempts(r, 'unknown', step('nonsense.version', 1))
