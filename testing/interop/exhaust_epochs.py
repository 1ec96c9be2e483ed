#!/usr/bin/env python3
"""Brings transactional ids to the epoch before the last one that a client can hold, by a new instance again and again.

  exhaust_epochs.py --bootstrap HOST:PORT ID…
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

# The next instance gets 32766.
LAST_EPOCH = 32765
WINDOW = 200


def exhaust(probe, name):
    error, _, epoch = probe.init_pid(name)
    sent = []
    while error == 'NONE' and (sent or epoch < LAST_EPOCH):
        while len(sent) < min(WINDOW, LAST_EPOCH - epoch):
            request = k.InitProducerIdRequest[4](transactional_id=name, transaction_timeout_ms=60000, producer_id=-1, producer_epoch=-1)
            sent.append(probe.conn.send(request))
        answer = probe.conn.receive(sent.pop(0))
        error, epoch = k.error_name(answer.error_code), answer.producer_epoch
    return error, epoch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--bootstrap', required=True)
    parser.add_argument('ids', nargs='+')
    options = parser.parse_args()
    host, _, port = options.bootstrap.rpartition(':')
    probe = k.Probe(host, int(port))
    for name in options.ids:
        probe.find_coordinator(name)
        error, epoch = exhaust(probe, name)
        if (error, epoch) != ('NONE', LAST_EPOCH):
            sys.exit(f'{name} came to epoch {epoch}: {error}')


if __name__ == '__main__':
    main()
