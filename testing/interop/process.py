"""A broker's process that is stopped and started again: Fencepost's, or Apache Kafka's behind the same command line (kafka.sh)."""
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'conformance'))

import kprobe as k  # noqa: E402
from kprobe import UpdateFeaturesRequest  # noqa: E402

START_S, LOOK_AGAIN_S = 180, 0.02
# Below those that the system gives to clients, so that a port stays free while nobody listens.
PORTS = range(20_000, 32_000)


def free_port():
    """A port that nobody listens at."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as one:
            try:
                one.bind(('127.0.0.1', port))
                return port
            except OSError:
                continue
    raise AssertionError('no free port')


class Node:
    """One executable that knows `serve`, one directory, one port; `settings` are lines of Kafka's properties. Its log stands beside the directory."""

    def __init__(self, executable, data, *settings):
        self.port, self.process, self.log = free_port(), None, pathlib.Path(f'{data}.log')
        given = [part for setting in settings for part in ('-X', setting)]
        self.command = [executable, 'serve', '--data', data, '--listen', f'127.0.0.1:{self.port}', *given]

    def start(self, stderr=None):
        """A client of the broker, which answers. The log goes to `stderr` where one is given."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open('ab') as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr or log)
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self.probe()
            except (OSError, k.Closed):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_AGAIN_S)

    def probe(self):
        """A raw client on a connection of its own."""
        return k.Probe('127.0.0.1', self.port)

    def set_level(self, level):
        """Raises or lowers `transaction.version`, and waits until the broker shows it."""
        probe, deadline = self.probe(), time.monotonic() + START_S
        now = probe.features().get('transaction.version', 0)
        if now != level:
            update = UpdateFeaturesRequest.FeatureUpdateKey(feature='transaction.version', max_version_level=level,
                                                            upgrade_type=1 if level > now else 2)
            probe.conn.call(UpdateFeaturesRequest[2](timeout_ms=30000, feature_updates=[update], validate_only=False))
        while (shown := probe.features().get('transaction.version', 0)) != level:
            if time.monotonic() > deadline:
                raise AssertionError(f'transaction.version is {shown}, not {level}')
            time.sleep(LOOK_AGAIN_S)

    def end(self, how=signal.SIGKILL):
        """Signals the process and waits until it is gone."""
        self.process.send_signal(how)
        self.process.wait()
