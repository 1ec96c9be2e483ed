use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::workspace;

/// A suite of six lines of Python: it plays whatever the name of a scenario says.
const SUITE: &str = r#"
import socket, subprocess, sys, time
host, port = sys.argv[2].split(':')
for name in sys.argv[5:]:
    ask = lambda word: socket.create_connection((host, int(port)), 5).sendall(word)
    if name == 'hang':
        time.sleep(60)
    if name == 'die':
        ask(b'die')
        time.sleep(0.1)
    if name == 'break':
        sys.exit(3)
    if name == 'restart':
        subprocess.run(sys.argv[4] + ' kill', shell=True, check=True)
        ask(b'still there')
    print('FAIL %s' % name if name in ('die', 'differ') else 'PASS %s (0.0 s)' % name, flush=True)
"#;

/// A broker that takes connections until it reads `die`.
const BROKER: &str = r#"#!/usr/bin/env python3
import os, socket, sys
host, port = sys.argv[sys.argv.index('--listen') + 1].split(':')
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((host, int(port)))
listener.listen()
print('fencepost ready %s:%d' % listener.getsockname(), flush=True)
while True:
    stream, _ = listener.accept()
    if stream.recv(100) == b'die':
        os._exit(1)
"#;

fn outcomes(test: &str, names: &[&str]) -> Vec<(String, Outcome)> {
    let scratch = workspace::scratch(test).unwrap();
    fs::write(scratch.join("run.py"), SUITE).unwrap();
    let executable = scratch.join("broker");
    fs::write(&executable, BROKER).unwrap();
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
    // The scenario asks through this in place of the hidden task.
    let ask = scratch.join("ask");
    let text = "#!/usr/bin/env python3\nimport socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[2])\n\
                s.sendall(sys.argv[3].encode() + b'\\n')\nsys.exit(s.recv(100).strip() != b'ok')\n";
    fs::write(&ask, text).unwrap();
    fs::set_permissions(&ask, fs::Permissions::from_mode(0o755)).unwrap();
    let mut runner = Runner::new(Place {
        python: "python3".into(),
        suite: scratch.clone(),
        scratch: scratch.clone(),
        restart_command: restart::Command { program: ask, socket: restart::socket_path(&scratch) },
        scenario_max: Duration::from_secs(3),
        ends_at: Instant::now() + Duration::from_secs(60),
    });
    let setup =
        Setup { executable, data: scratch.join("data"), settings: Vec::new(), log: scratch.join("log") };
    runner.pass(&setup, names.iter().map(|name| (*name).to_string()).collect()).unwrap();
    runner.finish().outcomes.into_iter().collect()
}

// A scenario that hangs, one that kills the broker and one that breaks the suite are each named, and those behind them run.
#[test]
fn trouble_is_named_and_the_rest_runs() {
    let seen = outcomes("test-trouble", &["a", "die", "b", "hang", "c", "break", "d", "differ", "restart"]);
    let wanted = [
        ("a", Outcome::Passed),
        ("b", Outcome::Passed),
        ("break", Outcome::Failed),
        ("c", Outcome::Passed),
        ("d", Outcome::Passed),
        ("die", Outcome::KilledBroker),
        ("differ", Outcome::Failed),
        ("hang", Outcome::Hung),
        ("restart", Outcome::Passed),
    ];
    assert_eq!(seen, wanted.map(|(name, outcome)| (name.to_string(), outcome)));
}

// Each kind of line is read; the lines of a difference are not results.
#[test]
fn result_lines() {
    assert_eq!(result("PASS a-b (0.1 s)"), Some(("a-b".into(), Outcome::Passed)));
    assert_eq!(result("FAIL a-b"), Some(("a-b".into(), Outcome::Failed)));
    assert_eq!(result("FAIL a-b: no golden answers"), Some(("a-b".into(), Outcome::Failed)));
    assert_eq!(result("SKIP a-b (needs x)"), Some(("a-b".into(), Outcome::Skipped("needs x".into()))));
    assert_eq!(result("  --- wanted"), None);
    assert_eq!(result("3 passed, 1 failed, 0 skipped"), None);
}
