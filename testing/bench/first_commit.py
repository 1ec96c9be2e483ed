#!/usr/bin/env python3
"""From the start of a broker's process to its first committed transaction.

  first_commit.py EXECUTABLE serve --data DIR --listen HOST:PORT [ARGUMENT]…

Starts the command, knocks at the port every millisecond, creates a topic, commits a transaction of one record, and stops the broker.
This process is up before the clock starts, so that no client's start is counted. Prints the milliseconds until the port answers
(`port_ms`) and until the commit is answered (`commit_ms`), as JSON. The conversation is that of the conformance suite's probe.
"""
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402

PATIENCE_S = 60
TOPIC, TXN = 'first', 'first-txn'


def knock(host, port, deadline):
    while True:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)


def commit(host, port):
    """One transaction, start to end; any refusal is an error."""
    probe = k.Probe(host, port)
    if probe.create_topic(TOPIC) not in ('NONE', 'TOPIC_ALREADY_EXISTS'):
        raise k.Closed('the topic is refused')
    if not probe.wait_topic(TOPIC) or probe.find_coordinator(TXN)[0] != 'NONE':
        raise k.Closed('no leader or coordinator')
    error, pid, epoch = probe.init_pid(TXN)
    if error == 'NONE':
        error = set(probe.add_partitions(TXN, pid, epoch, {TOPIC: [0]}).values()).pop()
    if error == 'NONE':
        error = probe.produce(TOPIC, k.batch([b'one record'], pid, epoch, 0, transactional=True), txn_id=TXN)[0]
    if error == 'NONE':
        error = probe.end_txn(TXN, pid, epoch, True)[0]
    if error != 'NONE':
        raise k.Closed(error)


def main():
    command = sys.argv[1:]
    host, _, port = command[command.index('--listen') + 1].rpartition(':')
    began = time.monotonic()
    broker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = began + PATIENCE_S
        knock(host, int(port), deadline)
        port_s = time.monotonic() - began
        while True:
            try:
                commit(host, int(port))
                break
            except (OSError, k.Closed):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001)
        commit_s = time.monotonic() - began
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(PATIENCE_S)
    print(json.dumps({'port_ms': round(port_s * 1000, 1), 'commit_ms': round(commit_s * 1000, 1)}))


if __name__ == '__main__':
    main()
