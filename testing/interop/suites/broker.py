"""The broker that a suite runs on: Fencepost, or Apache Kafka behind the same command line."""
import contextlib
import shutil
import signal
import subprocess
import threading

READY_S, STOP_S = 600, 60
# Both programs get these. Members of a new group wait for no others, as in the suites' own environments.
SETTINGS = {'group.initial.rebalance.delay.ms': '0'}
# Kafka's broker is not to lose its session with its own controller on a busy machine.
KAFKA_SETTINGS = {'broker.session.timeout.ms': '60000'}


class Program:
    """An executable that knows `serve`."""

    def __init__(self, name, executable, scratch):
        self.name, self.executable, self.scratch = name, executable.resolve(), scratch

    @contextlib.contextmanager
    def serve(self, **settings):
        """A new broker with settings (`_` for a dot); gives its port, and ends it afterwards."""
        data = self.scratch / 'data'
        shutil.rmtree(data, ignore_errors=True)
        given = {key.replace('_', '.'): value for key, value in settings.items()}
        wanted = SETTINGS | (KAFKA_SETTINGS if self.name == 'kafka' else {}) | given
        options = [part for pair in wanted.items() for part in ('-X', '%s=%s' % pair)]
        with open(self.scratch / 'broker.log', 'ab') as log:
            process = subprocess.Popen([str(self.executable), 'serve', '--data', str(data), '--listen', '127.0.0.1:0', *options],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=self.scratch)
        try:
            line = []
            reader = threading.Thread(target=lambda: line.append(process.stdout.readline().decode()), daemon=True)
            reader.start()
            reader.join(READY_S)
            assert line and line[0].startswith('fencepost ready '), '%s did not start, see %s' % (self.name, self.scratch / 'broker.log')
            yield int(line[0].rsplit(':', 1)[1])
            assert process.poll() is None, '%s ended, see %s' % (self.name, self.scratch / 'broker.log')
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(data, ignore_errors=True)
