"""How each suite is run, and what its output says. A result is pass, fail or skip, by the name of the test."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess

import proxy
import report
import sources

KAFKA = pathlib.Path(__file__).resolve().parents[1] / 'kafka.sh'
# franz-go's tests run beside one another; the whole of them, and one by itself.
FRANZ_GO_S, ONE_S = 2400, 900
SARAMA_S, LIBRDKAFKA_S = 2400, 1200
# Processes of librdkafka's tests beside one another.
JOBS = 4
GO_RESULT = re.compile(r'^\s*--- (PASS|FAIL|SKIP): (\S+) \(', re.M)
GO_WORDS = {'PASS': 'pass', 'FAIL': 'fail', 'SKIP': 'skip'}
COLOUR = re.compile(r'\x1b\[[0-9;]*m')
# What librdkafka's runner says of a test at its end.
C_RESULT = re.compile(r'= Test (\d{4}_\w+) (PASSED|FAILED|SKIPPED) |^\| *(\d{4}_\w+) +\| +(\w+) \|', re.M)
C_WORDS = {'PASSED': 'pass', 'SKIPPED': 'skip'}


def output(command, folder, log, limit, **environment):
    """Runs a command in a process group of its own and returns what it printed; past the limit the group is killed."""
    with open(log, 'wb') as out:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, **environment), start_new_session=True)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_text(errors='replace')


def go_results(names, said):
    """What `go test -v` said; a test that was to run and has no result of its own has failed."""
    results = dict.fromkeys(names, 'fail')
    results.update((name, GO_WORDS[word]) for word, name in GO_RESULT.findall(said))
    return results


class Suite:
    """What the suites have in common."""

    def __init__(self, program, work, scratch):
        self.program, self.scratch, self.folder = program, scratch, self.fetch(work)

    def log(self, name):
        """A file for the output of one process."""
        return self.scratch / (re.sub(r'\W', '_', name) + '.log')


class FranzGo(Suite):
    """franz-go's kgo tests that talk to a broker, in one process: they run beside one another."""

    name, version = 'franz-go', sources.FRANZ_GO
    fetch = staticmethod(sources.franz_go)
    # What franz-go's own runs against Kafka set.
    settings = {'group_share_delivery_count_limit': '10', 'share_coordinator_state_topic_num_partitions': '5'}

    def known(self):
        """The tests that use a broker: the helpers that every one of them begins with."""
        return sources.go_tests(self.folder / 'pkg/kgo', '*_test.go', r'\b(newTestClient|adm|testClientOpts|tmpTopic\w*)\(')

    def run(self, only):
        """All of them."""
        names = [n for n in self.known() if not only or n in {o.split('/')[0] for o in only}]
        return self.process(names, 'all', FRANZ_GO_S)

    def alone(self, names):
        """Each by itself; a part of a test with the test it is part of."""
        results = {}
        for name in sorted({n.split('/')[0] for n in names}):
            results.update(self.process([name], name, ONE_S))
        return results

    def process(self, names, log, limit):
        """One process on a new broker."""
        settings = self.settings if self.program.name == 'kafka' else {}
        with self.program.serve(**settings) as port:
            said = output([str(self.folder / 'suite.test'), '-test.v', '-test.timeout=%ds' % limit, '-test.run=^(%s)$' % '|'.join(names)],
                          self.folder / 'pkg/kgo', self.log(log), limit, KGO_SEEDS='127.0.0.1:%d' % port, KGO_TEST_RF='1',
                          KGO_TEST_STABLE_FETCH='true', KGO_LOG_LEVEL='none')
        return go_results(names, said)


class Sarama(Suite):
    """sarama's functional tests, one after the other in one process; what a panic took along, each in its own."""

    name, version = 'sarama', sources.SARAMA
    fetch = staticmethod(sources.sarama)
    # The tests know these ports, and where the proxy's HTTP interface is from their environment.
    first, http = 29091, 29090
    # The newest version that these tests know.
    kafka = '4.3.1'

    def known(self):
        """The tests of the files named so."""
        return sources.go_tests(self.folder, 'functional_*_test.go')

    def run(self, only):
        """All of them."""
        names = sorted(n for n in self.known() if not only or n in only)
        results = self.processes(['|'.join(names)], SARAMA_S)
        unheard = [n for n in names if n not in results]
        return dict(results, **self.alone(unheard)) if unheard else results

    def alone(self, names):
        """Each by itself; a part of a test with the test it is part of."""
        names = sorted({n.split('/')[0] for n in names})
        return dict(dict.fromkeys(names, 'fail'), **self.processes(names, ONE_S))

    def processes(self, patterns, limit):
        """One process after the other on a new broker."""
        results = {}
        advertised = 'PLAINTEXT://127.0.0.1:%d' % self.first
        with self.program.serve(advertised_listeners=advertised, auto_create_topics_enable='false') as port:
            with proxy.Toxiproxy(self.http, self.first, ('127.0.0.1', port)):
                for pattern in patterns:
                    command = [str(self.folder / 'suite.test'), '-test.v', '-test.timeout=%ds' % limit, '-test.run=^(%s)$' % pattern]
                    log = self.log('all' if '|' in pattern else pattern)
                    results.update(go_results([], output(command, self.folder, log, limit, DEBUG='true', KAFKA_VERSION=self.kafka,
                                                         TOXIPROXY_ADDR='http://127.0.0.1:%d' % self.http)))
        return results


class Librdkafka(Suite):
    """librdkafka's tests, whole (not `-Q`), each number in a process of its own, some beside one another."""

    name, version = 'librdkafka', 'librdkafka 2.15.1 of ' + sources.LIBRDKAFKA
    fetch = staticmethod(sources.librdkafka)
    # The tests' scenarios, by what they need of a broker. All are for one that waits for the members of a new group.
    scenarios = {'default': 'true', 'noautocreate': 'false'}

    def tests(self):
        """The tests that are not for runs by hand, each with the scenarios it is for."""
        told = {}
        for entry in re.split(r'^    _TEST\(', (self.folder / 'tests/test.c').read_text(), flags=re.M)[1:]:
            if 'TEST_F_MANUAL' not in entry:
                scenario = re.search(r'\.scenario = "([\w,]+)"', entry)
                told[re.match(r'\w+', entry).group(0)] = (scenario.group(1) if scenario else 'default').split(',')
        return told

    def known(self):
        """Names are known only to the runner; those that failed are tried again in any case."""
        return []

    def run(self, only):
        """All of them, the ones for another scenario on a broker of their own."""
        return self.pass_over({n[:4] for n in only or self.tests()}, JOBS)

    def alone(self, names):
        """Each by itself."""
        return self.pass_over({n[:4] for n in names}, 1)

    def pass_over(self, numbers, jobs):
        """One run of some numbers, in each scenario that they have."""
        results = {}
        for scenario, create in self.scenarios.items():
            mine = sorted(numbers & {name[:4] for name, where in self.tests().items() if scenario in where})
            if not mine:
                continue
            with self.program.serve(auto_create_topics_enable=create, num_partitions='4', group_initial_rebalance_delay_ms='3000') as port:
                environment = self.environment(scenario, port)
                with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                    for part in pool.map(lambda n, e=environment, s=scenario: self.process(n, s, e), mine):
                        results.update(part)
        return results

    def environment(self, scenario, port):
        """Where the broker is, and a place with the names of Kafka's tools."""
        tools = self.scratch / 'kafka' / 'bin'
        tools.mkdir(parents=True, exist_ok=True)
        topics, run_class = tools / 'kafka-topics.sh', tools / 'kafka-run-class.sh'
        topics.write_text('#!/bin/sh\nexec "%s" tool topics "$@"\n' % KAFKA)
        run_class.write_text('#!/bin/sh\nexec java -cp "$CLASSPATH:%s" "$@"\n' % sources.kafka_jars())
        for script in (topics, run_class):
            script.chmod(0o755)
        conf = self.scratch / ('%s.conf' % scenario)
        conf.write_text('bootstrap.servers=127.0.0.1:%d\ntest.timeout.multiplier=3\n' % port)
        return {'RDKAFKA_TEST_CONF': str(conf), 'KAFKA_PATH': str(tools.parent), 'BROKERS': '127.0.0.1:%d' % port,
                'TEST_KAFKA_VERSION': '4.4.0', 'LD_LIBRARY_PATH': '../src:../src-cpp'}

    def process(self, number, scenario, environment):
        """The tests of one number; without a word about them they have failed."""
        # Where a test has nothing to talk to, only those of its number that need no broker.
        local = self.program.name == 'fencepost' and any(
            (report.reason(self.name, name) or '').startswith('share groups') for name in self.tests() if name.startswith(number))
        command = ['./test-runner', '-p1', '-s', scenario, *(['-l'] if local else [])]
        said = output(command, self.folder / 'tests', self.log('%s.%s' % (number, scenario)), LIBRDKAFKA_S, TESTS=number, **environment)
        names = [name for name, where in self.tests().items() if name.startswith(number) and scenario in where]
        results = dict.fromkeys(names, 'skip' if local else 'fail')
        for found in C_RESULT.findall(COLOUR.sub('', said)):
            name, word = found[:2] if found[0] else found[2:]
            if name in results:
                results[name] = C_WORDS.get(word, 'fail')
        return results
