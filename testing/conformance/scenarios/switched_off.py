"""Share groups and streams groups where their features are switched off: shown in ApiVersions, and refused in each request.

Kafka's answers are those of a node that was formatted with `--feature share.version=0 --feature streams.version=0`.
"""
import struct

from cluster_apis import ask, compact, refusal
from scenario import Skip, scenario

TOPIC_ID = bytes(range(1, 17))
GROUP, MEMBER = compact(b'g'), compact(b'm')
ONE_TOPIC_ID = b'\2' + TOPIC_ID


def switched_off(run, feature):
    """Skips where the feature has a level."""
    if run.p.features().get(feature):
        raise Skip(feature + ' is on')


def in_topics(answer, has_throttle):
    """The first partition's error of an answer by topics."""
    throttle = [answer.take('i')] if has_throttle else []
    topics = answer.take('B') - 1
    answer.data = answer.data[16:]
    partitions = answer.take('B') - 1
    return throttle + [topics, partitions, answer.take('i'), answer.error(), answer.text(), answer.rest()]


@scenario('admin-switched-off-share-groups', 'requests for share groups where share.version is 0')
def share_groups(run):
    switched_off(run, 'share.version')
    body = GROUP + MEMBER + struct.pack('>i', 0) + b'\0\0\0'
    run.note('heartbeat', refusal(ask(run, 76, 1, body)))
    answer = ask(run, 77, 1, b'\3' + GROUP + compact(b'h') + b'\0\0')
    run.note('describe', [answer.take('i'), answer.take('B') - 1, answer.error(), answer.text(), answer.rest()])
    for version in (1, 2):
        sizes = struct.pack('>iiiiii', 0, 10, 1, 1000, 10, 10)
        body = GROUP + MEMBER + sizes + (b'\0\0' if version == 2 else b'') + b'\1\1\0'
        run.note('fetch v%d' % version, refusal(ask(run, 78, version, body)))
        body = GROUP + MEMBER + struct.pack('>i', 0) + (b'\0' if version == 2 else b'') + b'\1\0'
        run.note('acknowledge v%d' % version, refusal(ask(run, 79, version, body)))
    answer = ask(run, 90, 0, b'\2' + GROUP + b'\1\0\0')
    run.note('describe offsets', answer.rest())
    body = GROUP + b'\2' + compact(b't') + b'\2' + struct.pack('>iq', 0, 0) + b'\0\0\0'
    run.note('alter offsets', refusal(ask(run, 91, 0, body)))
    body = GROUP + b'\2' + compact(b't') + b'\0\0'
    run.note('delete offsets', refusal(ask(run, 92, 0, body)))


@scenario('admin-switched-off-share-state', "requests for the state of share groups, which are a broker's, where share.version is 0")
def share_state(run):
    switched_off(run, 'share.version')
    batches = b'\1'
    partition = {
        83: lambda v: struct.pack('>iiq', 0, 1, 0),
        84: lambda v: struct.pack('>ii', 0, 1),
        85: lambda v: struct.pack('>iiiq', 0, 1, 1, 0) + (struct.pack('>i', 0) if v else b'') + batches,
        86: lambda v: struct.pack('>i', 0),
        87: lambda v: struct.pack('>ii', 0, 1),
    }
    for api_key, fields in partition.items():
        for version in (0, 1) if api_key in (85, 87) else (0,):
            body = GROUP + ONE_TOPIC_ID + b'\2' + fields(version) + b'\0' + b'\0' + b'\0'
            run.attempt('api %d v%d' % (api_key, version), lambda: in_topics(ask(run, api_key, version, body), False))


@scenario('admin-switched-off-streams-groups', 'requests for streams groups where streams.version is 0')
def streams_groups(run):
    switched_off(run, 'streams.version')
    for version in (0, 1):
        body = GROUP + MEMBER + struct.pack('>ii', 0, 0) + b'\0\0' + struct.pack('>i', -1) + b'\xff' + b'\0\0\0' + b'\0\xff' + b'\0\0\0\0' + b'\0'
        run.note('heartbeat v%d' % version, refusal(ask(run, 88, version, body)))
        body = b'\2' + GROUP + b'\0' + (b'\0' if version else b'') + b'\0'
        answer = ask(run, 89, version, body)
        run.note('describe v%d' % version, [answer.take('i'), answer.take('B') - 1, answer.error(), answer.text(), answer.rest()])
    body = GROUP + MEMBER + struct.pack('>i', 0) + b'\1\1\0' + b'\0'
    run.note('topology', refusal(ask(run, 93, 0, body)))
