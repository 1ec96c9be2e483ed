"""What strangers and heavy users do to a broker; each case is a function of a port (and of the process where it says so) that returns what
it holds open, and a few words. Counts are named: everything is bounded."""
import gzip
import signal
import socket
import struct
import time

from wire import Client, batch, create, encode, fetch_value, framed, produce, record, simple

# A fetch is answered with at most 57.7 MB: over less it waits, over more it is answered at once, as in Kafka.
PIECE, WAITED_MB, FILLED_MB = 900_000, 54, 60
PARKED, UNREAD, PINNED, PINNED_BYTES = 50, 40, 20, 20_000_000
PRODUCERS, REPEATS = 500, 20_000
# What costs the square of the pending members takes half a minute.
JOINS, JOIN_CONNECTIONS, JOINS_MAX_S = 30_000, 50, 10
PARTITIONS, CONNECTIONS, NONSENSE = 400, 1_500, 3_000
BOMBS, BOMB_PARTITIONS, BOMB_BYTES = 4, 4, 100_000_000
READERS = 10
PATIENCE_S = 60


class Hurt(Exception):
    """What may not happen has happened."""


def created(port, topic, partitions=1):
    client = Client(port, timeout=PATIENCE_S)
    create(client, [(topic, partitions)])
    for partition in (0, partitions - 1):
        for _ in range(200):
            if not produce(client, topic, simple([b'x']), partition=partition)['error_code']:
                break
            time.sleep(0.05)
    return client


def filled(port, megabytes=FILLED_MB, topic='large'):
    client, records = created(port, topic), simple([bytes(PIECE)])
    for _ in range(megabytes * 1_000_000 // PIECE):
        produce(client, topic, records)
    return client


def parked(port):
    """B6: fetches that wait for more than there will ever be, over much data; then other partitions and this one are written to."""
    client = filled(port, WAITED_MB)
    held = [Client(port) for _ in range(PARKED)]
    for one in held:
        one.send('Fetch', 11, fetch_value('large', max_wait=30_000, min_bytes=2**31 - 1))
    time.sleep(1)
    times = []
    for _ in range(5):
        begin = time.monotonic()
        produce(client, 'large', simple([b'x']))
        times.append(1000 * (time.monotonic() - begin))
    time.sleep(1)
    return held, f'{PARKED} fetches; a produce under them took up to {max(times):.0f} ms'


def asked(port, name, version, value):
    """Sends a request, and waits for the size of the answer, not for the answer."""
    client, body, begin = Client(port, timeout=PATIENCE_S), encode(name, version, value), time.monotonic()
    client.socket.sendall(framed(body))
    size = struct.unpack('>i', client.receive(4))[0]
    return [client], f'{len(body) // 1000} kB asked for {size // 1000} kB, in {1000 * (time.monotonic() - begin):.0f} ms'


def describe_producers(port):
    """B7: a partition with many producers, named again and again."""
    client = created(port, 'producers')
    for at in range(PRODUCERS):
        produce(client, 'producers', simple([b'x'], producer=(at, 0, 0)), acks=1)
    return asked(port, 'DescribeProducers', 0, {'topics': [{'name': 'producers', 'partition_indexes': [0] * REPEATS}]})


def describe_transactions(port):
    """B7: a transaction over many partitions, named again and again."""
    client, wide = created(port, 'wide', PARTITIONS), 'v3_and_below_'
    for _ in range(200):
        got = client.call('InitProducerId', 4, {'transactional_id': 'described', 'transaction_timeout_ms': 600_000, 'producer_id': -1, 'producer_epoch': -1})
        if not got['error_code']:
            break
        client.call('FindCoordinator', 4, {'key_type': 1, 'coordinator_keys': ['described']})
        time.sleep(0.05)
    client.call('AddPartitionsToTxn', 3, {
        f'{wide}transactional_id': 'described', f'{wide}producer_id': got['producer_id'], f'{wide}producer_epoch': got['producer_epoch'],
        f'{wide}topics': [{'name': 'wide', 'partitions': list(range(PARTITIONS))}]})
    return asked(port, 'DescribeTransactions', 0, {'transactional_ids': ['described'] * 77_500})


def coordinated(port, group):
    client = Client(port, timeout=PATIENCE_S)
    for _ in range(200):
        got = client.call('FindCoordinator', 4, {'key_type': 0, 'coordinator_keys': [group]})
        if not got['coordinators'][0]['error_code']:
            return client
        time.sleep(0.05)
    raise Hurt(f'no coordinator of {group}')


def offset_fetch(port):
    """B7: the offsets of one group, asked for again and again."""
    created(port, 'committed', PARTITIONS)
    client = coordinated(port, 'offsets')
    offsets = [{'partition_index': at, 'committed_offset': 1, 'committed_leader_epoch': -1, 'committed_metadata': 'm' * 1000} for at in range(PARTITIONS)]
    client.call('OffsetCommit', 7, {'group_id': 'offsets', 'generation_id_or_member_epoch': -1, 'member_id': '',
                                    'topics': [{'name': 'committed', 'partitions': offsets}]})
    return asked(port, 'OffsetFetch', 8, {'groups': [{'group_id': 'offsets', 'topics': None}] * 700})


def consumer_group_describe(port):
    """B7: a group with long subscriptions, named again and again."""
    client = coordinated(port, 'described-848')
    client.call('ConsumerGroupHeartbeat', 1, {
        'group_id': 'described-848', 'member_id': 'm1', 'member_epoch': 0, 'rebalance_timeout_ms': 60_000,
        'subscribed_topic_names': ['t' * 200 + str(at) for at in range(4_000)], 'topic_partitions': []})
    return asked(port, 'ConsumerGroupDescribe', 0, {'group_ids': ['described-848'] * 350})


def joins(port):
    """B11: members that are given an id and never come back."""
    coordinated(port, 'pending')
    value = {'group_id': 'pending', 'session_timeout_ms': 300_000, 'rebalance_timeout_ms': 60_000, 'member_id': '',
             'protocol_type': 'consumer', 'protocols': [{'name': 'range', 'metadata': b'0123456789'}]}
    held = [Client(port, timeout=PATIENCE_S) for _ in range(JOIN_CONNECTIONS)]
    begin = time.monotonic()
    for _ in range(JOINS // JOIN_CONNECTIONS):
        for one in held:
            one.send('JoinGroup', 5, value)
        for one in held:
            one.answer('JoinGroup', 5)
        if time.monotonic() - begin > JOINS_MAX_S:
            raise Hurt(f'{JOINS} joins take longer than {JOINS_MAX_S} s')
    return held, f'{JOINS} in {time.monotonic() - begin:.1f} s'


def handles(port):
    """B12, under a limit of handles: more partitions and then more connections than handles; those that are there go on."""
    created(port, 'many', PARTITIONS)
    client = Client(port, timeout=PATIENCE_S)
    codes = {produce(client, 'many', simple([b'x']), partition=at)['error_code'] for at in range(PARTITIONS)}
    if codes != {0}:
        raise Hurt(f'produces to {PARTITIONS} partitions were answered {sorted(codes)}')
    held = [client]
    for _ in range(CONNECTIONS):
        one = socket.socket()
        one.settimeout(5)
        try:
            one.connect(('127.0.0.1', port))
        except OSError:
            one.close()
            break
        held.append(one)
    time.sleep(1)
    codes = {produce(client, 'many', simple([b'x']), partition=at)['error_code'] for at in range(0, PARTITIONS, 10)}
    if codes != {0}:
        raise Hurt(f'under {CONNECTIONS} connections produces were answered {sorted(codes)}')
    return held, f'{PARTITIONS} partitions, {len(held) - 1} connections'


def nonsense(port):
    """B13, where nobody reads the log: each of many connections sends what is no request."""
    client = created(port, 'logged')
    for _ in range(NONSENSE):
        with socket.socket() as one:
            one.settimeout(5)
            try:
                one.connect(('127.0.0.1', port))
                one.sendall(framed(b'\x7f\xff' + b'A' * 60))
                one.recv(1)
            except ConnectionError:
                pass
    if code := produce(client, 'logged', simple([b'x']))['error_code']:
        raise Hurt(f'a produce was answered {code}')
    return [client], f'{NONSENSE} connections'


def signals(port, process, names):
    """B14: signals that are not the end."""
    client = created(port, 'signalled')
    for name in names:
        process.send_signal(getattr(signal, name))
        time.sleep(0.3)
        if process.poll() is not None:
            raise Hurt(f'{name} ended the process: {process.poll()}')
        if code := produce(client, 'signalled', simple([b'x']))['error_code']:
            raise Hurt(f'after {name} a produce was answered {code}')
    return [client], ', '.join(names)


def unread(port):
    """B8: fetches of all there is, by clients that do not read."""
    filled(port)
    held = [Client(port, rcvbuf=4096) for _ in range(UNREAD)]
    for one in held:
        one.send('Fetch', 11, fetch_value('large'))
    time.sleep(4)
    return held, f'{UNREAD} fetches of 55 MB'


def pinned(port):
    """B9: members of ten bytes, each in a frame with an unknown tag of 20 MB. The figures are those two seconds after the last."""
    held = []
    for at in range(PINNED):
        held.append(one := coordinated(port, f'pinned-{at}'))
        value = {'group_id': f'pinned-{at}', 'session_timeout_ms': 300_000, 'rebalance_timeout_ms': 60_000, 'member_id': '',
                 'protocol_type': 'consumer', 'protocols': [{'name': 'range', 'metadata': b'0123456789'}]}
        value['member_id'] = one.call('JoinGroup', 6, value)['member_id']
        one.call('JoinGroup', 6, value, extra=[(99, bytes(PINNED_BYTES))])
    time.sleep(2)
    return held, f'{PINNED} members in frames of 20 MB'


def bombs(port):
    """B10: requests whose small batches are large once they are decompressed."""
    client = created(port, 'bombs', BOMB_PARTITIONS)
    client.close()
    small = gzip.compress(record(None, bytes(BOMB_BYTES)), 6)
    records, held = batch(small, 1, codec=1), []
    for _ in range(BOMBS):
        held.append(one := Client(port, timeout=PATIENCE_S))
        partitions = [{'index': at, 'records': records} for at in range(BOMB_PARTITIONS)]
        one.send('Produce', 9, {'acks': -1, 'timeout_ms': 30_000, 'transactional_id': None,
                                'topic_data': [{'name': 'bombs', 'partition_data': partitions}]})
    begin = time.monotonic()
    codes = set()
    for one in held:
        codes |= {got['error_code'] for got in one.answer('Produce', 9)['responses'][0]['partition_responses']}
    return held, f'{BOMBS} requests of {BOMB_PARTITIONS * len(small) // 1000} kB answered {sorted(codes)}, {time.monotonic() - begin:.1f} s'


def comes_back(port):
    """B15: large answers, one after the other, that were read to the end; the memory two seconds after the last connection."""
    filled(port)
    for _ in range(READERS):
        client = Client(port, timeout=PATIENCE_S)
        client.send('Fetch', 11, fetch_value('large'))
        client.frame()
        client.close()
    time.sleep(2)
    return [], f'{READERS} answers of 55 MB'
