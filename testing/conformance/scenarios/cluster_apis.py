"""APIs that a broker's listener shows and one node has no use for: delegation tokens, and the quorum's and the cluster's members.

The protocol package has no schemas of these, so the bodies are written here byte by byte.
"""
import re
import struct

import kprobe as k
from scenario import scenario

CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKEN = 38, 39, 40, 41
UNREGISTER_BROKER, ADD_VOTER, REMOVE_VOTER, UNREGISTER_CONTROLLER = 64, 80, 81, 94
DAY_MS = 86400000


def ask(run, api_key, version, body, flexible=True):
    """One request with a body as bytes; the answer's body, a reader of it."""
    header = struct.pack('>hhih', api_key, version, 7, 1) + b'c' + (b'\0' if flexible else b'')
    frame = header + body
    answer = run.p.conn.raw(struct.pack('>i', len(frame)) + frame)
    assert struct.unpack('>i', answer[:4])[0] == 7
    return Reader(answer[5 if flexible else 4:])


class Reader:
    """Takes values off the front of an answer."""

    def __init__(self, data):
        self.data = data

    def take(self, form):
        """One number."""
        size = struct.calcsize('>' + form)
        value, = struct.unpack('>' + form, self.data[:size])
        self.data = self.data[size:]
        return value

    def error(self):
        """A code by its name."""
        return k.error_name(self.take('h'))

    def text(self):
        """A compact nullable text, shorter than 127 bytes or of two length bytes."""
        first = self.take('B')
        length = first if first < 128 else (first & 127) | self.take('B') << 7
        if length == 0:
            return None
        value, self.data = self.data[:length - 1].decode(), self.data[length - 1:]
        return value

    def rest(self):
        """What is left."""
        return self.data.hex()


def compact(data):
    """A compact text or bytes; None is null."""
    return b'\0' if data is None else bytes([len(data) + 1]) + data


def short(data):
    """A text before flexible versions."""
    return struct.pack('>h', len(data)) + data


@scenario('admin-tokens-without-secret', 'delegation tokens on a broker without a secret for them')
def tokens_without_secret(run):
    for version in (1, 2, 3):
        flexible = version > 1
        owner = b'\0\0' if version == 3 else b''
        renewers = b'\1' if flexible else struct.pack('>i', 0)
        tags = b'\0' if flexible else b''
        answer = ask(run, CREATE_TOKEN, version, owner + renewers + struct.pack('>q', DAY_MS) + tags, flexible)
        run.note('create v%d' % version, [answer.error(), answer.rest()])
        everyone = b'\0' if flexible else struct.pack('>i', -1)
        answer = ask(run, DESCRIBE_TOKEN, version, everyone + tags, flexible)
        run.note('describe v%d' % version, [answer.error(), answer.rest()])
        nobody = b'\1' if flexible else struct.pack('>i', 0)
        answer = ask(run, DESCRIBE_TOKEN, version, nobody + tags, flexible)
        run.note('describe of no owners v%d' % version, [answer.error(), answer.rest()])
    for version in (1, 2):
        flexible = version > 1
        hmac = compact(b'ab') if flexible else struct.pack('>i', 2) + b'ab'
        body = hmac + struct.pack('>q', DAY_MS) + (b'\0' if flexible else b'')
        for name, api_key in (('renew', RENEW_TOKEN), ('expire', EXPIRE_TOKEN)):
            answer = ask(run, api_key, version, body, flexible)
            run.note('%s v%d' % (name, version), [answer.error(), answer.rest()])


def refusal(answer):
    """Throttle time, error, text without the cluster's own id, and what is left."""
    throttle, error, text = answer.take('i'), answer.error(), answer.text()
    return [throttle, error, text and re.sub(r'(the cluster id ").*"', r'\1…"', text), answer.rest()]


@scenario('admin-unregister-nobody', 'UnregisterBroker and UnregisterController of ids that nobody has')
def unregister_nobody(run):
    for id_ in (99, -1):
        run.note('broker %d' % id_, refusal(ask(run, UNREGISTER_BROKER, 0, struct.pack('>i', id_) + b'\0')))
        run.note('controller %d' % id_, refusal(ask(run, UNREGISTER_CONTROLLER, 0, struct.pack('>i', id_) + b'\0')))


@scenario('admin-voters-of-a-static-quorum', 'AddRaftVoter and RemoveRaftVoter where the quorum is written in the settings')
def voters_of_a_static_quorum(run):
    directory = bytes(range(1, 17))
    listener = b'\2' + compact(b'CONTROLLER') + compact(b'localhost') + struct.pack('>H', 9093) + b'\0'
    for cluster in (None, b'another'):
        for version in (0, 1):
            body = compact(cluster) + struct.pack('>ii', 1000, 99) + directory + listener + (b'\1' if version else b'') + b'\0'
            run.note('add to %s v%d' % (cluster and cluster.decode(), version), refusal(ask(run, ADD_VOTER, version, body)))
        body = compact(cluster) + struct.pack('>i', 99) + directory + b'\0'
        run.note('remove from %s' % (cluster and cluster.decode()), refusal(ask(run, REMOVE_VOTER, 0, body)))
    body = compact(None) + struct.pack('>ii', 1000, 99) + directory + b'\1' + b'\0'
    # Kafka's text has the name of a Java class.
    run.note('add without listeners', refusal(ask(run, ADD_VOTER, 0, body))[:2])
    for id_, identity in ((-1, directory), (99, bytes(16))):
        body = compact(None) + struct.pack('>i', id_) + identity + b'\0'
        run.note('remove %d of %s' % (id_, identity.hex()), refusal(ask(run, REMOVE_VOTER, 0, body)))
        body = compact(None) + struct.pack('>ii', 1000, id_) + identity + listener + b'\0'
        run.note('add %d of %s' % (id_, identity.hex()), refusal(ask(run, ADD_VOTER, 0, body)))
    run.note('controller of this node', refusal(ask(run, UNREGISTER_CONTROLLER, 0, struct.pack('>i', 1) + b'\0')))
