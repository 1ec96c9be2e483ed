"""A small raw client: requests of every API and version, written from the schema of this tree, and record batches."""
import pathlib
import re
import socket
import struct
import sys
import time
import uuid as uuidlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'conformance'))

from kprobe import crc32c  # noqa: E402

SCHEMA = pathlib.Path(__file__).resolve().parents[3] / 'crates/protocol/schema/schema.txt'


def span(text):
    out = []
    for part in text.split(','):
        if part.endswith('+'):
            out.append((int(part[:-1]), 1 << 15))
        elif '-' in part:
            low, high = part.split('-')
            out.append((int(low), int(high)))
        else:
            out.append((int(part), int(part)))
    return out


def within(spans, version):
    return any(low <= version <= high for low, high in spans)


class Field:
    def __init__(self, name, kind, versions, attrs):
        self.name, self.array, self.kind = name, kind.startswith('[]'), kind.removeprefix('[]')
        self.versions, self.null, self.tag, self.tag_versions = span(versions), [], None, []
        self.fields = []
        if self.kind == 'struct' and 'default:null' in attrs:
            self.null = self.versions
        for attr in attrs:
            if attr.startswith('null:'):
                self.null = span(attr[5:])
            elif attr.startswith('tag:'):
                number, versions = attr[4:].split('@')
                self.tag, self.tag_versions = int(number), span(versions)


class Message:
    def __init__(self, kind, key, name, low, high, flexible):
        self.kind, self.key, self.name, self.low, self.high, self.flexible = kind, key, name, low, high, flexible
        self.fields = []


def load(path=SCHEMA):
    messages, stack = [], []
    for line in open(path):
        line = line.rstrip('\n')
        if not line.strip() or line.startswith('#'):
            continue
        words = line.split()
        if not line.startswith(' '):
            at = words.index('versions')
            low, _, high = words[at + 1].partition('-')
            flexible = words[words.index('flexible') + 1]
            flexible = 1 << 15 if flexible == 'none' else int(flexible.rstrip('+').split('-')[0])
            key = int(words[1]) if re.fullmatch(r'-?\d+', words[1]) else None
            name = words[2] if key is not None else words[1]
            message = Message(words[0], key, name, int(low), int(high or low), flexible)
            messages.append(message)
            stack = [(0, message)]
            continue
        depth = len(line) - len(line.lstrip())
        while stack[-1][0] >= depth:
            stack.pop()
        field = Field(words[0], words[1], words[2], words[3:])
        stack[-1][1].fields.append(field)
        stack.append((depth, field))
    return messages


ALL = load()
REQUEST = {m.key: m for m in ALL if m.kind == 'request'}
RESPONSE = {m.key: m for m in ALL if m.kind == 'response'}
BY_NAME = {m.name.removesuffix('Request'): m for m in ALL if m.kind == 'request'}


def uvarint(value):
    out = bytearray()
    value &= 0xffffffff
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value):
    return uvarlong((value << 1) ^ (value >> 63))


def uvarlong(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


FIXED = {'int8': '>b', 'int16': '>h', 'uint16': '>H', 'int32': '>i', 'uint32': '>I', 'int64': '>q', 'float64': '>d'}


def write(fields, value, version, flexible, extra=()):
    """value: dict by field name; what is missing is zero, empty or null where allowed. extra: (tag, bytes) at the end."""
    out, tagged = [], []
    for field in fields:
        if not within(field.versions, version):
            continue
        if field.tag is not None and within(field.tag_versions, version):
            if field.name in value:
                tagged.append((field.tag, write_field(field, value[field.name], version, flexible)))
            continue
        out.append(write_field(field, value.get(field.name, MISSING), version, flexible))
    if flexible:
        tagged += list(extra)
        out.append(uvarint(len(tagged)))
        for tag, data in sorted(tagged):
            out += [uvarint(tag), uvarint(len(data)), data]
    return b''.join(out)


MISSING = object()


def length(count, flexible, short=False):
    if flexible:
        return uvarint(0 if count is None else count + 1)
    return struct.pack('>h' if short else '>i', -1 if count is None else count)


def write_field(field, value, version, flexible):
    nullable = within(field.null, version) if field.null else False
    if field.array:
        if value is MISSING:
            value = None if nullable else []
        if value is None:
            return length(None, flexible)
        return length(len(value), flexible) + b''.join(write_one(field, item, version, flexible, False) for item in value)
    return write_one(field, value, version, flexible, nullable)


def write_one(field, value, version, flexible, nullable):
    kind = field.kind
    if kind in FIXED:
        return struct.pack(FIXED[kind], 0 if value is MISSING else value)
    if kind == 'boolean':
        return b'\1' if value is not MISSING and value else b'\0'
    if kind == 'uuid':
        return bytes(16) if value is MISSING else value
    if kind == 'struct':
        if nullable:
            if value is MISSING or value is None:
                return b'\xff'
            return b'\1' + write(field.fields, value, version, flexible)
        return write(field.fields, {} if value is MISSING else value, version, flexible)
    if value is MISSING:
        value = None if nullable else b''
    if value is None:
        return length(None, flexible, kind == 'string')
    if isinstance(value, str):
        value = value.encode()
    return length(len(value), flexible, kind == 'string') + bytes(value)


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        piece = self.data[self.at:self.at + count]
        if len(piece) != count:
            raise ValueError('short answer')
        self.at += count
        return piece

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value
            shift += 7


def read(fields, cursor, version, flexible):
    value = {}
    for field in fields:
        if not within(field.versions, version) or field.tag is not None and within(field.tag_versions, version):
            continue
        value[field.name] = read_field(field, cursor, version, flexible)
    if flexible:
        by_tag = {field.tag: field for field in fields if field.tag is not None}
        for _ in range(cursor.uvarint()):
            tag = cursor.uvarint()
            data = cursor.take(cursor.uvarint())
            if tag in by_tag:
                value[by_tag[tag].name] = read_field(by_tag[tag], Cursor(data), version, flexible)
    return value


def read_length(cursor, flexible, short=False):
    if flexible:
        return cursor.uvarint() - 1
    return struct.unpack('>h', cursor.take(2))[0] if short else struct.unpack('>i', cursor.take(4))[0]


def read_field(field, cursor, version, flexible):
    if field.array:
        count = read_length(cursor, flexible)
        return None if count < 0 else [read_one(field, cursor, version, flexible, False) for _ in range(count)]
    return read_one(field, cursor, version, flexible, bool(field.null) and within(field.null, version))


def read_one(field, cursor, version, flexible, nullable):
    kind = field.kind
    if kind in FIXED:
        return struct.unpack(FIXED[kind], cursor.take(struct.calcsize(FIXED[kind])))[0]
    if kind == 'boolean':
        return cursor.take(1) != b'\0'
    if kind == 'uuid':
        return cursor.take(16)
    if kind == 'struct':
        if nullable and cursor.take(1) == b'\xff':
            return None
        return read(field.fields, cursor, version, flexible)
    count = read_length(cursor, flexible, kind == 'string')
    if count < 0:
        return None
    data = cursor.take(count)
    return data.decode('utf8', 'replace') if kind == 'string' else data


def header(key, version, correlation, client_id, flexible):
    client = client_id if client_id is None or isinstance(client_id, bytes) else client_id.encode()
    out = struct.pack('>hhi', key, version, correlation)
    out += struct.pack('>h', -1) if client is None else struct.pack('>h', len(client)) + client
    return out + (b'\0' if flexible else b'')


def encode(name, version, value, correlation=1, client_id='hostile', extra=()):
    message = BY_NAME[name]
    flexible = version >= message.flexible
    return header(message.key, version, correlation, client_id, flexible) + write(message.fields, value, version, flexible, extra)


def framed(body):
    return struct.pack('>i', len(body)) + body


class Client:
    def __init__(self, port, timeout=30, client_id='hostile', host='127.0.0.1', rcvbuf=None):
        self.socket = socket.socket()
        if rcvbuf:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation, self.client_id = 0, client_id

    def close(self):
        self.socket.close()

    def send(self, name, version, value, extra=()):
        self.correlation += 1
        self.socket.sendall(framed(encode(name, version, value, self.correlation, self.client_id, extra)))
        return self.correlation

    def receive(self, count):
        out = bytearray()
        while len(out) < count:
            piece = self.socket.recv(min(1 << 20, count - len(out)))
            if not piece:
                raise ConnectionError('closed')
            out += piece
        return bytes(out)

    def frame(self):
        return self.receive(struct.unpack('>i', self.receive(4))[0])

    def answer(self, name, version):
        message = BY_NAME[name]
        response = RESPONSE[message.key]
        data = self.frame()
        cursor = Cursor(data)
        cursor.take(4)
        flexible = version >= response.flexible
        if flexible and name != 'ApiVersions':
            for _ in range(cursor.uvarint()):
                cursor.uvarint()
                cursor.take(cursor.uvarint())
        return read(response.fields, cursor, version, flexible)

    def call(self, name, version, value=None, extra=()):
        self.send(name, version, value or {}, extra)
        return self.answer(name, version)


# ---- record batches

def record(key, value, headers=(), offset_delta=0, time_delta=0):
    body = b'\0' + varint(time_delta) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name + (varint(-1) if content is None else varint(len(content)) + content)
    return varint(len(body)) + body


def batch(payload, count, codec=0, attributes=0, producer=(-1, -1, -1), base_time=None, last_delta=None, base_offset=0, magic=2):
    base_time = int(time.time() * 1000) if base_time is None else base_time
    last_delta = count - 1 if last_delta is None else last_delta
    rest = struct.pack('>hiqqqhii', attributes | codec, last_delta, base_time, base_time, *producer, count) + payload
    return struct.pack('>qiibI', base_offset, 4 + 1 + 4 + len(rest), 0, magic, crc32c(rest)) + rest


def simple(values, **named):
    return batch(b''.join(record(None, value, offset_delta=at) for at, value in enumerate(values)), len(values), **named)


def produce(client, topic, records, partition=0, acks=-1, version=9, transactional_id=None, timeout=30000):
    value = {'acks': acks, 'timeout_ms': timeout, 'transactional_id': transactional_id,
             'topic_data': [{'name': topic, 'partition_data': [{'index': partition, 'records': records}]}]}
    client.send('Produce', version, value)
    if acks == 0:
        return None
    return client.answer('Produce', version)['responses'][0]['partition_responses'][0]


def create(client, topics, version=7, timeout=60000):
    """topics: (name, partitions[, configs])"""
    value = {'timeout_ms': timeout, 'topics': [
        {'name': t[0], 'num_partitions': t[1], 'replication_factor': 1,
         'configs': [{'name': k, 'value': v} for k, v in (t[2] if len(t) > 2 else {}).items()]} for t in topics]}
    return [(r['name'], r['error_code'], r.get('error_message')) for r in client.call('CreateTopics', version, value)['topics']]


def fetch_value(topic, partitions=(0,), offset=0, max_wait=500, min_bytes=1, max_bytes=57671680, part_bytes=1 << 30, isolation=0):
    return {'replica_id': -1, 'max_wait_ms': max_wait, 'min_bytes': min_bytes, 'max_bytes': max_bytes, 'isolation_level': isolation,
            'session_id': 0, 'session_epoch': -1, 'topics': [{'topic': topic, 'partitions': [
                {'partition': p, 'current_leader_epoch': -1, 'fetch_offset': offset, 'last_fetched_epoch': -1,
                 'log_start_offset': -1, 'partition_max_bytes': part_bytes} for p in partitions]}], 'forgotten_topics_data': []}
