#!/usr/bin/env python3
"""A well-behaved client: neighbour.py PORT. Produces a small record every 20 ms on a topic of its own, and on end of input prints as JSON
how many it produced, the 99th percentile and the longest in milliseconds, and the errors."""
import json
import select
import sys
import time

from wire import Client, create, produce, simple

EVERY_S, PATIENCE_S, TOPIC = 0.02, 20, 'neighbour'


def connect(port):
    client = Client(port, timeout=PATIENCE_S)
    create(client, [(TOPIC, 1)])
    return client


def main():
    port, times_ms, errors = int(sys.argv[1]), [], []
    client, records = connect(port), simple([b'x' * 100])
    while produce(client, TOPIC, records)['error_code']:
        time.sleep(EVERY_S)  # The topic is new.
    print('ready', flush=True)
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        begin = time.monotonic()
        try:
            if code := produce(client, TOPIC, records)['error_code']:
                errors.append(f'error {code}')
        except (OSError, ValueError) as e:
            errors.append(f'{type(e).__name__} {e}')
            try:
                client = connect(port)
            except OSError:
                pass  # Counted when the next produce fails.
        times_ms.append(1000 * (time.monotonic() - begin))
    times_ms.sort()
    at = min(len(times_ms) - 1, len(times_ms) * 99 // 100)
    print(json.dumps({'count': len(times_ms), 'p99_ms': times_ms[at], 'max_ms': times_ms[-1], 'errors': errors[:3]}), flush=True)


main()
