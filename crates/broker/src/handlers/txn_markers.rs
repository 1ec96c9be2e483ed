//! WriteTxnMarkers: what a coordinator, or an operator who ends a hanging transaction, asks of a partition leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_protocol::messages::write_txn_markers_response::{Markers, Partitions, Topics};
use fencepost_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use fencepost_types::{ErrorCode, ProducerId, TopicPartition};

use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::markers::marker_appends;
use crate::respond::Exchange;

/// Writes each marker to each of its partitions, in the order of the request, and answers once all of them are durable.
///
/// Results of two markers of one producer are merged, the later one standing (`producer-state §7.4`, trap 38).
/// Source: KIP-98, KIP-664, KIP-1228.
pub(crate) fn write_txn_markers(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: WriteTxnMarkersRequest,
) {
    let writes = marker_appends(&request);
    let named: Vec<_> = writes.iter().map(|(name, append)| (append.producer_id, name.clone())).collect();
    let gather = Gather::new(broker, cx, writes.len(), move |_, _, codes: Vec<ErrorCode>| {
        exchange.reply(response(named, codes));
    });
    for (at, (name, append)) in writes.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let written =
            Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, code| gather.put(broker, cx, at, code));
        broker.write_marker(cx, &name, append, written);
    }
    let timeout_ms = i64::from(broker.config().request_timeout_ms);
    gather.fill_after(broker, cx, timeout_ms, |_| ErrorCode::RequestTimedOut);
}

fn response(named: Vec<(ProducerId, TopicPartition)>, codes: Vec<ErrorCode>) -> WriteTxnMarkersResponse {
    let mut by_producer: BTreeMap<ProducerId, BTreeMap<TopicPartition, ErrorCode>> = BTreeMap::new();
    for ((producer_id, name), code) in named.into_iter().zip(codes) {
        by_producer.entry(producer_id).or_default().insert(name, code);
    }
    let markers = by_producer.into_iter().map(|(producer_id, partitions)| {
        let mut topics: Vec<Topics> = Vec::new();
        for (name, code) in partitions {
            if topics.last().is_none_or(|topic| *topic.name != *name.topic) {
                topics.push(Topics { name: name.topic.to_string(), partitions: Vec::new() });
            }
            if let Some(topic) = topics.last_mut() {
                let row = Partitions { partition_index: name.partition.0, error_code: code.code() };
                topic.partitions.push(row);
            }
        }
        Markers { producer_id: producer_id.0, topics }
    });
    WriteTxnMarkersResponse { markers: markers.collect() }
}
