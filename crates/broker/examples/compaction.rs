//! What a million offset commits and a million transactions leave behind, with the cleaner and without: bytes, records, and
//! how long the next start takes.
//!
//! ```text
//! cargo run --release -p fencepost-broker --example compaction [COUNT] [LIVE KEYS]
//! ```
//!
//! A line of JSON each: `cargo xtask bench compaction` makes a page of them. The whole engine runs on a disk in memory, its clock a millisecond further with every request; only the durations that
//! are printed are real.
#![allow(clippy::disallowed_methods, reason = "this program measures how long things take")]

mod host;

use std::time::{Duration, Instant};

use fencepost_protocol::messages::{
    EndTxnRequest, InitProducerIdRequest, OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest,
    offset_commit_request, offset_fetch_request, txn_offset_commit_request,
};
use fencepost_records::Batches;
use fencepost_storage::Disk;

use host::Host;

const COUNT: usize = 1_000_000;
const LIVE_KEYS: usize = 1_000;
const TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let count = arguments.next().unwrap_or(COUNT);
    let live_keys = arguments.next().unwrap_or(LIVE_KEYS).clamp(1, count);
    for cleaner in ["false", "true"] {
        let mut host = Host::start(cleaner);
        let commits = timed(|| commit_offsets(&host, count, live_keys));
        let transactions = timed(|| run_transactions(&host, count, live_keys));
        // Two rests of the cleaner, for what has become due meanwhile.
        host.wait_ms(60_000);
        let sizes: Vec<String> = TOPICS.iter().map(|topic| host.size(topic)).collect();
        let started = host.restart();
        println!(
            "{{\"cleaner\":{cleaner},\"count\":{count},\"live_keys\":{live_keys},\"commits_s\":{:.1},\
             \"transactions_s\":{:.1},{},\"start_ms\":{:.1}}}",
            commits.as_secs_f64(),
            transactions.as_secs_f64(),
            sizes.join(","),
            started.as_secs_f64() * 1_000.0
        );
        host.check_offsets(count, live_keys);
    }
}

fn timed(act: impl FnOnce()) -> Duration {
    // allow(clock): a benchmark measures
    let from = Instant::now();
    act();
    from.elapsed()
}

/// Commits of one offset each, for groups that take turns.
fn commit_offsets(host: &Host, count: usize, live_keys: usize) {
    for number in 0..count {
        let partition = offset_commit_request::Partitions {
            partition_index: 0,
            committed_offset: number as i64,
            committed_leader_epoch: -1,
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: format!("group {}", number % live_keys),
            generation_id_or_member_epoch: -1,
            topics: vec![offset_commit_request::Topics {
                name: "t".to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = host.ask(8, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{answer:?}");
    }
}

/// Transactions under version 2 of one offset commit each, of ids that take turns; every third one is aborted.
fn run_transactions(host: &Host, count: usize, live_keys: usize) {
    let id = |number: usize| format!("id {number}");
    let mut producers: Vec<(i64, i16)> = Vec::new();
    for number in 0..live_keys {
        let request = InitProducerIdRequest {
            transactional_id: Some(id(number)),
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let mut answer = host.ask(5, &request);
        // The first block of producer ids comes from the controller.
        while answer.error_code != 0 {
            host.wait_ms(10);
            answer = host.ask(5, &request);
        }
        producers.push((answer.producer_id, answer.producer_epoch));
    }
    for number in 0..count {
        let who = number % live_keys;
        let (producer_id, producer_epoch) = producers[who];
        let partition = txn_offset_commit_request::Partitions {
            partition_index: 0,
            committed_offset: number as i64,
            ..Default::default()
        };
        let commit = TxnOffsetCommitRequest {
            transactional_id: id(who),
            group_id: "transactional".to_owned(),
            producer_id,
            producer_epoch,
            topics: vec![txn_offset_commit_request::Topics {
                name: "t".to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = host.ask(5, &commit);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{answer:?}");
        let committed = !number.is_multiple_of(3);
        let end = EndTxnRequest { transactional_id: id(who), producer_id, producer_epoch, committed };
        let answer = host.ask(5, &end);
        assert_eq!(answer.error_code, 0, "{answer:?}");
        producers[who] = (answer.producer_id, answer.producer_epoch);
    }
}

impl Host {
    fn start(cleaner: &str) -> Self {
        let pairs = [
            ("log.cleaner.enable", cleaner),
            // A minute for markers, not a day: a run is less than an hour of the clock.
            ("log.cleaner.delete.retention.ms", "60000"),
            ("offsets.topic.num.partitions", "1"),
            ("offsets.topic.segment.bytes", "10485760"),
            ("transaction.state.log.num.partitions", "1"),
            ("transaction.state.log.segment.bytes", "10485760"),
        ];
        let host = Self::with(&pairs);
        host.create_topic("t");
        host
    }

    /// What a partition consists of.
    fn size(&self, topic: &str) -> String {
        let directory = format!("{topic}-0");
        let (mut segments, mut bytes, mut batches, mut records, mut end) = (0, 0, 0, 0, 0);
        for entry in self.disk.list(&directory).expect("a directory") {
            if entry.name.ends_with(".log") {
                segments += 1;
                bytes += entry.bytes;
                let file = self.disk.open(&format!("{directory}/{}", entry.name)).expect("a log");
                for batch in Batches::new(file.read(0, entry.bytes as usize).expect("its content")) {
                    let batch = batch.expect("a batch");
                    batches += 1;
                    records += batch.header().record_count;
                    end = batch.last_offset().0 + 1;
                }
            }
        }
        format!(
            "\"{topic}\":{{\"segments\":{segments},\"bytes\":{bytes},\"batches\":{batches},\
             \"records\":{records},\"end\":{end}}}"
        )
    }

    /// The newest commit of each group is what the broker has after its start.
    fn check_offsets(&self, count: usize, live_keys: usize) {
        for who in 0..live_keys {
            let newest = (count - 1 - who) / live_keys * live_keys + who;
            assert_eq!(self.committed(&format!("group {who}")), newest as i64, "group {who}");
        }
        let newest = (0..count).rev().find(|number| !number.is_multiple_of(3)).expect("one is committed");
        assert_eq!(self.committed("transactional"), newest as i64);
    }

    fn committed(&self, group: &str) -> i64 {
        let request = OffsetFetchRequest {
            groups: vec![offset_fetch_request::Groups {
                group_id: group.to_owned(),
                topics: Some(vec![offset_fetch_request::GroupsTopics {
                    name: "t".to_owned(),
                    partition_indexes: vec![0],
                    ..Default::default()
                }]),
                ..Default::default()
            }],
            ..Default::default()
        };
        self.ask(8, &request).groups[0].topics[0].partitions[0].committed_offset
    }
}
