//! What the tellers know of their transfers, and what must therefore be seen of them.

use std::collections::{BTreeMap, BTreeSet};

/// Names a transfer, in all runs of one seed the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// Transfers of one teller have numbers below this.
const TRANSFERS_OF_ONE_TELLER: u64 = 1_000;

impl TransferId {
    /// The transfer with this number of this teller.
    pub fn new(teller: u64, number: u64) -> Self {
        assert!(number < TRANSFERS_OF_ONE_TELLER, "too many transfers");
        Self(teller * TRANSFERS_OF_ONE_TELLER + number)
    }

    /// Whose it is.
    pub fn teller(self) -> u64 {
        self.0 / TRANSFERS_OF_ONE_TELLER
    }
}

/// What is known of a transfer's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// No commit was ever asked for, or every one that was asked for was refused: it must never be seen.
    Open,
    /// A commit was asked for, and the answer never came: seen in both partitions, or in none.
    Unknown,
    /// The commit was acknowledged: seen in both partitions.
    Committed,
    /// The abort was acknowledged: never seen.
    Aborted,
}

impl Outcome {
    /// Whether a reader may see it.
    pub fn may_be_seen(self) -> bool {
        match self {
            Self::Unknown | Self::Committed => true,
            Self::Open | Self::Aborted => false,
        }
    }
}

/// One transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What is added to account 0 and taken from account 1.
    pub amount: i64,
    /// What is known.
    pub outcome: Outcome,
    /// The offset that it commits for its teller's group.
    pub group_offset: Option<i64>,
}

/// One side of a transfer, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub offset: i64,
    /// Whose side it is.
    pub transfer: TransferId,
    /// What is added to the account.
    pub amount: i64,
}

/// All transfers.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// By name.
    pub transfers: BTreeMap<TransferId, Transfer>,
    /// Tellers that still make transfers.
    pub tellers_at_work: u64,
}

impl Ledger {
    /// A transfer begins.
    pub fn begin(&mut self, id: TransferId, amount: i64, group_offset: Option<i64>) {
        let transfer = Transfer { amount, outcome: Outcome::Open, group_offset };
        assert!(self.transfers.insert(id, transfer).is_none(), "{id:?} twice");
    }

    /// Something becomes known of a transfer.
    pub fn set(&mut self, id: TransferId, outcome: Outcome) {
        self.transfers.get_mut(&id).expect("it has begun").outcome = outcome;
    }

    /// How many are committed, unknown, and neither.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |outcomes: &[Outcome]| {
            self.transfers.values().filter(|transfer| outcomes.contains(&transfer.outcome)).count() as u64
        };
        (count(&[Outcome::Committed]), count(&[Outcome::Unknown]), count(&[Outcome::Open, Outcome::Aborted]))
    }

    /// Judges what a reader sees of both accounts. Answers the transfers of which only one side is there: a commit may
    /// just be reaching the partitions. Errors: what must never be, in a sentence.
    pub fn judge(&self, accounts: &[Vec<Entry>; 2]) -> Result<BTreeSet<TransferId>, String> {
        let mut seen: [BTreeMap<TransferId, i64>; 2] = Default::default();
        for (number, entries) in accounts.iter().enumerate() {
            for entry in entries {
                let id = entry.transfer;
                let Some(transfer) = self.transfers.get(&id) else {
                    return Err(format!("{id:?} at {} of account {number} was never made", entry.offset));
                };
                if !transfer.outcome.may_be_seen() {
                    return Err(format!("{id:?} is {:?} and can be read: {entry:?}", transfer.outcome));
                }
                let expected = if number == 0 { transfer.amount } else { -transfer.amount };
                if entry.amount != expected {
                    return Err(format!("{id:?} has {} in account {number}, not {expected}", entry.amount));
                }
                if seen[number].insert(id, entry.amount).is_some() {
                    return Err(format!("{id:?} is in account {number} twice"));
                }
            }
        }
        let [first, second] = &seen;
        let halves: BTreeSet<_> = first
            .keys()
            .chain(second.keys())
            .filter(|id| first.contains_key(id) != second.contains_key(id))
            .copied()
            .collect();
        let whole = seen.iter().flatten().filter(|(id, _)| !halves.contains(id));
        let money: i64 = whole.map(|(_, amount)| amount).sum();
        if money == 0 { Ok(halves) } else { Err(format!("money is not conserved: {money} too much")) }
    }

    /// Judges the end: nothing is on its way any more. Errors as [`Ledger::judge`], and for what is missing.
    pub fn judge_end(&self, accounts: &[Vec<Entry>; 2]) -> Result<(), String> {
        let halves = self.judge(accounts)?;
        if !halves.is_empty() {
            return Err(format!("only one side is there of {halves:?}"));
        }
        let seen: BTreeSet<_> = accounts[0].iter().map(|entry| entry.transfer).collect();
        let committed = self.transfers.iter().filter(|(_, it)| it.outcome == Outcome::Committed);
        let missing: Vec<_> = committed.map(|(id, _)| id).filter(|id| !seen.contains(id)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("committed and not there: {missing:?}")) }
    }

    /// The offset that the group of a teller must have, given what can be read: that of its last visible transfer with
    /// one.
    pub fn group_offset(&self, teller: u64, accounts: &[Vec<Entry>; 2]) -> Option<i64> {
        let visible = accounts[0].iter().map(|entry| entry.transfer).filter(|id| id.teller() == teller);
        visible.filter_map(|id| self.transfers[&id].group_offset).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TransferId = TransferId(1_001);

    fn ledger(outcome: Outcome) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.begin(ID, 5, Some(2));
        ledger.set(ID, outcome);
        ledger
    }

    fn sides(first: &[i64], second: &[i64]) -> [Vec<Entry>; 2] {
        [first, second].map(|amounts| {
            let entries = amounts.iter().enumerate();
            entries.map(|(at, amount)| Entry { offset: at as i64, transfer: ID, amount: *amount }).collect()
        })
    }

    /// The canary: each thing that must never be is found.
    #[test]
    fn what_must_never_be_is_found() {
        let judge = |outcome, first: &[i64], second: &[i64]| ledger(outcome).judge_end(&sides(first, second));
        assert!(judge(Outcome::Committed, &[], &[]).is_err(), "a lost commit");
        assert!(judge(Outcome::Committed, &[5], &[]).is_err(), "half a commit");
        assert!(judge(Outcome::Committed, &[5, 5], &[-5, -5]).is_err(), "a commit twice");
        assert!(judge(Outcome::Committed, &[5], &[-4]).is_err(), "another amount");
        assert!(judge(Outcome::Unknown, &[], &[-5]).is_err(), "half of an unknown outcome");
        assert!(judge(Outcome::Aborted, &[5], &[-5]).is_err(), "an abort that can be read");
        assert!(judge(Outcome::Open, &[5], &[]).is_err(), "what nobody committed");
        let nobodys = Ledger::default().judge_end(&sides(&[5], &[-5]));
        assert!(nobodys.is_err(), "a transfer out of nothing");
    }

    /// What may be is let pass.
    #[test]
    fn what_may_be_is_let_pass() {
        let judge = |outcome, first: &[i64], second: &[i64]| ledger(outcome).judge_end(&sides(first, second));
        assert_eq!(judge(Outcome::Committed, &[5], &[-5]), Ok(()));
        assert_eq!(judge(Outcome::Unknown, &[5], &[-5]), Ok(()));
        assert_eq!(judge(Outcome::Unknown, &[], &[]), Ok(()));
        assert_eq!(judge(Outcome::Aborted, &[], &[]), Ok(()));
        let half = ledger(Outcome::Committed).judge(&sides(&[5], &[]));
        assert_eq!(half, Ok(BTreeSet::from([ID])), "a commit that is just arriving");
    }

    /// A group's offset is that of the last transfer that can be read.
    #[test]
    fn a_groups_offset_follows_what_can_be_read() {
        let ledger = ledger(Outcome::Unknown);
        assert_eq!(ledger.group_offset(1, &sides(&[5], &[-5])), Some(2));
        assert_eq!(ledger.group_offset(1, &sides(&[], &[])), None);
        assert_eq!(ledger.group_offset(2, &sides(&[5], &[-5])), None);
    }
}
