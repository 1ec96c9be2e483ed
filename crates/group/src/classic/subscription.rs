//! The metadata of classic consumers, as far as the coordinator looks into it.

use alloc::string::String;
use alloc::vec::Vec;

use fencepost_types::KeptBytes;
use fencepost_types::wire::{DecodeError, Decoded, Reader};

/// The topics of a consumer's subscription. Read as version 0, which every version starts with.
///
/// # Errors
/// The bytes are no subscription.
///
/// Source: Kafka ConsumerProtocol.deserializeConsumerProtocolSubscription.
pub fn subscribed_topics(metadata: &KeptBytes) -> Decoded<Vec<String>> {
    let mut reader = Reader::new(metadata.share());
    if reader.i16()? < 0 {
        return Err(DecodeError::UnexpectedNull);
    }
    // A name takes at least its length's two bytes.
    let count = reader.array_count(false, 2)?.ok_or(DecodeError::UnexpectedNull)?;
    (0..count).map(|_| reader.string(false)).collect()
}
