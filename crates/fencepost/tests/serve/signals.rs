//! Issue 12, B14: what each signal does to a running broker, and what of it is logged.

use std::fs;

use crate::process::{Process, Serve, create_topic};

/// Sends a signal and waits until the log says `expected`.
fn signal_and_see(process: &mut Process, name: &str, expected: &str) -> String {
    process.send_signal(name);
    process.read_log_until(expected)
}

/// SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 end nothing; the state is logged with what stands open in it; ready and stop are
/// lines of the log, with the signal that was the cause.
#[test]
fn no_signal_but_two_ends_the_process() {
    let mut process = Serve::ephemeral().start();
    process.read_log_until(" ready ");
    let mut client = process.connect();
    create_topic(&mut client, "t");
    signal_and_see(
        &mut process,
        "HUP",
        "the settings were read again; in force: none; after a restart: none",
    );
    for name in ["QUIT", "USR1"] {
        let said = signal_and_see(&mut process, name, "groups: 0");
        assert!(said.contains(&format!("signal=\"SIG{name}\"")), "{said}");
        assert!(
            said.contains("connections, ") && said.contains("partitions: 5, of them 0 offline"),
            "{said}"
        );
    }
    signal_and_see(&mut process, "USR2", "no meaning here signal=\"SIGUSR2\"");
    create_topic(&mut client, "u");
    drop(client);
    let ended = process.signal("TERM");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("stopping signal=\"SIGTERM\"") && ended.stderr.contains(" stopped "),
        "{ended:?}"
    );
}

/// SIGHUP puts in force what can change while the broker runs and names what cannot; a fault in the file changes nothing and
/// is said.
#[test]
fn the_settings_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("server.properties");
    let write = |text: &str| fs::write(&config, text).unwrap();
    write("message.max.bytes=2000000\nnum.partitions=2\n");
    let mut process = Serve::ephemeral().with(&["--config", config.to_str().unwrap()]).start();
    let mut client = process.connect();
    let in_force = |client: &mut _| super::process::broker_config(client, "message.max.bytes");
    assert_eq!(in_force(&mut client), "2000000");
    write("message.max.bytes=3000000\nnum.partitions=3\nlog.cleaner.enable=false\n");
    let said = signal_and_see(&mut process, "HUP", "read again");
    assert!(
        said.contains("in force: message.max.bytes; after a restart: log.cleaner.enable, num.partitions"),
        "{said}"
    );
    assert_eq!(in_force(&mut client), "3000000");
    assert_eq!(create_topic(&mut client, "t"), 2, "not before a restart");
    write("message.max.bytes=4000000\nlog.retention.ms=0\n");
    signal_and_see(
        &mut process,
        "HUP",
        "the settings stay as they are: requirement failed: log.retention.ms must be",
    );
    assert_eq!(in_force(&mut client), "3000000");
    fs::remove_file(&config).unwrap();
    signal_and_see(&mut process, "HUP", "the settings stay as they are: cannot read");
    assert_eq!(in_force(&mut client), "3000000");
}
