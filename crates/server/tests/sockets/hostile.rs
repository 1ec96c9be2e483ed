//! What ill-behaved clients can do: close their own connection, and nothing else.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use fencepost_protocol::ApiKey;
use fencepost_protocol::messages::{ApiVersionsRequest, FetchRequest};

use crate::support::{TestServer, long_poll};

/// Bytes that follow from a seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(count).collect()
}

/// Garbage, and garbage in good frames, closes the connection that it comes on.
#[test]
fn garbage_closes_its_connection_alone() {
    let server = TestServer::ephemeral();
    let mut bystander = server.client();
    for seed in 0..50 {
        let mut client = server.client();
        let count = 1 + (seed as usize * 37) % 3_000;
        let mut bytes = noise(seed, count);
        if seed % 2 == 0 {
            // A good length, and an API that exists.
            let header = [ApiKey::Produce.code(), 9].map(i16::to_be_bytes).concat();
            bytes = [&((count + 4) as u32).to_be_bytes()[..], &header, &bytes].concat();
        }
        client.send_bytes(&bytes);
        client.half_close();
        assert!(client.is_closed(), "seed {seed}");
    }
    bystander.ask(0, &ApiVersionsRequest::default());
}

/// A frame of an impossible size closes the connection; what was asked before it is answered.
#[test]
fn what_came_before_a_bad_frame_is_answered() {
    let server = TestServer::ephemeral();
    for size in [0, -1, 104_857_601, i32::MAX, i32::MIN] {
        let mut client = server.client();
        let first = client.send(0, &ApiVersionsRequest::default());
        let second = client.send(0, &ApiVersionsRequest::default());
        client.send_bytes(&size.to_be_bytes());
        client.receive::<ApiVersionsRequest>(0, first);
        client.receive::<ApiVersionsRequest>(0, second);
        assert!(client.is_closed(), "size {size}");
    }
    server.check_alive();
}

/// A client that has closed its own direction gets what it had asked for, then the end.
#[test]
fn a_half_closed_client_is_answered() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    let parked = client.send(12, &long_poll("t", 0, 200));
    let behind = client.send(0, &ApiVersionsRequest::default());
    client.half_close();
    assert_eq!(client.receive::<FetchRequest>(12, parked).error_code, 0);
    client.receive::<ApiVersionsRequest>(0, behind);
    assert!(client.is_closed());
}

/// A half-closed client does not keep its connection for as long as it had asked to wait.
#[test]
fn a_half_closed_client_does_not_linger() {
    let server = TestServer::ephemeral();
    let mut client = server.client();
    assert_eq!(client.create_topic("t", 1), 0);
    client.send(12, &long_poll("t", 0, 60_000));
    client.half_close();
    let begun = Instant::now();
    assert!(client.is_closed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.check_alive();
}

/// Issue 12, B8: a request that waits behind its own client's parked Fetch is memory, too. When all connections together hold too much of
/// it, it goes with its connection; a client that asks for little is served all the while.
#[test]
fn large_requests_do_not_wait_behind_a_parked_fetch() {
    // Two of them are more than all connections may make the server hold.
    const LARGE: usize = 90_000_000;
    let server = TestServer::ephemeral();
    assert_eq!(server.client().create_topic("t", 1), 0);
    let mut frame = (LARGE as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&ApiKey::Fetch.code().to_be_bytes());
    frame.resize(LARGE + 4, 0);
    let mut waiting = [server.client(), server.client()];
    let begun = Instant::now();
    for client in &mut waiting {
        client.send(12, &long_poll("t", 0, 3_600_000));
        client.send_bytes(&frame);
    }
    server.check_alive();
    for client in &mut waiting {
        // Whichever goes first makes room enough for the other.
        client.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    let closed = waiting.iter_mut().filter_map(|client| {
        let mut byte = [0];
        matches!(client.stream.read(&mut byte), Ok(0)).then_some(())
    });
    assert!(closed.count() >= 1, "after {:?} both are held", begun.elapsed());
    server.check_alive();
}

/// Clients that vanish in the middle of a frame, of an answer, or while they are parked, leave the server as it was.
#[test]
fn clients_that_vanish_do_no_harm() {
    let server = TestServer::ephemeral();
    assert_eq!(server.client().create_topic("t", 1), 0);
    for round in 0..60 {
        let mut client = server.client();
        match round % 4 {
            0 => {
                client.send(12, &long_poll("t", 0, 100));
            }
            1 => client.send_bytes(&[0, 0, 1, 0, 0, 18]),
            2 => {
                for _ in 0..20 {
                    client.send(0, &ApiVersionsRequest::default());
                }
            }
            _ => client.send_bytes(&[0]),
        }
        drop(client);
    }
    server.check_alive();
}

/// A connection on which nothing is said is closed when its time is over.
#[test]
fn an_idle_connection_is_closed() {
    let server = TestServer::with(&[("connections.max.idle.ms", "300")]);
    let mut silent = server.client();
    let mut half_a_frame = server.client();
    half_a_frame.send_bytes(&[0, 0, 0, 50, 0, 18]);
    let begun = Instant::now();
    assert!(silent.is_closed());
    assert!(half_a_frame.is_closed());
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(200) && elapsed < Duration::from_secs(10), "{elapsed:?}");
    // Who says something every now and then stays.
    let mut busy = server.client();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(700) {
        busy.ask(0, &ApiVersionsRequest::default());
    }
}

/// A client that asks on and on and never reads is given up when it has taken nothing for the idle time.
#[test]
fn a_client_that_never_reads_is_given_up() {
    let server = TestServer::with(&[("connections.max.idle.ms", "500")]);
    let client = server.client();
    let mut writing = client.stream.try_clone().unwrap();
    let mut encoder = server.client();
    let (frame, _) = encoder.encode(0, &ApiVersionsRequest::default());
    let frames = frame.repeat(1_000);
    let begun = Instant::now();
    // Ends when the server closes: the socket's buffers fill up, and then nothing moves any more.
    while writing.write_all(&frames).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(25), "it is still served");
    }
    server.check_alive();
}
