//! What is asked of every client, and how the outcome is judged.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use crate::admin;
use crate::client::{CALL, Client, Item, Member, Sender, made};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

pub fn run(bootstrap: &str, scope: &str, capability: &str) -> Result<String> {
    let client = Client::new(bootstrap)?;
    match capability {
        "produce" => produce(&client, scope).map(|()| CODECS.join(", ")),
        "idempotent" => idempotent(&client, scope).map(|()| String::new()),
        "commit" => transactions(&client, scope, &[true; 5]).map(|()| String::new()),
        "abort" => {
            transactions(&client, scope, &[true, false, true, false, false, true]).map(|()| String::new())
        }
        "fencing" => fencing(&client, scope).map(|()| String::new()),
        "offsets" => offsets(&client, scope).map(|()| String::new()),
        "classic" | "consumer" => group(&client, scope, capability).map(|()| String::new()),
        "admin" => admin::run(&client, scope),
        other => bail!("no capability named {other}"),
    }
}

fn produce(client: &Client, topic: &str) -> Result<()> {
    client.create(3, &[topic])?;
    let mut sent = Vec::new();
    for codec in CODECS {
        let items = made(&format!("{codec}-"), 60, 3);
        client.send(&[("compression.type", codec)], topic, &items)?;
        sent.extend(items);
    }
    client.seal(topic, 3)?;
    client.holds(topic, 3, false, &sent)
}

fn idempotent(client: &Client, topic: &str) -> Result<()> {
    client.create(3, &[topic])?;
    let producer = client.producer(&[("enable.idempotence", "true")])?;
    let sent = made("v", 3000, 3);
    for chunk in sent.chunks(300) {
        producer.send(topic, chunk)?;
    }
    client.seal(topic, 3)?;
    client.holds(topic, 3, true, &sent)
}

fn transact(producer: &Sender, topics: &[&str], items: &[Item], commits: bool) -> Result<()> {
    producer.inner.begin_transaction()?;
    for topic in topics {
        producer.send(topic, items)?;
    }
    Ok(match commits {
        true => producer.inner.commit_transaction(CALL)?,
        false => producer.inner.abort_transaction(CALL)?,
    })
}

fn transactions(client: &Client, scope: &str, outcomes: &[bool]) -> Result<()> {
    let (a, b) = (format!("{scope}-a"), format!("{scope}-b"));
    let topics = [a.as_str(), b.as_str()];
    client.create(2, &topics)?;
    let producer = client.transactional(scope)?;
    let (mut everything, mut kept) = (Vec::new(), Vec::new());
    for (n, commits) in outcomes.iter().enumerate() {
        let items = made(&format!("t{n}-"), 20, 2);
        transact(&producer, &topics, &items, *commits)?;
        everything.extend(items.clone());
        if *commits {
            kept.extend(items);
        }
    }
    for topic in topics {
        client.seal(topic, 2)?;
        client.holds(topic, 2, true, &kept)?;
        client.holds(topic, 2, false, &everything)?;
    }
    Ok(())
}

fn fencing(client: &Client, topic: &str) -> Result<()> {
    client.create(1, &[topic])?;
    let old = client.transactional(topic)?;
    transact(&old, &[topic], &made("first", 1, 1), true)?;
    old.inner.begin_transaction()?;
    old.send(topic, &made("open", 1, 1))?;
    let next = client.transactional(topic)?;
    transact(&next, &[topic], &made("next", 1, 1), true)?;
    let late = old
        .send(topic, &made("late", 1, 1))
        .and_then(|()| old.inner.commit_transaction(CALL).map_err(anyhow::Error::from));
    let Err(error) = late else { bail!("the old instance could commit") };
    let code = error.downcast_ref::<KafkaError>().and_then(KafkaError::rdkafka_error_code);
    let fenced =
        [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced, RDKafkaErrorCode::InvalidProducerEpoch];
    ensure!(code.is_some_and(|code| fenced.contains(&code)), "the old instance is told {error:#}");
    client.seal(topic, 1)?;
    client.holds(topic, 1, true, &[made("first", 1, 1), made("next", 1, 1)].concat())
}

/// One life of a worker: transactions until so many records have gone through.
fn life(client: &Client, scope: &str, count: usize, commits: bool) -> Result<usize> {
    let source = format!("{scope}-in");
    let member = client.member(&format!("{scope}-group"), &source, "classic")?;
    let producer = client.transactional(scope)?;
    let mut done = 0;
    while done < count {
        let items = member.poll()?;
        if items.is_empty() {
            continue;
        }
        producer.inner.begin_transaction()?;
        producer.send(&format!("{scope}-out"), &items)?;
        let mut at = TopicPartitionList::new();
        for place in member.inner.position()?.elements().iter().filter(|e| e.offset() != Offset::Invalid) {
            at.add_partition_offset(place.topic(), place.partition(), place.offset())?;
        }
        let metadata = member.inner.group_metadata().context("no member")?;
        producer.inner.send_offsets_to_transaction(&at, &metadata, CALL)?;
        match commits {
            true => producer.inner.commit_transaction(CALL)?,
            false => producer.inner.abort_transaction(CALL)?,
        }
        done += items.len();
    }
    Ok(done)
}

fn offsets(client: &Client, scope: &str) -> Result<()> {
    let (source, target, name) = (format!("{scope}-in"), format!("{scope}-out"), format!("{scope}-group"));
    client.create(2, &[&source, &target])?;
    let sent = made("v", 60, 2);
    client.send(&[], &source, &sent)?;
    let aborted = life(client, scope, 1, false)?;
    let found = client.committed(&name, &source, 2)?;
    ensure!(found.is_empty(), "after the abort offsets {found:?} are committed");
    life(client, scope, 60, true)?;
    let found = client.committed(&name, &source, 2)?;
    ensure!(found == BTreeMap::from([(0, 30), (1, 30)]), "offsets {found:?} are committed, wanted 30 and 30");
    client.seal(&target, 2)?;
    client.holds(&target, 2, true, &sent)?;
    let seen: usize = client.read(&target, 2, false)?.values().map(Vec::len).sum();
    ensure!(seen == 60 + aborted, "{aborted} records were aborted, read_uncommitted sees {seen}");
    Ok(())
}

fn group(client: &Client, topic: &str, protocol: &str) -> Result<()> {
    client.create(4, &[topic])?;
    let a = client.member(topic, topic, protocol)?;
    shared(&[&a])?;
    let b = client.member(topic, topic, protocol)?;
    shared(&[&a, &b])?;
    consumed(client, topic, &made("v", 200, 4), &[&a, &b])?;
    drop(b);
    shared(&[&a])?;
    consumed(client, topic, &made("w", 40, 4), &[&a])?;
    drop(a);
    let found = client.committed(topic, topic, 4)?;
    ensure!((0..4).all(|p| found.get(&p) == Some(&60)), "offsets {found:?} are committed, wanted 60 of each");
    Ok(())
}

/// Waits until the members share the four partitions evenly.
fn shared(members: &[&Member]) -> Result<()> {
    loop {
        for member in members {
            let came = member.poll()?;
            ensure!(came.is_empty(), "polling gave {came:?}");
        }
        let owned = members.iter().map(|m| m.assigned()).collect::<Result<Vec<_>>>()?;
        let mut all = owned.concat();
        all.sort_unstable();
        if all == [0, 1, 2, 3] && owned.iter().all(|own| own.len() == 4 / members.len()) {
            return Ok(());
        }
    }
}

/// Sends records and has the members read each of them once, in order, and commit.
fn consumed(client: &Client, topic: &str, items: &[Item], members: &[&Member]) -> Result<()> {
    client.send(&[], topic, items)?;
    let mut read: Vec<Item> = Vec::new();
    while read.len() < items.len() {
        for member in members {
            let came = member.poll()?;
            let own = member.assigned()?;
            ensure!(
                came.iter().all(|item| own.contains(&item.partition)),
                "records came of partitions not assigned"
            );
            read.extend(came);
        }
    }
    for partition in 0..4 {
        let of = |all: &[Item]| all.iter().filter(|i| i.partition == partition).cloned().collect::<Vec<_>>();
        ensure!(of(&read) == of(items), "partition {partition}: read {:?}", of(&read));
    }
    members.iter().try_for_each(|member| member.commit())
}
