//! What the crate's AdminClient has, each call with its effect.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures_executor::block_on;
use rdkafka::admin::{AdminOptions, AlterConfig, NewPartitions, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{CALL, Client, made};

const SETTLING: Duration = Duration::from_secs(10);

type Step<'a> = (&'static str, Box<dyn Fn() -> Result<()> + 'a>);

/// Runs the calls in order, and names them.
pub fn run(client: &Client, topic: &str) -> Result<String> {
    let steps = steps(client, topic);
    for (name, step) in &steps {
        let began = Instant::now();
        // What is read may lag behind what was changed: Apache Kafka's brokers hear of it later than the controller answers.
        while let Err(error) = step() {
            let reads = ["describe", "fetch"].iter().any(|prefix| name.starts_with(prefix));
            ensure!(reads && began.elapsed() < SETTLING, "{name}: {error:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(steps.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
}

fn steps<'a>(client: &'a Client, topic: &'a str) -> Vec<Step<'a>> {
    let (admin, options) = (&client.admin, AdminOptions::new);
    let group = format!("{topic}-group");
    let group2 = group.clone();
    vec![
        ("create_topics", Box::new(|| client.create(1, &[topic]))),
        (
            "alter_configs",
            Box::new(move || {
                let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", "123456");
                let done = block_on(admin.alter_configs([&change], &options()))?;
                done[0].as_ref().map(|_| ()).map_err(|(_, code)| anyhow!("{code}"))
            }),
        ),
        (
            "describe_configs",
            Box::new(move || {
                let found = block_on(admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options()))?;
                let found = found[0].as_ref().map_err(|code| anyhow!("{code}"))?;
                ensure!(found.specifier == OwnedResourceSpecifier::Topic(topic.into()), "another resource");
                let retention = found.get("retention.ms").context("no retention.ms")?;
                ensure!(retention.value.as_deref() == Some("123456"), "{retention:?}");
                Ok(())
            }),
        ),
        (
            "create_partitions",
            Box::new(move || {
                let done = block_on(admin.create_partitions([&NewPartitions::new(topic, 3)], &options()))?;
                done[0].as_ref().map(|_| ()).map_err(|(_, code)| anyhow!("{code}"))
            }),
        ),
        (
            "fetch_metadata",
            Box::new(move || {
                let found = admin.inner().fetch_metadata(Some(topic), CALL)?;
                ensure!(
                    found.brokers().len() == 1 && found.topics()[0].partitions().len() == 3,
                    "other partitions"
                );
                Ok(())
            }),
        ),
        (
            "delete_records",
            Box::new(move || {
                client.send(&[("enable.idempotence", "true")], topic, &made("v", 3, 1))?;
                let mut to = TopicPartitionList::new();
                to.add_partition_offset(topic, 0, Offset::Offset(2))?;
                let done = block_on(admin.delete_records(&to, &options()))?;
                ensure!(done.elements()[0].offset() == Offset::Offset(2), "{done:?}");
                Ok(())
            }),
        ),
        (
            "fetch_watermarks",
            Box::new(move || {
                let found = admin.inner().fetch_watermarks(topic, 0, CALL)?;
                ensure!(found == (2, 3), "{found:?}");
                Ok(())
            }),
        ),
        (
            "commit an offset, fetch_group_list",
            Box::new(move || {
                let consumer: BaseConsumer = client.plain(&group)?;
                let mut at = TopicPartitionList::new();
                at.add_partition_offset(topic, 0, Offset::Offset(2))?;
                consumer.commit(&at, CommitMode::Sync)?;
                let found = admin.inner().fetch_group_list(None, CALL)?;
                ensure!(found.groups().iter().any(|listed| listed.name() == group), "not this group");
                Ok(())
            }),
        ),
        (
            "delete_groups",
            Box::new(move || {
                let done = block_on(admin.delete_groups(&[&group2], &options()))?;
                done[0].as_ref().map(|_| ()).map_err(|(_, code)| anyhow!("{code}"))
            }),
        ),
        (
            "delete_topics",
            Box::new(move || {
                let done = block_on(admin.delete_topics(&[topic], &options()))?;
                done[0].as_ref().map(|_| ()).map_err(|(_, code)| anyhow!("{code}"))
            }),
        ),
    ]
}
