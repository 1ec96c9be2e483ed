//! Folding the log into images, with metadata transactions: what lies between Begin and End becomes visible at once.

use fencepost_records::persisted::voters_record::VotersRecord;
use fencepost_types::{LeaderEpoch, Offset};

use alloc::sync::Arc;

use super::{Image, ReplayError, ReplayFault};
use crate::quorum::Voter;
use crate::record::MetadataRecord;

/// An image that grows by records, and beside it the one that an open metadata transaction works on.
///
/// Source: KIP-868, Kafka MetadataBatchLoader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageFold {
    image: Image,
    transaction: Option<Image>,
    next_offset: Offset,
}

impl Default for ImageFold {
    fn default() -> Self {
        Self::new(Image::default())
    }
}

impl ImageFold {
    /// Starts at a snapshot: the image is `image`, whatever was before is gone.
    pub fn new(image: Image) -> Self {
        let next_offset = image.offset.next();
        Self { image, transaction: None, next_offset }
    }

    /// The image without what an open transaction has done.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Whether a metadata transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The offset after the last record taken in, control records included.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// Takes in one record.
    pub fn replay(&mut self, offset: Offset, record: &MetadataRecord) -> Result<(), ReplayError> {
        self.next_offset = offset.next();
        let fault = |fault| ReplayError { offset, record: record.type_name(), fault };
        match (record, &mut self.transaction) {
            (MetadataRecord::BeginTransaction(_), Some(_)) => Err(fault(ReplayFault::TransactionOpen)),
            (MetadataRecord::BeginTransaction(_), open) => {
                *open = Some(self.image.clone());
                Ok(())
            }
            (MetadataRecord::EndTransaction(_), open) => {
                self.image = open.take().ok_or_else(|| fault(ReplayFault::NoTransaction))?;
                self.image.offset = offset;
                Ok(())
            }
            (MetadataRecord::AbortTransaction(_), open) => {
                open.take().ok_or_else(|| fault(ReplayFault::NoTransaction))?;
                self.image.offset = offset;
                Ok(())
            }
            (record, Some(open)) => open.replay(offset, record),
            (record, None) => self.image.replay(offset, record),
        }
    }

    /// Takes in a change of the quorum's leader: a control record, effective at once.
    pub fn replay_leader_change(&mut self, offset: Offset, epoch: LeaderEpoch) {
        self.each(offset, |image| image.epoch = epoch);
    }

    /// Takes in a level of `kraft.version`: a control record, effective at once.
    pub fn replay_kraft_version(&mut self, offset: Offset, level: i16) {
        self.each(offset, |image| image.kraft_version = level);
    }

    /// Takes in a set of voters: a control record, effective at once.
    pub fn replay_voters(&mut self, offset: Offset, record: &VotersRecord) {
        let voters = Arc::new(Voter::all_from_record(record));
        self.each(offset, |image| image.voters = voters.clone());
    }

    /// Passes over a control record that says nothing about the image.
    pub fn skip(&mut self, offset: Offset) {
        self.each(offset, |_| {});
    }

    fn each(&mut self, offset: Offset, change: impl Fn(&mut Image)) {
        self.next_offset = offset.next();
        if let Some(open) = &mut self.transaction {
            change(open);
        } else {
            self.image.offset = offset;
        }
        change(&mut self.image);
    }
}

#[cfg(test)]
mod tests;
