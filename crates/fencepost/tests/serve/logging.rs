//! Issue 12, B13: a log that cannot be written harms nobody.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::process::{Serve, create_topic};

/// More bytes of log lines than a pipe takes.
const FLOOD_LINES: usize = 1_500;
/// Room for a flood that comes faster than it is accepted.
const BACKLOG: [&str; 2] = ["-X", "socket.listen.backlog.size=4096"];
/// A request takes milliseconds; a broker that waits for its log never answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the broker log much: requests of an API that does not exist, under a log level that mentions each connection.
fn flood(address: std::net::SocketAddr) {
    for _ in 0..FLOOD_LINES {
        let mut stream = TcpStream::connect(address).unwrap();
        // The broker may be quicker to close than we are to write.
        let _ = stream.write_all(&[0, 0, 0, 8, 0x7f, 0x7f, 0, 0, 0, 0, 0, 1]);
    }
}

/// Requests are answered and a clean stop ends, whatever is behind stderr: a pipe that nobody reads, one that is closed,
/// a device that is full.
#[test]
fn stderr_may_be_anything() {
    let unread = || {
        let (reader, writer) = std::io::pipe().unwrap();
        (Stdio::from(writer), Some(reader))
    };
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        (Stdio::from(writer), None)
    };
    let full = || (Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap()), None);
    for (what, (stderr, reader)) in [("unread", unread()), ("closed", closed()), ("full", full())] {
        let process =
            Serve::ephemeral().with(&BACKLOG).variable("FENCEPOST_LOG", "debug").with_stderr(stderr).start();
        flood(process.address);
        let begun = Instant::now();
        create_topic(&mut process.connect(), "t");
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", begun.elapsed());
        let ended = process.signal("TERM");
        assert_eq!(ended.status.code(), Some(0), "{what}: {ended:?}");
        drop(reader);
    }
}

/// Nobody need read stdout, or keep it open, for the broker to serve.
#[test]
fn stdout_may_be_closed() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = free.to_string();
    let mut child = Serve::ephemeral().with_listen(&address).spawn_with_stdout(full.into());
    let begun = Instant::now();
    while TcpStream::connect(free).is_err() {
        assert!(begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "it has ended");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// However many bad requests a stranger sends, the log grows by a bounded number of lines, which say how many were left out.
#[test]
fn a_stranger_does_not_fill_the_log() {
    let process = Serve::ephemeral().with(&BACKLOG).start();
    let begun = Instant::now();
    flood(process.address);
    // Ten in ten seconds, from whenever the seconds are counted.
    let lines_max = 10 * (begun.elapsed().as_secs() as usize / 10 + 2);
    let ended = process.signal("TERM");
    let lines = ended.stderr.lines().filter(|line| line.contains("closing a connection")).count();
    assert!((1..=lines_max).contains(&lines), "{lines} lines");
}

/// A failing start names the system's reason once.
#[test]
fn no_reason_is_said_twice() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stderr = Serve::ephemeral().with_listen(&taken.local_addr().unwrap().to_string()).refused();
    assert_eq!(stderr.matches("in use").count(), 1, "{stderr}");
}
