//! What a million changes of the metadata leave behind: the directory of the metadata log, and how long the next start takes.
//!
//! ```text
//! cargo run --release -p fencepost-broker --example metadata_log [COUNT] [TOPICS]
//! ```
//!
//! A line of JSON. The whole engine runs with Kafka's defaults on a disk in memory, its clock a millisecond further with every
//! request; only the durations that are printed are real.
#![allow(clippy::disallowed_methods, reason = "this program measures how long things take")]

mod host;

use std::time::Instant;

use fencepost_protocol::messages::{
    DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, delete_topics_request,
    describe_configs_request, incremental_alter_configs_request,
};
use fencepost_storage::Disk;

use host::Host;

const COUNT: usize = 1_000_000;
const TOPICS: usize = 1_000;
/// One change in so many is that a topic comes, and later goes.
const TOPIC_EVERY: usize = 20;
const DIRECTORY: &str = "__cluster_metadata-0";
const TOPIC_RESOURCE: i8 = 2;
const SET: i8 = 0;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let count: usize = arguments.next().unwrap_or(COUNT);
    let topics: usize = arguments.next().unwrap_or(TOPICS).clamp(1, count);
    let mut host = Host::start();
    (0..topics).for_each(|number| host.create_topic(&format!("topic-{number}")));
    // allow(clock): a benchmark measures
    let from = Instant::now();
    let mut bytes_max = 0;
    for number in 0..count {
        change(&host, number, topics);
        if number.is_multiple_of(10_000) {
            bytes_max = bytes_max.max(host.size().0);
        }
    }
    let changes = from.elapsed();
    // What is to be unlinked goes after a minute.
    host.wait_ms(70_000);
    let (bytes, segments, snapshots) = host.size();
    let started = host.restart();
    println!(
        "{{\"count\":{count},\"topics\":{topics},\"changes_s\":{:.1},\"bytes_max\":{bytes_max},\"bytes\":{bytes},\
         \"segments\":{segments},\"snapshots\":{snapshots},\"start_ms\":{:.1}}}",
        changes.as_secs_f64(),
        started.as_secs_f64() * 1_000.0
    );
    host.check(count, topics);
}

/// A setting of a topic, or a topic that comes and goes.
fn change(host: &Host, number: usize, topics: usize) {
    let passing = |number: usize| format!("passing-{number}");
    if number % TOPIC_EVERY == 1 {
        host.create_topic(&passing(number));
    } else if number % TOPIC_EVERY == 11 {
        host.delete_topic(&passing(number - 10));
    } else {
        let config = incremental_alter_configs_request::Configs {
            name: "retention.ms".to_owned(),
            config_operation: SET,
            value: Some(number.to_string()),
        };
        let resource = incremental_alter_configs_request::Resources {
            resource_type: TOPIC_RESOURCE,
            resource_name: format!("topic-{}", number % topics),
            configs: vec![config],
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
        assert_eq!(host.ask(1, &request).responses[0].error_code, 0);
    }
}

impl Host {
    fn start() -> Self {
        Self::with(&[("offsets.topic.num.partitions", "1"), ("transaction.state.log.num.partitions", "1")])
    }

    fn delete_topic(&self, name: &str) {
        let topic = delete_topics_request::Topics { name: Some(name.to_owned()), ..Default::default() };
        let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
        assert_eq!(self.ask(6, &request).responses[0].error_code, 0, "{name}");
    }

    /// Bytes, segments and snapshots in the directory of the metadata log.
    fn size(&self) -> (u64, usize, usize) {
        let entries = self.disk.list(DIRECTORY).expect("a directory");
        let count = |suffix: &str| entries.iter().filter(|entry| entry.name.ends_with(suffix)).count();
        (entries.iter().map(|entry| entry.bytes).sum(), count(".log"), count(".checkpoint"))
    }

    /// The newest setting of each topic is what the broker has after its start.
    fn check(&self, count: usize, topics: usize) {
        for who in 0..topics {
            let is_setting =
                |number: &usize| !matches!(number % TOPIC_EVERY, 1 | 11) && number % topics == who;
            let Some(newest) = (0..count).rev().find(is_setting) else { continue };
            let resource = describe_configs_request::Resources {
                resource_type: TOPIC_RESOURCE,
                resource_name: format!("topic-{who}"),
                configuration_keys: Some(vec!["retention.ms".to_owned()]),
            };
            let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
            let value = self.ask(4, &request).results[0].configs[0].value.clone();
            assert_eq!(value, Some(newest.to_string()), "topic-{who}");
        }
    }
}
