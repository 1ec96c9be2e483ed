//! The end of a run: peace, every timeout passed, and then everything is settled, and stays so through more accidents.

use std::collections::BTreeSet;

use fencepost_client::requests::code;
use fencepost_protocol::messages::offset_fetch_request::{Groups, GroupsTopics};
use fencepost_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, OffsetFetchRequest, OffsetFetchResponse,
};
use fencepost_types::ErrorCode;

use super::auditor::{Auditor, Desk};
use super::{ACCOUNTS, TIMEOUT_MS_MAX};
use crate::actors::Handle;
use crate::client::SimClient;
use crate::faults::Accident;

/// Beyond the last timeout, everything is settled after this long: the process is up again, and requests that were on
/// their way have come and gone, or timed out in their turn.
const SETTLE_MS: u64 = 2_000;
const LIST_TRANSACTIONS_VERSION: i16 = 2;
const OFFSET_FETCH_VERSION: i16 = 9;
/// What OffsetFetch answers for a partition without an offset.
const NO_OFFSET: i64 = -1;

/// Waits until everything must be settled, and looks whether it is.
pub async fn settle(handle: Handle, desk: Desk) {
    let late_ms = handle.with_world(|world| world.faults().late_ms_max);
    handle.with_world(|world| world.make_peace());
    // A request that came late may have opened a transaction, which then has its own time.
    handle.sleep(late_ms + TIMEOUT_MS_MAX + SETTLE_MS).await;
    let mut auditor = desk.take().expect("the auditor has come back");
    look(&handle, &mut auditor).await;
    let durability = handle.with_world(|world| world.durability());
    for accident in [Accident::MachineCrash, Accident::ProcessKill, Accident::CleanStop] {
        if Accident::covered_by(durability).contains(&accident) {
            handle.with_world(|world| world.accident(accident));
            handle.sleep(SETTLE_MS).await;
            look(&handle, &mut auditor).await;
        }
    }
}

async fn look(handle: &Handle, auditor: &mut Auditor) {
    auditor.audit().await;
    let judged = auditor.ledger().borrow().judge_end(auditor.seen());
    judged.unwrap_or_else(|sentence| panic!("at the end: {sentence}"));
    look_at_transactions(auditor.client()).await;
    look_at_offsets(auditor).await;
    handle.with_world(|world| {
        world.verify();
        let broker = world.broker().expect("nothing goes wrong any more");
        for standing in broker.standings() {
            let (stable, high) = (standing.last_stable_offset, standing.high_watermark);
            assert_eq!(stable, high, "at the end something cannot be read: {standing:?}");
            assert_eq!(high, standing.log_end_offset, "at the end something is not durable: {standing:?}");
            assert_eq!(standing.open_transactions, 0, "at the end a transaction hangs: {standing:?}");
        }
    });
}

async fn look_at_transactions(client: &mut SimClient) {
    let request = ListTransactionsRequest { duration_filter: -1, ..ListTransactionsRequest::default() };
    let list_code = |response: &ListTransactionsResponse| code(response.error_code);
    let answer = client.ask(LIST_TRANSACTIONS_VERSION, &request, list_code).await;
    assert_eq!(answer.code, ErrorCode::None, "ListTransactions");
    for listed in answer.response.transaction_states {
        let settled = ["Empty", "CompleteCommit", "CompleteAbort"];
        assert!(
            settled.contains(&listed.transaction_state.as_str()),
            "at the end a transaction hangs: {listed:?}"
        );
    }
}

/// A group's offset belongs to the transaction that it was committed in, as records do.
async fn look_at_offsets(auditor: &mut Auditor) {
    let tellers: BTreeSet<u64> = {
        let ledger = auditor.ledger().borrow();
        let with_groups = ledger.transfers.iter().filter(|(_, transfer)| transfer.group_offset.is_some());
        with_groups.map(|(id, _)| id.teller()).collect()
    };
    for teller in tellers {
        let expected = auditor.ledger().borrow().group_offset(teller, auditor.seen());
        let group = Groups {
            group_id: format!("group-{teller}"),
            topics: Some(vec![GroupsTopics {
                name: ACCOUNTS.to_owned(),
                partition_indexes: vec![0],
                ..GroupsTopics::default()
            }]),
            ..Groups::default()
        };
        let request =
            OffsetFetchRequest { groups: vec![group], require_stable: true, ..OffsetFetchRequest::default() };
        let answer = auditor.client().ask(OFFSET_FETCH_VERSION, &request, offset_code).await;
        assert_eq!(answer.code, ErrorCode::None, "OffsetFetch of teller {teller}");
        let found = answer.response.groups[0].topics[0].partitions[0].committed_offset;
        assert_eq!(found, expected.unwrap_or(NO_OFFSET), "the offset of teller {teller}'s group");
    }
}

fn offset_code(response: &OffsetFetchResponse) -> ErrorCode {
    match code(response.groups[0].error_code) {
        ErrorCode::None => code(response.groups[0].topics[0].partitions[0].error_code),
        code => code,
    }
}
