//! `GET /lag`, `GET /lag?group=NAME`: how far groups are behind, as JSON.

use std::sync::{Arc, Weak};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fencepost_broker::{Broker, GroupLag, LagLimits, LagReport, PartitionLag, RecordsLeft};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

/// Answers one question at a time: many who ask must not take the disk from clients.
#[derive(Clone)]
pub(crate) struct LagPage {
    /// A connection may outlive the broker, and must not hold its directory.
    broker: Weak<Broker>,
    /// Closed when the broker stops.
    turn: Arc<Semaphore>,
    /// Held while logs are read.
    work: Arc<Mutex<()>>,
}

impl LagPage {
    /// The page of a broker.
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        Self { broker: Arc::downgrade(broker), turn: Arc::new(Semaphore::new(1)), work: Arc::default() }
    }

    /// Sends away who waits, and waits for the question that is being answered: it holds the broker.
    pub(crate) async fn stop(self) {
        self.turn.close();
        drop(self.work.lock().await);
    }
}

/// Answers one question. Files are read by a thread that may wait; it keeps the turn if the client goes away.
pub(crate) async fn page(State(page): State<LagPage>, RawQuery(query): RawQuery) -> Response {
    let Ok(group) = group_of(query.as_deref().unwrap_or_default()) else {
        return (StatusCode::BAD_REQUEST, "ask /lag or /lag?group=NAME\n").into_response();
    };
    let gone = || (StatusCode::SERVICE_UNAVAILABLE, "the broker stops\n").into_response();
    let Ok(turn) = page.turn.acquire_owned().await else { return gone() };
    let Ok(work) = page.work.try_lock_owned() else { return gone() };
    let answered = tokio::task::spawn_blocking(move || {
        let broker = page.broker.upgrade();
        let text =
            broker.map(|broker| json_of(&broker.lag(group.as_deref(), LagLimits::default())).to_string());
        drop((work, turn));
        text
    });
    match answered.await {
        Ok(Some(text)) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Ok(None) | Err(_) => gone(),
    }
}

/// What cannot be understood in a query.
#[derive(Debug, PartialEq, Eq)]
struct Misasked;

/// The group that a query names; `None` where it names none.
fn group_of(query: &str) -> Result<Option<String>, Misasked> {
    if query.is_empty() {
        return Ok(None);
    }
    let name = query.strip_prefix("group=").filter(|name| !name.contains('&')).ok_or(Misasked)?;
    let name = name.replace('+', " ");
    let name = percent_decode_str(&name).decode_utf8().map_err(|_| Misasked)?;
    Ok(Some(name.into_owned()))
}

fn json_of(report: &LagReport) -> Value {
    let groups: Vec<_> = report.groups.iter().map(group_json).collect();
    json!({ "groups": groups, "complete": report.is_complete })
}

fn group_json(group: &GroupLag) -> Value {
    let partitions: Vec<_> = group.partitions.iter().map(partition_json).collect();
    json!({ "group": group.group, "partitions": partitions })
}

fn partition_json(row: &PartitionLag) -> Value {
    let at = row.standing.as_ref().ok();
    let (records, unknown) = match row.records {
        RecordsLeft::Counted(records) => (Some(records), None),
        RecordsLeft::BeyondLimit => (None, Some("more batches than are looked at")),
        RecordsLeft::NothingCommitted => (None, Some("no offset counts yet")),
        RecordsLeft::Unreadable(code) => (None, Some(code.name())),
    };
    json!({
        "topic": &*row.partition.topic,
        "partition": row.partition.partition.0,
        "committed_offset": row.committed_offset.map(|offset| offset.0),
        "pending_transactions": row.pending_transactions,
        "log_start_offset": at.map(|at| at.log_start_offset.0),
        "last_stable_offset": at.map(|at| at.last_stable_offset.0),
        "high_watermark": at.map(|at| at.high_watermark.0),
        "log_end_offset": at.map(|at| at.log_end_offset.0),
        "lag": row.lag(),
        "stable_lag": row.stable_lag(),
        "records": records,
        "records_unknown": unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is taken as a browser or curl sends it; anything else is refused.
    #[test]
    fn the_query_names_one_group() {
        assert_eq!(group_of(""), Ok(None));
        assert_eq!(group_of("group=orders"), Ok(Some("orders".to_owned())));
        assert_eq!(group_of("group=a+b%2Bc%C3%A4"), Ok(Some("a b+cä".to_owned())));
        assert_eq!(group_of("group=%ff"), Err(Misasked));
        assert_eq!(group_of("group=a&group=b"), Err(Misasked));
        assert_eq!(group_of("topic=a"), Err(Misasked));
    }
}
