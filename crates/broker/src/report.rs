//! The state of the broker as lines of text, for an operator who asks a running process (SIGUSR1, SIGQUIT).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_coordinator::{Shard, Token};
use fencepost_group::{ListGroups, Reply, Request};
use fencepost_transaction::TransactionState;
use fencepost_types::Now;

use crate::Broker;
use crate::inspect::standing;
use crate::partition::Partition;

/// The most rows of one kind: the worst come first.
const ROWS_MAX: usize = 20;

impl Broker {
    /// The state as lines, one for each thing that can stand still. Looks at everything: for an operator, not for a poll.
    pub fn report(&self, now: Now) -> Vec<String> {
        let mut lines = vec![self.report_queues()];
        self.report_partitions(now, &mut lines);
        self.report_transactions(now, &mut lines);
        self.report_groups(now, &mut lines);
        lines
    }

    fn report_queues(&self) -> String {
        format!(
            "broker {}: epoch {}, metadata offset {}, log directory {}, {} deadlines, {} chores, {} partitions to sync, {} producers",
            self.node_id,
            self.broker_epoch.lock().expect("no holder of this lock panics").0,
            self.image().offset(),
            if self.log_dir_is_offline.load(Ordering::Acquire) { "offline" } else { "online" },
            self.deadlines.len(),
            self.chores.len(),
            self.sync_queue.len(),
            self.producer_entries(),
        )
    }

    fn report_partitions(&self, now: Now, lines: &mut Vec<String>) {
        let partitions = self.partitions.all();
        let mut held: Vec<(i64, String)> = Vec::new();
        let mut offline = 0;
        for partition in &partitions {
            match standing(partition) {
                Err(_) => offline += 1,
                Ok(at) if at.open_transactions > 0 => {
                    let lag = at.high_watermark.0 - at.last_stable_offset.0;
                    held.push((lag, open_transaction_line(partition, now, lag, at.open_transactions)));
                }
                Ok(_) => {}
            }
        }
        lines.push(format!(
            "partitions: {}, of them {offline} offline, {} with open transactions",
            partitions.len(),
            held.len()
        ));
        held.sort_by_key(|(lag, _)| -lag);
        add_rows(lines, held.into_iter().map(|(_, line)| line).collect());
    }

    fn report_transactions(&self, now: Now, lines: &mut Vec<String>) {
        let mut by_state: BTreeMap<&'static str, usize> = BTreeMap::new();
        let (mut rows, mut parked) = (Vec::new(), 0);
        for cell in self.transactions.all() {
            parked += cell.parked_requests();
            cell.read(|shard| {
                for (id, txn) in shard.transactions() {
                    *by_state.entry(txn.state.name()).or_default() += 1;
                    let since_ms = now.wall.since(txn.last_update);
                    if is_open(txn.state) {
                        let line = format!(
                            "transaction {id}: {}, producer {} epoch {}, {} partitions, {since_ms} ms since its last change, timeout {} ms",
                            txn.state, txn.producer_id, txn.producer_epoch, txn.partitions.len(), txn.timeout_ms,
                        );
                        rows.push((since_ms, line));
                    }
                }
            });
        }
        lines.push(format!("transactional ids: {}, {parked} requests parked", counted(&by_state)));
        rows.sort_by_key(|(since_ms, _)| -since_ms);
        add_rows(lines, rows.into_iter().map(|(_, line)| line).collect());
    }

    fn report_groups(&self, now: Now, lines: &mut Vec<String>) {
        let mut by_state: BTreeMap<&'static str, usize> = BTreeMap::new();
        let (mut rows, mut parked) = (Vec::new(), 0);
        for cell in self.groups.all() {
            parked += cell.parked_requests();
            let listed = cell.read(|shard| {
                let request = Request::ListGroups(ListGroups::default());
                shard.decide(now, Token(0), &request).ok().and_then(|mut decision| decision.replies.pop())
            });
            let Some((_, Reply::List(groups))) = listed else { continue };
            for group in groups {
                *by_state.entry(group.state).or_default() += 1;
                if !matches!(group.state, "Stable" | "Empty") {
                    rows.push(format!("group {}: {}, {}", group.group, group.group_type, group.state));
                }
            }
        }
        lines.push(format!("groups: {}, {parked} requests parked", counted(&by_state)));
        add_rows(lines, rows);
    }
}

fn is_open(state: TransactionState) -> bool {
    match state {
        TransactionState::Ongoing | TransactionState::PrepareCommit | TransactionState::PrepareAbort => true,
        TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => false,
    }
}

fn open_transaction_line(partition: &Arc<Partition>, now: Now, lag: i64, open: usize) -> String {
    let oldest = partition.with(|state| state.log.producer_states().oldest_open_transaction());
    let oldest = oldest.ok().flatten().map_or_else(String::new, |oldest| {
        format!(
            ", the oldest of producer {} from offset {}, {} ms since its last batch",
            oldest.producer_id,
            oldest.first_offset,
            now.wall.since(oldest.last_timestamp)
        )
    });
    format!("partition {}: {open} open transactions hold {lag} offsets back{oldest}", partition.name)
}

fn counted(by_state: &BTreeMap<&'static str, usize>) -> String {
    let total: usize = by_state.values().sum();
    let states: Vec<String> = by_state.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if states.is_empty() { "0".to_owned() } else { format!("{total} ({})", states.join(", ")) }
}

fn add_rows(lines: &mut Vec<String>, rows: Vec<String>) {
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    lines.extend(rows.into_iter().take(ROWS_MAX));
    if left_out > 0 {
        lines.push(format!("… and {left_out} more of these"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, broker, create_topic};

    /// Issue 12, B14: the report says what there is, and of many rows the first.
    #[test]
    fn a_report_is_bounded() {
        let broker = broker();
        create_topic(&broker, "t");
        let lines = broker.report(NOW);
        assert!(lines[0].contains("log directory online"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("groups: 0")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("transactional ids: 0")), "{lines:?}");
        let mut rows = Vec::new();
        add_rows(&mut rows, (0..1_000).map(|row| row.to_string()).collect());
        assert_eq!((rows.len(), rows[ROWS_MAX].as_str()), (ROWS_MAX + 1, "… and 980 more of these"));
    }
}
