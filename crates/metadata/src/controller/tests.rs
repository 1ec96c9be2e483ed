//! Rules of the controller, asked one request at a time.

mod brokers;
mod configs;
mod others;
mod property;
mod topics;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{LogPosition, Record, Refusal, Shard, Token};
use fencepost_types::{BrokerId, ErrorCode, LeaderEpoch, Millis, Now, Uuid};

use super::*;
use crate::image::{ConfigResource, Endpoint};
use crate::log::{QuorumRecord, control_batch};
use crate::quorum;

/// A node with its log: what the engine does between a request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) controller: Controller,
    /// Every record, as it lies in the log.
    pub(crate) log: Vec<(Offset, Option<bytes::Bytes>)>,
    seed: u128,
}

pub(crate) const ME: BrokerId = BrokerId(1);

impl Node {
    /// A node before its first start.
    pub(crate) fn new(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let statics = StaticConfig::new(pairs).expect("the settings are good");
        Self { controller: Controller::new(ME, Arc::new(statics)), log: Vec::new(), seed: 0 }
    }

    /// A node that serves.
    pub(crate) fn running() -> Self {
        let mut node = Self::new(&[]);
        node.begin_epoch(1);
        node.must(&Request::Bootstrap);
        node.start(BrokerEpoch::NONE);
        node
    }

    /// What the engine writes when it takes the log over.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        let records = [
            QuorumRecord::LeaderChange(quorum::leader_change(ME, &[ME])),
            QuorumRecord::KRaftVersion(quorum::kraft_version(1)),
            QuorumRecord::Voters(quorum::voters(&[])),
        ];
        let batch = control_batch(self.controller.next_offset(), LeaderEpoch(epoch), Millis(0), &records);
        self.controller.replay_batch(&batch).expect("the batch is ours");
    }

    /// Registers and unfences.
    pub(crate) fn start(&mut self, previous_epoch: BrokerEpoch) {
        let registration = self.registration(previous_epoch);
        self.must(&Request::RegisterBroker(registration));
        self.must(&Request::UnfenceBroker);
    }

    pub(crate) fn registration(&mut self, previous_epoch: BrokerEpoch) -> RegisterBroker {
        RegisterBroker {
            incarnation_id: self.uuid(),
            endpoints: Vec::from([Endpoint {
                listener: "PLAINTEXT".to_string(),
                host: "127.0.0.1".to_string(),
                port: 9092,
                security_protocol: 0,
            }]),
            rack: None,
            directories: Vec::from([Uuid::from_random(1 << 100)]),
            previous_epoch,
        }
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        self.seed += 1;
        Uuid::from_random(self.seed << 64 | self.seed)
    }

    /// Decides, appends, replays; the reply.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, ControllerRefusal> {
        let mut decision = self.controller.decide(Now::default(), Token(7), request)?;
        for record in &decision.records {
            let at = self.controller.next_offset();
            self.log.push((at, record.encode().1));
            self.controller.replay(LogPosition::plain(at), record);
        }
        assert_eq!(self.controller.failure(), None);
        self.controller.check();
        assert_eq!(decision.replies.len(), 1);
        let (token, reply) = decision.replies.remove(0);
        assert_eq!(token, Token(7));
        Ok(reply)
    }

    pub(crate) fn must(&mut self, request: &Request) -> Reply {
        self.ask(request).expect("the request is taken")
    }

    pub(crate) fn topic(&mut self, name: &str) -> NewTopic {
        NewTopic {
            name: name.to_string(),
            id: self.uuid(),
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }

    /// Creates topics; the code of each.
    pub(crate) fn create(&mut self, topics: Vec<NewTopic>, validate_only: bool) -> Vec<(String, ErrorCode)> {
        match self.must(&Request::CreateTopics { topics, validate_only }) {
            Reply::CreateTopics(results) => {
                results.into_iter().map(|(name, result)| (name, code_of(&result))).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// The code of one topic that is not really created.
    pub(crate) fn try_topic(&mut self, change: impl FnOnce(&mut NewTopic)) -> ErrorCode {
        let mut topic = self.topic("tried");
        change(&mut topic);
        self.create(Vec::from([topic]), true).remove(0).1
    }

    pub(crate) fn with_topic(mut self, name: &str) -> Self {
        let topic = self.topic(name);
        assert_eq!(self.create(Vec::from([topic]), false), [(name.to_string(), ErrorCode::None)]);
        self
    }

    /// Changes one resource; the code.
    pub(crate) fn alter(
        &mut self,
        resource: ConfigResource,
        changes: &[(&str, i8, Option<&str>)],
    ) -> ErrorCode {
        let changes = changes
            .iter()
            .map(|(key, operation, value)| ConfigChange {
                key: key.to_string(),
                operation: *operation,
                value: value.map(str::to_string),
            })
            .collect();
        let resources = Vec::from([ConfigChanges { resource, changes }]);
        self.alter_all(AlterConfigs { resources, mode: AlterMode::Incremental, validate_only: false })
            .remove(0)
    }

    pub(crate) fn alter_all(&mut self, request: AlterConfigs) -> Vec<ErrorCode> {
        match self.must(&Request::AlterConfigs(request)) {
            Reply::AlterConfigs(results) => results.iter().map(|(_, result)| code_of(result)).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// The same node after its log has been read back.
    pub(crate) fn replayed(&self) -> Image {
        let mut fold = ImageFold::default();
        for (offset, value) in &self.log {
            let record = VersionedRecord::decode(None, value.as_ref()).expect("ours").expect("known");
            fold.replay(*offset, &record.record).expect("it fits");
        }
        fold.image().clone()
    }
}

pub(crate) fn code_of<T, E: Refusal>(result: &Result<T, E>) -> ErrorCode {
    match result {
        Ok(_) => ErrorCode::None,
        Err(refusal) => refusal.code(),
    }
}
