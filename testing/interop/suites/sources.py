"""The pinned sources of the suites: fetched by the package clients, unpacked below the build directory, made fit for one broker."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

FRANZ_GO = 'github.com/twmb/franz-go@v1.22.3'
SARAMA = 'github.com/IBM/sarama@v1.61.1'
# The makers' package for Node.js holds the C library whole, with its tests.
LIBRDKAFKA, LIBRDKAFKA_IN = '@confluentinc/kafka-javascript@1.10.1', 'package/deps/librdkafka/'
# What is changed: a file, what it says, what it is to say. Topics get one replica, for there is one broker.
EDITS = {
    'sarama': ('functional_test.go', r'ReplicationFactor: 3,', 'ReplicationFactor: 1,'),
    'librdkafka': ('tests/test.c', r'rd_kafka_NewTopic_new\(topicname, partition_cnt, replication_factor,',
                   'rd_kafka_NewTopic_new(topicname, partition_cnt, RD_MIN(replication_factor, 1),'),
}
BUILD_S = 3600
KAFKA = pathlib.Path(__file__).resolve().parents[1] / 'kafka.sh'
# Debian: rapidjson-dev. Without it librdkafka leaves some tests out, those of transactions among them.
RAPIDJSON = pathlib.Path('/usr/include/rapidjson/schema.h')


def run(command, folder, **environment):
    """Runs a command to its end; its output goes to build.log beside the sources, and is shown when it fails."""
    log = folder / 'build.log'
    with open(log, 'ab') as out:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=BUILD_S,
                              env=dict(os.environ, **environment), check=False)
    if done.returncode:
        raise SystemExit('%s failed:\n%s' % (' '.join(command), '\n'.join(log.read_text(errors='replace').splitlines()[-20:])))


def edit(name, folder):
    """The change for one replica; it must find its place, or the pinned version is not what it was."""
    file, pattern, text = EDITS[name]
    said, found = re.subn(pattern, text, (folder / file).read_text())
    assert found, '%s: nothing like %s in %s' % (name, pattern, file)
    (folder / file).write_text(said)


def unpacked(work, name, what, unpack):
    """The folder of a suite, made anew when another version is wanted; the mark is written last."""
    folder = work / name
    mark = folder / 'ready.txt'
    if not mark.exists() or mark.read_text() != what:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        unpack(folder)
        if name in EDITS:
            edit(name, folder)
        build(name, folder)
        mark.write_text(what)
    return folder


def go_module(module):
    """Copies a module out of the module cache, where nothing may be written."""
    def unpack(folder):
        told = subprocess.run(['go', 'mod', 'download', '-json', module], stdout=subprocess.PIPE, check=True, cwd=folder).stdout
        shutil.copytree(json.loads(told)['Dir'], folder, dirs_exist_ok=True)
        subprocess.run(['chmod', '-R', 'u+w', str(folder)], check=True)
    return unpack


def npm_package(folder):
    """Takes librdkafka out of the package."""
    subprocess.run(['npm', 'pack', '--silent', LIBRDKAFKA], stdout=subprocess.DEVNULL, check=True, cwd=folder)
    archive = next(folder.glob('*.tgz'))
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if member.name.startswith(LIBRDKAFKA_IN):
                member.name = member.name[len(LIBRDKAFKA_IN):]
                tar.extract(member, folder, filter='tar')
    archive.unlink()


def build(name, folder):
    """Compiles the tests."""
    if name == 'franz-go':
        run(['go', 'test', '-c', '-o', 'suite.test', './pkg/kgo'], folder)
    elif name == 'sarama':
        run(['go', 'test', '-tags', 'functional', '-c', '-o', 'suite.test', '.'], folder)
    else:
        if not RAPIDJSON.exists():
            raise SystemExit('librdkafka: no rapidjson (Debian: rapidjson-dev)')
        run(['./configure'], folder)
        run(['make', '-j2', 'libs'], folder)
        run(['make', '-C', 'tests', '-j2', 'build'], folder)
        # Peers in Java, of which some tests make use.
        run(['javac', '-cp', kafka_jars(), *map(str, (folder / 'tests/java').glob('*.java'))], folder)


def kafka_jars():
    """The class path of Apache Kafka."""
    return subprocess.run([str(KAFKA), 'classpath'], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def franz_go(work):
    """The folder with franz-go's tests."""
    return unpacked(work, 'franz-go', FRANZ_GO, go_module(FRANZ_GO))


def sarama(work):
    """The folder with sarama's tests."""
    return unpacked(work, 'sarama', SARAMA, go_module(SARAMA))


def librdkafka(work):
    """The folder with librdkafka and its tests."""
    return unpacked(work, 'librdkafka', LIBRDKAFKA, npm_package)


def go_tests(folder, files, body=''):
    """Names of the tests of Go files whose body has a match for a pattern."""
    names = []
    for path in sorted(pathlib.Path(folder).glob(files)):
        for test in re.finditer(r'^func (Test\w+)\(.*?^}', path.read_text(), re.M | re.S):
            if re.search(body, test.group(0)) and test.group(1) != 'TestMain':
                names.append(test.group(1))
    return names
