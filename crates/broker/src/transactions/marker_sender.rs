//! The markers of decided transactions: read off the shard's state, written to each partition, reported back.
//!
//! Nothing is kept beside the state that a restart could lose: after a load every decided transaction owes all its
//! markers again.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::ApiKey;
use fencepost_transaction::{MarkerAction, Markers, MarkersOwed, Request, TransactionalId};
use fencepost_types::{ErrorCode, TopicPartition};

use super::TransactionCell;
use super::marker_request::{request, version_for};
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::markers::{MarkerWritten, marker_appends};
use crate::runtime::Asked;

/// A marker that could not be written is tried again after this long, then twice as long, …
const RETRY_MS_MIN: i64 = 10;
/// … up to this long.
const RETRY_MS_MAX: i64 = 1_000;

impl TransactionCell {
    /// Writes all markers that this shard owes: after a load.
    pub(crate) fn send_all_markers(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx) {
        for owed in self.read(|shard| shard.markers_owed().collect::<Vec<_>>()) {
            self.send(broker, cx, owed, RETRY_MS_MIN);
        }
    }

    /// Writes the markers that one transaction owes.
    pub(crate) fn send_markers(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx, id: &TransactionalId) {
        if let Some(owed) = self.read(|shard| shard.markers_owed_by(id)) {
            self.send(broker, cx, owed, RETRY_MS_MIN);
        }
    }

    fn send(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx, owed: MarkersOwed, retry_ms: i64) {
        // Every leader is in this process so far, and shows what this broker shows.
        let spoken = broker.apis.advertised_versions(ApiKey::WriteTxnMarkers);
        let version = version_for(&spoken).expect("a broker speaks a version that it shows");
        let writes = marker_appends(&request(&owed, self.partition().coordinator_epoch(), version));
        let cell = Arc::clone(self);
        let (id, decided_at) = (owed.transactional_id, owed.decided_at);
        let named: Vec<TopicPartition> = writes.iter().map(|(name, _)| name.clone()).collect();
        let gather = Gather::new(broker, cx, writes.len(), move |broker, cx, codes: Vec<ErrorCode>| {
            let mut by_action: BTreeMap<u8, (MarkerAction, Vec<TopicPartition>)> = BTreeMap::new();
            for (partition, code) in named.into_iter().zip(codes) {
                let action = broker.marker_action(&partition, code);
                if action != MarkerAction::Written
                    && let Some(allowed) = broker.log_limits.marker_not_written.allow(cx.now.mono)
                {
                    let suppressed = allowed.suppressed;
                    tracing::warn!(%partition, transactional_id = %id, %code, suppressed, "a marker was not written");
                }
                by_action.entry(action as u8).or_insert_with(|| (action, Vec::new())).1.push(partition);
            }
            for (action, partitions) in by_action.into_values() {
                let markers = Markers { transactional_id: Arc::clone(&id), decided_at, partitions };
                cell.after_markers(broker, cx, action, markers, retry_ms);
            }
        });
        for (at, (partition, marker)) in writes.into_iter().enumerate() {
            let gather = Arc::clone(&gather);
            let written: MarkerWritten = Box::new(move |broker, cx, code| gather.put(broker, cx, at, code));
            broker.write_marker(cx, &partition, marker, written);
        }
    }

    fn after_markers(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &mut Cx,
        action: MarkerAction,
        markers: Markers,
        retry_ms: i64,
    ) {
        let request = match action {
            MarkerAction::Written => Request::MarkersWritten(markers),
            MarkerAction::NothingOwed => Request::PartitionsDeleted(markers),
            MarkerAction::GiveUp => Request::MarkersGivenUp(markers),
            MarkerAction::Retry => {
                let cell = Arc::clone(self);
                let at = cx.now.mono.plus_ms(retry_ms);
                let again = move |broker: &Arc<Broker>, cx: &mut Cx| {
                    let owed = cell.read(|shard| shard.markers_owed_by(&markers.transactional_id));
                    if let Some(owed) = owed.filter(|owed| owed.decided_at == markers.decided_at) {
                        cell.send(broker, cx, owed, (retry_ms * 2).min(RETRY_MS_MAX));
                    }
                };
                broker.add_deadline(at, Box::new(again));
                return;
            }
        };
        self.report(broker, cx, request);
    }

    /// Tells the shard what became of markers. What it writes then (the completion) is owed until it is in the log.
    fn report(self: &Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx, request: Request) {
        let cell = Arc::clone(self);
        let reported = request.clone();
        let mut asked = Asked::new(
            request,
            Box::new(move |broker, cx, answer| match answer {
                Ok(_) => {
                    // Nobody need wait any more for what will not come.
                    if let Request::MarkersGivenUp(markers) = &reported {
                        broker.transactions.completing.completed(broker, cx, &markers.transactional_id);
                    }
                }
                Err(error) => {
                    tracing::warn!(code = %error.code(), "a transaction could not be completed; trying again");
                    let at = cx.now.mono.plus_ms(RETRY_MS_MAX);
                    let again = move |broker: &Arc<Broker>, cx: &mut Cx| cell.report(broker, cx, reported);
                    broker.add_deadline(at, Box::new(again));
                }
            }),
        );
        // A crash before it is durable finds the decision, and writes the markers again.
        asked.append.is_unhurried = true;
        self.ask_with(broker, cx, asked);
    }
}
