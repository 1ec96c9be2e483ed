"""The kept lists of what passed, and the section about them in docs/clients.md."""
import fnmatch
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[2] / 'docs' / 'clients.md'
BEGIN, END = '<!-- suites: begin -->', '<!-- suites: end -->'


def path(suite, program):
    """Where a list is kept."""
    return HERE / ('%s.%s.txt' % (suite, program))


def kept(suite, program):
    """The names in a list; none where there is no list yet."""
    file = path(suite, program)
    return set(file.read_text().split()) if file.exists() else set()


def keep(suite, program, passed):
    """Writes a list."""
    path(suite, program).write_text(''.join(name + '\n' for name in sorted(passed)))


def explained():
    """The lines of differences.txt: a suite, a pattern of names, and why such tests pass on Apache Kafka alone, or on neither."""
    return [line.split(None, 2) for line in (HERE / 'differences.txt').read_text().splitlines()]


def reason(suite, name):
    """Why a test does not pass, where that is known beforehand. One that brings its own broker has no reason not to."""
    if name.endswith(('_local', '_mock')):
        return None
    return next((why for of, pattern, why in explained() if of == suite and fnmatch.fnmatchcase(name, pattern)), None)


def section(suites):
    """The section's text."""
    rows, differences, neither = [], {}, []
    for name, suite in suites.items():
        kafka, ours = kept(name, 'kafka'), kept(name, 'fencepost')
        rows.append('| %s | `%s` | %d | %d | %d |' % (name, suite.version, len(kafka), len(ours), len(kafka & ours)))
        for test in sorted(kafka ^ ours):
            where = 'pass on Apache Kafka alone' if test in kafka else 'pass on Fencepost alone'
            differences.setdefault((name, where, reason(name, test) or 'not explained'), []).append('`%s`' % test)
        neither += ['- %s, `%s`: %s' % (of, pattern, why) for of, pattern, why in explained()
                    if of == name and not fnmatch.filter(kafka | ours, pattern) and '*' not in pattern]
    told = ['- %s: %s %s (%s).' % (name, ', '.join(tests), where, why) for (name, where, why), tests in differences.items()]
    return '\n'.join([
        BEGIN, '', "## Other people's tests", '',
        'The tests of three client libraries, unchanged but for topics of one replica, against one Fencepost and against one Apache Kafka',
        '4.4.0 with the same settings: `cargo xtask interop suites`, `--client NAME` for one suite, and `--against kafka`. What passed is',
        'kept in `testing/interop/suites`, a list for each suite and program; a run fails when a listed test does not pass, also not by itself.', '',
        '| suite | version | pass on Apache Kafka | pass on Fencepost | on both |', '|---|---|---:|---:|---:|', *rows, '',
        'Of franz-go the tests of `kgo` that use a broker are counted, of sarama the functional tests, of librdkafka all that are not for',
        "runs by hand; parts of a test that have names of their own count too. sarama's tests reach the broker through a small stand-in for",
        'toxiproxy (`proxy.py`); librdkafka runs in full mode, with the timeouts of its tests three times as long.', '',
        'Differences:' if told else 'There is no difference.', '', *told, *([''] if told else []),
        'Counted on neither, and what they need:', '', *neither, '', END])


def document(suites):
    """Writes the section into the page, between its marks or at the end."""
    text = PAGE.read_text() if PAGE.exists() else '# Clients\n'
    if BEGIN in text:
        before, rest = text.split(BEGIN, 1)
        text = before + section(suites) + rest.split(END, 1)[1]
    else:
        text = text.rstrip('\n') + '\n\n' + section(suites) + '\n'
    PAGE.write_text(text)
