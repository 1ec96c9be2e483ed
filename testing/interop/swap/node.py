"""One directory, and whichever program runs on it."""
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

import kprobe

KAFKA = pathlib.Path(__file__).resolve().parents[1] / 'kafka.sh'
READY_S = 90
STOP_S = 60
# What both programs are told, with what one node is told besides.
SETTINGS = {'offsets.topic.num.partitions': 3, 'offsets.topic.replication.factor': 1, 'transaction.state.log.num.partitions': 3,
            'transaction.state.log.replication.factor': 1, 'transaction.state.log.min.isr': 1, 'group.initial.rebalance.delay.ms': 0,
            'auto.create.topics.enable': 'false', 'log.cleaner.backoff.ms': 1000, 'transaction.max.timeout.ms': 900000,
            # A member that could not say goodbye must be forgotten before the next swap.
            'group.min.session.timeout.ms': 1000}


def two_free_ports():
    """A port whose neighbour is free too: the controller's. Below those that the system gives to clients, so that they stay free."""
    for port in random.sample(range(20000, 32000, 2), 100):
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(('127.0.0.1', port))
                two.bind(('127.0.0.1', port + 1))
                return port
            except OSError:
                continue
    raise AssertionError('no free ports')


class Node:
    """The directory; `program` runs on it, or ran last, and `other` comes next."""

    def __init__(self, folder, fencepost, settings=()):
        self.settings = {**SETTINGS, **dict(settings)}
        self.folder, self.logs = folder, folder / 'logs'
        self.executables = {'fencepost': fencepost.resolve(), 'kafka': KAFKA}
        self.port, self.program, self.other, self.process = two_free_ports(), None, 'kafka', None
        folder.mkdir(parents=True, exist_ok=True)
        assert not self.logs.exists(), '%s is there already' % self.logs
        (folder / 'server.properties').write_text('\n'.join([
            'process.roles=broker,controller', 'node.id=1', 'log.dirs=%s' % self.logs,
            'listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d' % (self.port, self.port + 1),
            'advertised.listeners=PLAINTEXT://127.0.0.1:%d' % self.port, 'controller.listener.names=CONTROLLER',
            'controller.quorum.bootstrap.servers=127.0.0.1:%d' % (self.port + 1),
            'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT', 'initial.broker.registration.timeout.ms=60000',
            *('%s=%s' % pair for pair in self.settings.items())]) + '\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def bootstrap(self):
        return '127.0.0.1:%d' % self.port

    def command(self, program):
        if program == 'kafka':
            return [str(KAFKA), 'serve', '--data', str(self.folder)]
        settings = [part for pair in self.settings.items() for part in ('-X', '%s=%s' % pair)]
        return [str(self.executables['fencepost']), 'serve', '--data', str(self.logs), '--listen', self.bootstrap, *settings]

    def start(self, program):
        """Starts a program; answers how many seconds it took to be ready."""
        began = time.time()
        self.other, self.program = ('kafka' if program == 'fencepost' else 'fencepost'), program
        with open(self.folder / (program + '.log'), 'ab') as log:
            env = dict(os.environ, KAFKA_HEAP=os.environ.get('KAFKA_HEAP', '512m'))
            self.process = subprocess.Popen(self.command(program), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=env)
        line = []
        reader = threading.Thread(target=lambda: line.append(self.process.stdout.readline().decode()), daemon=True)
        reader.start()
        while not line and self.process.poll() is None and time.time() < began + READY_S:
            reader.join(0.05)
        assert line and line[0].startswith('fencepost ready '), '%s did not start: %s' % (program, self.tail(program))
        return time.time() - began

    def end(self, kill=False):
        """Ends the program; answers how many seconds it took."""
        began = time.time()
        assert self.process.poll() is None, '%s is gone: %s' % (self.program, self.tail(self.program))
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        status = self.process.wait(STOP_S)
        self.process.stdout.close()
        # A JVM that has ended by SIGTERM says so in its status.
        assert kill or status in (0, 128 + signal.SIGTERM, -signal.SIGTERM), '%s ended with %d: %s' % (self.program, status, self.tail(self.program))
        assert kill or (self.logs / '.kafka_cleanshutdown').exists(), '%s did not stop cleanly: %s' % (self.program, self.tail(self.program))
        return time.time() - began

    def probe(self):
        """A raw client on a connection of its own."""
        return kprobe.Probe(port=self.port)

    def tail(self, program):
        lines = (self.folder / (program + '.log')).read_text(errors='replace').split('\n')
        return '\n'.join(lines[-25:])
