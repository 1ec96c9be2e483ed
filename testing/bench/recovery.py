#!/usr/bin/env python3
"""Recovery of a large log that nobody closed: Fencepost beside Apache Kafka, on the same files.

  recovery.py --fencepost BINARY [--directory DIR] [--gib N] [--records N] [--rounds N]

Fencepost makes a topic of one partition and is stopped. Its log is then replaced by N GiB of idempotent batches of N records of 1,000
bytes from 20 producers, in segments of 1 GiB, with indexes that are still empty; the recovery point is 0, the mark of a clean stop is
gone, and the last batch is torn. Each broker starts on a copy of that. The clock runs from the start of the process to the first fetch
that answers with records of offset 0; it must then tell where the log ends, too. Prints JSON. Needs twice the room for the log.
"""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'conformance'), str(HERE.parent / 'interop' / 'swap')]

import kprobe as k  # noqa: E402
from aiokafka.record.util import calc_crc32c  # noqa: E402
from node import Node  # noqa: E402

TOPIC, PRODUCERS, RECORD_BYTES = 'large', 20, 1000
SEGMENT_BYTES = 1 << 30
RECOVERED_S = 1800
# Where a batch has its base offset, checksum, what the checksum begins with, producer id and base sequence.
CRC_AT, SUMMED_AT, PRODUCER_AT, SEQUENCE_AT = 17, 21, 43, 53


def numbered(template, number, records):
    """The batch with that number: producers take turns, each counts its own records."""
    batch = bytearray(template)
    producer, turn = number % PRODUCERS, number // PRODUCERS
    struct.pack_into('>q', batch, 0, number * records)
    struct.pack_into('>q', batch, PRODUCER_AT, 1000 + producer)
    struct.pack_into('>i', batch, SEQUENCE_AT, turn * records)
    struct.pack_into('>I', batch, CRC_AT, calc_crc32c(bytes(batch[SUMMED_AT:])))
    return batch


def write(partition, size, records):
    """Fills the partition's directory; answers where the log ends after recovery."""
    for path in partition.iterdir():
        if path.suffix in ('.log', '.index', '.timeindex', '.txnindex', '.snapshot'):
            path.unlink()
    template = k.batch([bytes([97 + n % 26]) * RECORD_BYTES for n in range(records)], 1000, 0, 0, leader_epoch=0)
    count, number = size // len(template), 0
    while number < count:
        stem = partition / ('%020d' % (number * records))
        with open(str(stem) + '.log', 'wb', buffering=1 << 22) as log:
            while number < count and log.tell() + len(template) <= SEGMENT_BYTES:
                batch = numbered(template, number, records)
                number += 1
                log.write(batch if number < count else batch[:len(batch) // 2])
        for suffix in '.index', '.timeindex':
            pathlib.Path(str(stem) + suffix).touch()
    return (count - 1) * records


def make(folder, fencepost, size, records):
    """The directory that both brokers begin with, and where its log ends."""
    with Node(folder, fencepost) as node:
        node.start('fencepost')
        probe = node.probe()
        assert probe.create_topic(TOPIC, 1, retention_ms=-1) == 'NONE'
        assert probe.wait_topic(TOPIC, 1)
        # The first record makes the directory.
        assert probe.produce(TOPIC, k.batch([b'first']))[0] == 'NONE'
        node.end()
        (node.logs / '.kafka_cleanshutdown').unlink()
        checkpoint = node.logs / 'recovery-point-offset-checkpoint'
        lines = ['%s 0' % line.rpartition(' ')[0] if line.startswith(TOPIC + ' ') else line for line in checkpoint.read_text().split('\n')]
        checkpoint.write_text('\n'.join(lines))
        end = write(node.logs / (TOPIC + '-0'), size, records)
    subprocess.run(['sync', '-f', str(folder)], check=True)
    return node.logs, end


def seconds(folder, fencepost, logs, program, end):
    """From the start of the process on a copy to the first fetch that answers."""
    with Node(folder, fencepost) as node:
        shutil.copytree(logs, node.logs)
        subprocess.run(['sync', '-f', str(folder)], check=True)
        with open(folder / (program + '.log'), 'ab') as log:
            began = time.monotonic()
            node.program = program
            node.process = subprocess.Popen(node.command(program), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not answers(node):
            assert node.process.poll() is None, node.tail(program)
            assert time.monotonic() < began + RECOVERED_S, node.tail(program)
            time.sleep(0.005)
        took = time.monotonic() - began
        found = node.probe().hw(TOPIC)
        assert found == end, '%s recovered to offset %d, not %d' % (program, found, end)
    shutil.rmtree(folder)
    return round(took, 2)


def answers(node):
    try:
        probe = k.Probe(port=node.port, timeout_s=RECOVERED_S)
        try:
            fetched = probe.fetch(TOPIC)
        finally:
            probe.conn.close()
    except (OSError, k.Closed):
        return False
    return fetched['error'] == 'NONE' and bool(fetched['batches'])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--fencepost', required=True, type=pathlib.Path, help='the executable, built in release mode')
    parser.add_argument('--directory', type=pathlib.Path, help='where to work; a temporary one is made in it')
    parser.add_argument('--gib', type=float, default=10)
    parser.add_argument('--records', type=int, default=16, help='records of a batch')
    parser.add_argument('--rounds', type=int, default=1)
    options = parser.parse_args()
    took = {'kafka': [], 'fencepost': []}
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        began = time.monotonic()
        logs, end = make(pathlib.Path(scratch) / 'made', options.fencepost, int(options.gib * (1 << 30)), options.records)
        made = round(time.monotonic() - began, 1)
        for number in range(options.rounds):
            for program in took:
                took[program].append(seconds(pathlib.Path(scratch) / ('%s-%d' % (program, number)), options.fencepost, logs, program, end))
    print(json.dumps({'gib': options.gib, 'records_of_a_batch': options.records, 'records': end, 'made_s': made, 'kafka_s': took['kafka'],
                      'fencepost_s': took['fencepost'], 'ratio': round(min(took['fencepost']) / min(took['kafka']), 2)}))


if __name__ == '__main__':
    main()
