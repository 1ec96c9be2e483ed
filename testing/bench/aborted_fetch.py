#!/usr/bin/env python3
"""Reading a log with many aborted transactions as read_committed: Fencepost beside Apache Kafka, on the same files.

  aborted_fetch.py --fencepost BINARY [--directory DIR] [--aborted N] [--rounds N] [--readings N]

Kafka writes the log (AbortedFetch.java, its own client) and is stopped cleanly; a directory that holds one already is used as it is.
Then both serve a copy of it in turn, and the same client reads it several times in one process, so that its own start does not count.
Prints the best and the median seconds of each broker, and the ratio, as JSON. Needs Java and Kafka's jars (testing/interop/kafka.sh).
"""
import argparse
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KAFKA = HERE.parent / 'interop' / 'kafka.sh'
TOPIC, PRODUCERS, RECORDS = 'aborted', 40, 5
START_S, WRITE_S, READ_S = 180, 1800, 600


class Broker:
    """A process that prints `fencepost ready HOST:PORT`."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline().split()
        if line[:2] != ['fencepost', 'ready']:
            raise SystemExit('the broker did not start: see %s' % log.name)
        self.address = line[2]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(START_S) not in (0, 143):
            raise SystemExit('the broker did not stop cleanly')


def client(*arguments, timeout):
    path = subprocess.run([str(KAFKA), 'classpath'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    logging = '-Dlog4j2.configurationFile=%s' % (HERE.parent / 'interop/kafka/log4j2.properties')
    command = ['java', '-Xmx1g', logging, '-cp', path, str(HERE / 'AbortedFetch.java'), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=timeout).stdout


def kafka(directory, log):
    return Broker([str(KAFKA), 'serve', '--data', str(directory), '--listen', '127.0.0.1:0', '-X', 'offsets.topic.num.partitions=5',
                   '-X', 'transaction.state.log.num.partitions=8'], log)


def write(directory, aborted, log):
    broker = kafka(directory, log)
    subprocess.run([str(KAFKA), 'tool', 'topics', '--bootstrap-server', broker.address, '--create', '--topic', TOPIC, '--partitions', '1',
                    '--config', 'retention.ms=-1'], check=True, stdout=log, stderr=log)
    client('write', broker.address, TOPIC, aborted, PRODUCERS, RECORDS, timeout=WRITE_S)
    broker.stop()


def fresh_copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--fencepost', required=True)
    options.add_argument('--directory')
    options.add_argument('--aborted', type=int, default=100_000)
    options.add_argument('--rounds', type=int, default=3)
    options.add_argument('--readings', type=int, default=4)
    given = options.parse_args()
    directory = pathlib.Path(given.directory or tempfile.mkdtemp(prefix='aborted-fetch-'))
    directory.mkdir(parents=True, exist_ok=True)
    seconds, records = {'kafka': [], 'fencepost': []}, set()
    with open(directory / 'brokers.log', 'a') as log:
        if not (directory / 'kafka').exists():
            write(directory / 'kafka', given.aborted, log)
        ours = fresh_copy(directory / 'kafka' / 'logs', directory / 'fencepost')
        serve = [given.fencepost, 'serve', '--data', str(ours), '--listen', '127.0.0.1:0', '-X', 'node.id=1']
        for _ in range(given.rounds):
            for name in ('kafka', 'fencepost'):
                broker = kafka(directory / 'kafka', log) if name == 'kafka' else Broker(serve, log)
                lines = client('read', broker.address, TOPIC, given.readings, timeout=READ_S).split('\n')
                broker.stop()
                # The first reading warms the client up.
                for line in [line.split() for line in lines if line][1:]:
                    records.add(int(line[0]))
                    seconds[name].append(float(line[1]))
    index = sum(path.stat().st_size for path in ours.glob(TOPIC + '-0/*.txnindex'))
    data = sum(path.stat().st_size for path in ours.glob(TOPIC + '-0/*.log'))
    report = {'aborted_transactions': index // 34, 'log_bytes': data, 'records_read': sorted(records)}
    for name, taken in seconds.items():
        report[name] = {'best_s': min(taken), 'median_s': statistics.median(taken), 'all_s': taken}
    report['fencepost_over_kafka'] = round(report['fencepost']['median_s'] / report['kafka']['median_s'], 3)
    print(json.dumps(report, indent=1))


if __name__ == '__main__':
    main()
