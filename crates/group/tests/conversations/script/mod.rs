//! Runs transcripts: requests in, answers and records out.

pub mod command;
pub mod driver;
pub mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_coordinator::Token;
use fencepost_group::{Assignor, ConsumerGroupConfig, GroupConfig, MigrationPolicy, Topics};
use fencepost_types::{ProducerId, TransactionResult};

use self::command::{Line, World};
use self::driver::{Driver, Entry, Mask};

/// Runs one transcript: every line that starts with `> ` is a command, the lines below it are what it brought.
/// Everything else (titles, comments, empty lines) stays as it is. A title (`== …`) starts afresh.
pub fn run(transcript: &str) -> String {
    let mut out = String::new();
    let mut stage = Stage::new();
    for line in transcript.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            out.push_str(line);
            out.push('\n');
            for answer in stage.step(command) {
                out.push_str(&answer);
                out.push('\n');
            }
        } else if line.is_empty() || line.starts_with('#') || line.starts_with("==") {
            if line.starts_with("==") {
                stage = Stage::new();
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

struct Stage {
    driver: Driver,
    world: World,
    /// Requests that wait, by the name they were given.
    waiting: BTreeMap<Token, String>,
    shown: usize,
}

impl Stage {
    fn new() -> Self {
        // Tests say when the first rebalance shall wait, and when assignments shall.
        let consumer = ConsumerGroupConfig { assignment_interval_ms: 0, ..ConsumerGroupConfig::default() };
        let config = GroupConfig { initial_rebalance_delay_ms: 0, consumer, ..GroupConfig::default() };
        let world = World {
            mask: Mask::default(),
            topics: Arc::new(Topics::default()),
            fresh: 0,
            newcomer: None,
            topic_ids: BTreeMap::new(),
        };
        Self { driver: Driver::new(config), world, waiting: BTreeMap::new(), shown: 0 }
    }

    fn step(&mut self, command: &str) -> Vec<String> {
        let line = Line::parse(command);
        let request = match line.words[0] {
            "join" => Some(self.world.join(&line)),
            "sync" => Some(self.world.sync(&line)),
            "beat" => Some(self.world.beat(&line)),
            "leave" => Some(self.world.leave(&line)),
            "commit" => Some(self.world.commit(&line)),
            "txn-commit" => Some(self.world.txn_commit(&line)),
            "fetch" => Some(self.world.fetch(&line)),
            "offset-delete" => Some(self.world.offset_delete(&line)),
            "describe" => Some(self.world.describe(&line)),
            "list" => Some(self.world.list_groups(&line)),
            "delete" => Some(self.world.delete(&line)),
            "beat848" => Some(self.world.beat848(&line)),
            "describe848" => Some(self.world.describe848(&line)),
            "topic" => self.world.topic(&line),
            other => {
                self.other(other, &line);
                if other == "log" {
                    return self.log();
                }
                None
            }
        };
        let mut lines = Vec::new();
        if line.words[0] != "join" {
            self.world.newcomer = None;
        }
        if let Some(request) = request {
            match self.driver.ask(&request) {
                Err(refusal) => lines.push(format!("  {}", show::refusal(&refusal))),
                Ok(token) => {
                    self.driver.wait(0);
                    lines.extend(self.own_answer(token));
                }
            }
        }
        lines.extend(self.others_answers());
        lines
    }

    fn other(&mut self, name: &str, line: &Line<'_>) {
        match name {
            "wait" => self.driver.wait(line.words[1].parse().expect("milliseconds")),
            "restart" => {
                self.waiting.clear();
                self.driver.restart();
            }
            "marker" => {
                let producer = ProducerId(line.words[1].parse().expect("a producer id"));
                let result = TransactionResult::from_committed(line.words[2] == "commit");
                self.driver.marker(producer, result);
            }
            "set" => self.set(line),
            "log" => {}
            other => panic!("no such command: {other}"),
        }
    }

    fn set(&mut self, line: &Line<'_>) {
        let config = &mut self.driver.config;
        config.initial_rebalance_delay_ms = line.number("initial-delay", config.initial_rebalance_delay_ms);
        config.max_size = line.number("max-size", config.max_size);
        config.consumer_max_size = line.number("consumer-max-size", config.consumer_max_size);
        config.new_member_join_timeout_ms = line.number("join-timeout", config.new_member_join_timeout_ms);
        config.offsets_retention_ms = line.number("retention", config.offsets_retention_ms);
        let interval = config.consumer.assignment_interval_ms;
        config.consumer.assignment_interval_ms = line.number("assignment-interval", interval);
        let session = config.consumer.session_timeout_ms;
        config.consumer.session_timeout_ms = line.number("consumer-session", session);
        if line.options.contains_key("range-first") {
            config.consumer_assignors = vec![Assignor::Range, Assignor::Uniform];
        }
        if line.options.contains_key("no-migration") {
            config.migration_policy = MigrationPolicy::Disabled;
        }
        self.driver.shard.configure(Arc::new(config.clone()));
    }

    fn own_answer(&mut self, token: Token) -> Option<String> {
        let at = self.driver.answers.iter().position(|(answered, _)| *answered == token);
        let Some(at) = at else {
            let name = format!("W{}", token.0);
            self.waiting.insert(token, name.clone());
            let newcomer = self.world.newcomer.take().map(|id| format!(" as {}", self.world.mask.saw(&id)));
            return Some(format!("  waits {name}{}", newcomer.unwrap_or_default()));
        };
        let (_, reply) = self.driver.answers.remove(at);
        Some(indented("  ", &show::reply(&mut self.world, &reply)))
    }

    fn others_answers(&mut self) -> Vec<String> {
        let answers = std::mem::take(&mut self.driver.answers);
        let mut lines = Vec::new();
        for (token, reply) in answers {
            let name = self.waiting.remove(&token).expect("who is answered has waited");
            lines.push(indented(&format!("  {name}: "), &show::reply(&mut self.world, &reply)));
        }
        lines
    }

    /// What the log has that was not shown before.
    fn log(&mut self) -> Vec<String> {
        let new = &self.driver.log[self.shown..];
        self.shown = self.driver.log.len();
        let show = |entry: &Entry| match entry {
            Entry::Marker(at, result) => format!("  marker {} {result:?}", at.producer_id),
            Entry::Record(at, record) if at.is_transactional => {
                format!("  {} pid={}", show::record(&self.world, record), at.producer_id)
            }
            Entry::Record(_, record) => format!("  {}", show::record(&self.world, record)),
        };
        new.iter().map(show).collect()
    }
}

fn indented(indent: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}
