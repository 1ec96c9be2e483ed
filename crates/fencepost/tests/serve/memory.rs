//! Memory that comes back (issue 12, B15).

use std::time::{Duration, Instant};

use bytes::Bytes;
use fencepost_client::protocol::messages::{ProduceRequest, produce_request};

use crate::process::{Process, Serve, create_topic};

/// The first frame raises the bound from which on the allocator maps a buffer by itself; the others are below it.
const FRAME_BYTES: [usize; 6] = [30_000_000, 15_000_000, 7_000_000, 3_000_000, 12_000_000, 5_000_000];
const CLIENTS: usize = 8;
/// What may stay of them. The pools of the threads kept 22 MB in debug builds, and 180 MB of fetched answers before those stayed in files.
const STAYS_MAX_BYTES: u64 = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory that is no file's.
fn resident_bytes(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A batch of zeros.
fn nonsense(bytes: usize) -> ProduceRequest {
    let records = Some(Bytes::from(vec![0; bytes]));
    let partition_data = vec![produce_request::PartitionData { index: 0, records }];
    let topic_data =
        vec![produce_request::TopicData { name: "t".to_owned(), partition_data, ..Default::default() }];
    ProduceRequest { acks: -1, timeout_ms: 1_000, topic_data, ..Default::default() }
}

/// Large frames, from several clients at once, leave nothing behind when they are answered: whatever pools of threads they
/// went through. The records are nonsense, and refused.
#[test]
fn large_buffers_are_given_back() {
    let process = Serve::ephemeral().start();
    create_topic(&mut process.connect(), "t");
    let before = resident_bytes(&process);
    for bytes in FRAME_BYTES {
        let request = nonsense(bytes);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let answer = process.connect().call_at(9, &request).unwrap();
                    assert_ne!(answer.responses[0].partition_responses[0].error_code, 0);
                });
            }
        });
    }
    let begun = Instant::now();
    loop {
        let stays = resident_bytes(&process).saturating_sub(before);
        if stays < STAYS_MAX_BYTES {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{stays} bytes stay");
        std::thread::sleep(Duration::from_millis(10));
    }
}
