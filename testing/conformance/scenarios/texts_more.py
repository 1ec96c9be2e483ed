"""The sentences beside error codes of quotas, credentials, features, groups and the cluster; see texts.py."""
import re
import uuid

import kprobe as k
from scenario import scenario
from _ask import ZERO, ask, id_kind, new_topic, said, wait
from texts import attempts, told


@scenario('texts-quotas-alter', 'AlterClientQuotas: entities, keys and values that cannot be')
def _(r):
    def step(case):
        entity, key, value = case
        a = said(r.p, 'AlterClientQuotas', 1, validate_only=True, entries=[dict(
            entity=[dict(entity_type=t, entity_name=n) for t, n in entity], ops=[dict(key=key, value=value, remove=False)])])
        return [told(x) for x in a['entries']]
    user, client, ip = [('user', 'u')], [('client-id', 'c')], [('ip', '127.0.0.1')]
    attempts(r, step, [
        ('no entity', ([], 'producer_byte_rate', 1.0)), ('unknown type', ([('nope', 'x')], 'producer_byte_rate', 1.0)),
        ('empty type', ([('', 'x')], 'producer_byte_rate', 1.0)), ('empty name', ([('user', '')], 'producer_byte_rate', 1.0)),
        ('ip and user', (ip + user, 'connection_creation_rate', 1.0)),
        ('ip and client', (ip + client, 'connection_creation_rate', 1.0)),
        ('just whole', (user, 'producer_byte_rate', 5.0000001)), ('nearly whole', (user, 'producer_byte_rate', 5.9999999)),
        ('minus infinite', (user, 'request_percentage', float('-inf'))), ('large of an ip', (ip, 'connection_creation_rate', 3e9)),
        ('largest of an ip', (ip, 'connection_creation_rate', 2147483647.0)), ('small', (user, 'producer_byte_rate', 0.5)),
        ('host', ([('ip', 'no.such.host.invalid')], 'connection_creation_rate', 1.0)),
        ('unknown key', (user, 'nope', 1.0)), ('key of an ip', (user, 'connection_creation_rate', 1.0)),
        ('key of a user', (ip, 'producer_byte_rate', 1.0)), ('empty key', (user, '', 1.0)),
        ('zero', (user, 'producer_byte_rate', 0.0)), ('negative', (user, 'producer_byte_rate', -1.0)),
        ('fraction', (user, 'producer_byte_rate', 1.5)), ('whole rate', (client, 'consumer_byte_rate', 2.5)),
        ('fraction of an ip', (ip, 'connection_creation_rate', 1.5)), ('zero of an ip', (ip, 'connection_creation_rate', 0.0)),
        ('negative percentage', (user, 'request_percentage', -1.0)), ('nan', (user, 'request_percentage', float('nan'))),
        ('infinite', (user, 'request_percentage', float('inf'))), ('large', (user, 'producer_byte_rate', 1e300)),
        ('mutations', (user, 'controller_mutation_rate', 0.0)), ('type twice', (user + [('user', 'v')], 'producer_byte_rate', 1.0))])


@scenario('texts-quotas-describe', 'DescribeClientQuotas: filters that cannot be')
def _(r):
    def step(parts):
        a = said(r.p, 'DescribeClientQuotas', 1, strict=False, components=[
            dict(entity_type=t, match_type=m, match=n) for t, m, n in parts])
        return told(a)
    attempts(r, step, [
        ('empty type', [('', 0, 'x')]), ('unknown type', [('nope', 0, 'x')]), ('type twice', [('user', 0, 'x'), ('user', 2, None)]),
        ('ip and user', [('ip', 2, None), ('user', 2, None)]), ('ip and client', [('ip', 2, None), ('client-id', 2, None)]),
        ('name missing', [('user', 0, None)]), ('name of default', [('user', 1, 'x')]), ('name of any', [('user', 2, 'x')]),
        ('kind 9', [('user', 9, None)]), ('kind 9 with name', [('user', 9, 'x')]), ('good', [('user', 2, None)])])


@scenario('texts-scram', 'AlterUserScramCredentials and DescribeUserScramCredentials: what cannot be')
def _(r):
    def up(name, mechanism=1, iterations=4096, salt=b's', password=b'p' * 32):
        return dict(name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=password)

    def down(name, mechanism=1):
        return dict(name=name, mechanism=mechanism)

    def step(case):
        downs, ups = case
        a = said(r.p, 'AlterUserScramCredentials', 0, deletions=downs, upsertions=ups)
        return [[x['user'], *told(x)] for x in a['results']]
    u = r.name('u')
    attempts(r, step, [
        ('delete unknown', ([down(u)], [])), ('no name', ([], [up('')])), ('delete no name', ([down('')], [])),
        ('mechanism 0', ([], [up(u, 0)])), ('mechanism 9', ([], [up(u, 9)])), ('delete mechanism 0', ([down(u, 0)], [])),
        ('delete mechanism 9', ([down(u, 9)], [])), ('few iterations', ([], [up(u, iterations=4095)])),
        ('many iterations', ([], [up(u, iterations=16385)])), ('negative iterations', ([], [up(u, iterations=-1)])),
        ('twice', ([], [up(u), up(u)])), ('delete twice', ([down(u), down(u)], [])), ('both', ([down(u)], [up(u)])),
        ('two mechanisms', ([], [up(u, 1), up(u, 2)]))])

    def describe(users):
        a = said(r.p, 'DescribeUserScramCredentials', 0, users=[dict(name=n) for n in users])
        return [told(a), [[x['user'], *told(x)] for x in a['results']]]
    r.attempt('made', lambda: step(([], [up(u)])))
    attempts(r, describe, [('good', [u]), ('unknown', [r.name('v')]), ('same twice', [u, u]), ('empty', [''])])
    r.attempt('gone', lambda: step(([down(u)], [])))


@scenario('texts-features', 'UpdateFeatures: what cannot be')
def _(r):
    def step(case):
        version, updates, fields = case
        rows = [dict(feature=f, max_version_level=level, **({'upgrade_type': kind} if version else {'allow_downgrade': kind == 2}))
                for f, level, kind in updates]
        a = said(r.p, 'UpdateFeatures', version, timeout_ms=fields.pop('timeout_ms', 30000), feature_updates=rows,
                 **({'validate_only': True} if version else {}))
        return [told(a), [[x['feature'], *told(x)] for x in a.get('results') or []]]
    t = 'transaction.version'
    for version in (1, 2):
        attempts(r, step, [('v%d %s' % (version, label), (version, updates, dict(fields))) for label, updates, fields in [
            ('unknown', [('nope', 1, 1)], {}), ('empty name', [('', 1, 1)], {}), ('too high', [(t, 99, 1)], {}),
            ('negative', [(t, -1, 1)], {}), ('kind 0', [(t, 1, 0)], {}), ('kind 9', [(t, 1, 9)], {}),
            ('down as up', [(t, 1, 1)], {}), ('same as down', [(t, 2, 2)], {}), ('same', [(t, 2, 1)], {}),
            ('twice', [(t, 2, 1), (t, 2, 1)], {}), ('nothing', [], {}),
            ('good and bad', [(t, 2, 1), ('nope', 1, 1)], {}), ('metadata too high', [('metadata.version', 999, 1)], {}),
            ('metadata too low', [('metadata.version', 1, 2)], {}), ('metadata zero', [('metadata.version', 0, 2)], {}),
            ('kind 9 of none', [('nope', 1, 9)], {}), ('negative of none', [('nope', -1, 1)], {}), ('kraft high', [('kraft.version', 9, 1)], {}),
            ('no time', [(t, 2, 1)], dict(timeout_ms=0))]])
    r.attempt('v0', lambda: step((0, [(t, 2, 1)], {})))
    r.attempt('v0 unknown', lambda: step((0, [('nope', 2, 1)], {})))


@scenario('texts-find-coordinator', 'FindCoordinator v0 to v6: the sentence beside a coordinator, and beside none')
def _(r):
    for version in range(7):
        def step(kind, key):
            fields = dict(coordinator_keys=[key]) if version >= 4 else dict(key=key)
            if version >= 1:
                fields['key_type'] = kind
            a = said(r.p, 'FindCoordinator', version, **fields)
            rows = a['coordinators'] if version >= 4 else [a]
            return [[x['error_code'], x.get('error_message'), x['host'], x['port']] if x['error_code'] != 'NONE' else
                    [x['error_code'], x.get('error_message')] for x in rows]

        def found(kind, key):
            return wait(lambda: step(kind, key), lambda rows: rows[0][0] != 'COORDINATOR_NOT_AVAILABLE', 20)
        r.attempt('v%d group' % version, lambda: found(0, r.name('g')))
        r.attempt('v%d empty group' % version, lambda: found(0, ''))
        if version:
            r.attempt('v%d transaction' % version, lambda: found(1, r.name('t')))
            r.attempt('v%d empty transaction' % version, lambda: found(1, ''))
            for kind in (2, 3, -1):
                r.attempt('v%d kind %d' % (version, kind), lambda: step(kind, 'a'))
            r.attempt('v%d share key' % version, lambda: step(2, 'g:%s:0' % uuid.UUID(int=7)))


@scenario('texts-cluster', 'DescribeCluster and DescribeQuorum: what cannot be')
def _(r):
    for kind in (0, 1, 2, 3, -1):
        a = said(r.p, 'DescribeCluster', 2, include_cluster_authorized_operations=False, endpoint_type=kind,
                 include_fenced_brokers=False)
        r.note('endpoints %d' % kind, told(a))

    def quorum(case):
        topic, index = case
        a = said(r.p, 'DescribeQuorum', 2, topics=[dict(topic_name=topic, partitions=[dict(partition_index=index)])])
        return [told(a), [told(p) for t in a['topics'] for p in t['partitions']]]
    attempts(r, quorum, [('other topic', ('nope', 0)), ('other partition', ('__cluster_metadata', 1)), ('good', ('__cluster_metadata', 0))])


@scenario('texts-groups', 'DescribeGroups, DescribeProducers and produced records: sentences beside codes')
def _(r):
    for version in (5, 6):
        a = said(r.p, 'DescribeGroups', version, groups=[r.name('none'), ''], include_authorized_operations=False)
        r.note('describe v%d' % version, sorted([x['error_code'], x.get('error_message') or '', x['group_state']] for x in a['groups']))
    t = new_topic(r)

    def producers(case):
        topic, index = case
        a = said(r.p, 'DescribeProducers', 0, topics=[dict(name=topic, partition_indexes=[index])])
        return [told(p) for x in a['topics'] for p in x['partitions']]
    attempts(r, producers, [('unknown topic', (r.name('none'), 0)), ('unknown partition', (t, 7)), ('good', (t, 0)),
                            ('bad name', ('a b', 0))])


def clockless(sentence):
    """Without what the clock said."""
    return sentence and re.sub(r'-?[0-9]{13,}', 'T', sentence)


@scenario('texts-produce', 'Produce: sentences beside refused batches and records')
def _(r):
    t, compacted = new_topic(r), new_topic(r, 'c', cleanup_policy='compact')
    small, late = new_topic(r, 's', max_message_bytes='100'), new_topic(r, 'l', message_timestamp_before_max_ms='1000')

    def step(case):
        topic, index, records = case
        a = said(r.p, 'Produce', 11, transactional_id=None, acks=-1, timeout_ms=30000, topic_data=[dict(
            name=topic, partition_data=[dict(index=index, records=records)])])
        p = a['responses'][0]['partition_responses'][0]
        return [p['error_code'], clockless(p['error_message']), [
            [e['batch_index'], clockless(e['batch_index_error_message'])] for e in p['record_errors']]]
    good = k.batch([b'v'])
    attempts(r, step, [
        ('unknown topic', (r.name('none'), 0, good)), ('unknown partition', (t, 7, good)), ('bad name', ('a b', 0, good)),
        ('checksum', (t, 0, k.batch([b'v'], corrupt_crc=True))), ('magic 9', (t, 0, k.batch([b'v'], magic=9))),
        ('no key', (compacted, 0, k.batch([b'v', b'w']))), ('one without key', (compacted, 0, k.batch([b'v', b'w'], keys=[b'k', None]))),
        ('large', (small, 0, k.batch([b'v' * 200]))), ('old', (late, 0, k.batch([b'v', b'w'], timestamp=1000))),
        ('wrong count', (t, 0, k.batch([b'v'], count=2))), ('control', (t, 0, k.batch([b'v'], control=True))),
        ('sequence', (t, 0, k.batch([b'v'], pid=1 << 40, epoch=0, seq=7))), ('negative sequence', (t, 0, k.batch([b'v'], pid=1 << 40, epoch=0, seq=-1))),
        ('transactional', (t, 0, k.batch([b'v'], pid=1 << 40, epoch=0, seq=0, transactional=True))),
        ('two batches', (t, 0, good + good)), ('future', (t, 0, k.batch([b'v'], timestamp=1 << 42))),
        ('four without key', (compacted, 0, k.batch([b'v'] * 4)))])


@scenario('texts-auto-creation', 'Metadata that creates a topic, and names that it cannot create')
def _(r):
    def step(name):
        rows = ask(r.p, 'Metadata', 12, topics=[dict(name=name, topic_id=ZERO)], allow_auto_topic_creation=True)['topics']
        return [[x['error_code'], x['name'], x['is_internal'], id_kind(x['topic_id']), len(x['partitions'])]
                for x in rows]
    attempts(r, step, [('new', r.name('auto')), ('bad', 'a b'), ('empty', ''), ('long', 'x' * 250), ('metadata log', '__cluster_metadata')])
    taken = new_topic(r, 'x.y')
    attempts(r, step, [('collides', taken.replace('.', '_'))])
