//! What clients can make the server hold. One test, so that nothing else moves the process's memory meanwhile.

#[path = "../sockets/support.rs"]
#[allow(dead_code)]
mod support;

use std::io::Write;
use std::time::{Duration, Instant};

use support::{PATIENCE, SocketClient, TestServer, batch, long_poll};

const MIB: usize = 1024 * 1024;

/// Resident memory of this process, bytes.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// How much more memory is resident after `act` than before.
fn growth(act: impl FnOnce()) -> usize {
    let before = resident_bytes();
    act();
    resident_bytes().saturating_sub(before)
}

fn fill(client: &mut SocketClient, batches: usize, bytes: usize) {
    for _ in 0..batches {
        assert_eq!(client.write("t", 0, batch(&vec![7; bytes])), 0);
    }
}

/// Waits until the server has taken as much as it takes: until a write would block.
fn send_until_full(client: &SocketClient, bytes: &[u8]) {
    let mut stream = client.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let begun = Instant::now();
    while stream.write_all(bytes).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "the server reads without end");
    }
}

/// E1, E4: sizes that are announced and not sent, frames that are half sent, garbage, and clients that ask for far more than
/// they ever read, cost next to nothing.
#[test]
fn hostile_clients_cost_next_to_nothing() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    fill(&mut client, 16, 900_000);
    let one_answer = client.ask(12, &long_poll("t", 0, 0));
    assert_eq!(one_answer.responses[0].partitions[0].error_code, 0);
    drop(one_answer);

    // Fifty clients announce a hundred megabytes each; some send a little of it.
    let mut announcing = Vec::new();
    let grown = growth(|| {
        for number in 0..50 {
            let mut hostile = server.client();
            hostile.send_bytes(&100_000_000_u32.to_be_bytes());
            if number % 2 == 0 {
                hostile.send_bytes(&[0; 1_000]);
            }
            announcing.push(hostile);
        }
        server.check_alive();
    });
    assert!(grown < 16 * MIB, "announced sizes cost {grown} bytes");
    drop(announcing);

    // Each answer would be 14 MiB, and nobody reads one.
    let mut deaf: Vec<_> = (0..4).map(|_| server.client()).collect();
    let grown = growth(|| {
        for client in &mut deaf {
            let (frame, _) = client.encode(12, &long_poll("t", 0, 0));
            send_until_full(client, &frame.repeat(100));
        }
    });
    assert!(grown < 4 * 2 * 16 * MIB, "unread answers cost {grown} bytes");

    // The same with Fetches that wait for data, and are all woken at once.
    let mut waiting: Vec<_> = (0..4).map(|_| server.client()).collect();
    let grown = growth(|| {
        for client in &mut waiting {
            for _ in 0..30 {
                client.send(12, &long_poll("t", 16, 20_000));
            }
        }
        fill(&mut client, 16, 900_000);
        server.check_alive();
    });
    // The topic itself is in memory, too.
    assert!(grown < (16 + 4 * 2 * 16) * MIB, "woken answers cost {grown} bytes");
    drop((deaf, waiting));
    server.check_alive();
}
