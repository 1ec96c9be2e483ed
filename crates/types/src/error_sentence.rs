//! Kafka's sentence for each error code. Source: Kafka 4.4.0 `Errors`.

use crate::ErrorCode;

impl ErrorCode {
    /// The sentence that Kafka puts beside the code where it has no better one; empty for [`Self::None`].
    pub fn sentence(self) -> &'static str {
        let at = i32::from(self.code()) - i32::from(Self::UnknownServerError.code());
        usize::try_from(at).ok().and_then(|at| SENTENCES.get(at)).copied().unwrap_or_default()
    }
}

/// In order of code, from −1 on.
const SENTENCES: [&str; 138] = [
    "The server experienced an unexpected error when processing the request.",
    "",
    "The requested offset is not within the range of offsets maintained by the server.",
    "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is otherwise corrupt.",
    "This server does not host this topic-partition.",
    "The requested fetch size is invalid.",
    "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.",
    "The request timed out.",
    "The broker is not available.",
    "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.",
    "The request included a message larger than the max message size the server will accept.",
    "The controller moved to another broker.",
    "The metadata field of the offset request was too large.",
    "The server disconnected before a response was received.",
    "The coordinator is loading and hence can't process requests.",
    "The coordinator is not available.",
    "This is not the correct coordinator.",
    "The request attempted to perform an operation on an invalid topic.",
    "The request included message batch larger than the configured segment size on the server.",
    "Messages are rejected since there are fewer in-sync replicas than required.",
    "Messages are written to the log, but to fewer in-sync replicas than required.",
    "Produce request specified an invalid value for required acks.",
    "Specified group generation id is not valid.",
    "The group member's supported protocols are incompatible with those of existing members or first group member tried to join with empty protocol type or empty protocol list.",
    "The group id is invalid.",
    "The coordinator is not aware of this member.",
    "The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms and group.max.session.timeout.ms).",
    "The group is rebalancing, so a rejoin is needed.",
    "The committing offset data size is not valid.",
    "Topic authorization failed.",
    "Group authorization failed.",
    "Cluster authorization failed.",
    "The timestamp of the message is out of acceptable range.",
    "The broker does not support the requested SASL mechanism.",
    "Request is not valid given the current SASL state.",
    "The version of API is not supported.",
    "Topic with this name already exists.",
    "Number of partitions is below 1.",
    "Replication factor is below 1 or larger than the number of available brokers.",
    "Replica assignment is invalid.",
    "Configuration is invalid.",
    "This is not the correct controller for this cluster.",
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details.",
    "The message format version on the broker does not support the request.",
    "Request parameters do not satisfy the configured policy.",
    "The broker received an out of order sequence number.",
    "The broker received a duplicate sequence number.",
    "Producer attempted to produce with an old epoch.",
    "The producer attempted a transactional operation in an invalid state.",
    "The producer attempted to use a producer id which is not currently assigned to its transactional id.",
    "The transaction timeout is larger than the maximum value allowed by the broker (as configured by transaction.max.timeout.ms).",
    "The producer attempted to update a transaction while another concurrent operation on the same transaction was ongoing.",
    "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a given producer.",
    "Transactional Id authorization failed.",
    "Security features are disabled.",
    "The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in the batch failed, causing the broker to respond without trying the rest.",
    "Disk error when trying to access log file on the disk.",
    "The user-specified log directory is not found in the broker config.",
    "SASL Authentication failed.",
    "This exception is raised by the broker if it could not locate the producer metadata associated with the producerId in question. This could happen if, for instance, the producer's records were deleted because their retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is removed from the broker, and future appends by the producer will return this exception.",
    "A partition reassignment is in progress.",
    "Delegation Token feature is not enabled.",
    "Delegation Token is not found on server.",
    "Specified Principal is not valid Owner/Renewer.",
    "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels.",
    "Delegation Token authorization failed.",
    "Delegation Token is expired.",
    "Supplied principalType is not supported.",
    "The group is not empty.",
    "The group id does not exist.",
    "The fetch session ID was not found.",
    "The fetch session epoch is invalid.",
    "There is no listener on the leader broker that matches the listener on which metadata request was processed.",
    "Topic deletion is disabled.",
    "The leader epoch in the request is older than the epoch on the broker.",
    "The leader epoch in the request is newer than the epoch on the broker.",
    "The requesting client does not support the compression type of given partition.",
    "Broker epoch has changed.",
    "The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to be monotonically increasing.",
    "The group member needs to have a valid member id before actually entering a consumer group.",
    "The preferred leader was not available.",
    "The group has reached its maximum size.",
    "The broker rejected this static consumer since another consumer with the same group.instance.id has registered with a different member.id.",
    "Eligible topic partition leaders are not available.",
    "Leader election not needed for topic partition.",
    "No partition reassignment is in progress.",
    "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    "This record has failed the validation on broker and hence will be rejected.",
    "There are unstable offsets that need to be cleared.",
    "The throttling quota has been exceeded.",
    "There is a newer producer with the same transactionalId which fences the current one.",
    "A request illegally referred to a resource that does not exist.",
    "A request illegally referred to the same resource twice.",
    "Requested credential would not meet criteria for acceptability.",
    "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters.",
    "The given update version was invalid.",
    "Unable to update finalized features due to an unexpected server error.",
    "Request principal deserialization failed during forwarding. This indicates an internal error on the broker cluster security setup.",
    "Requested snapshot was not found.",
    "Requested position is not greater than or equal to zero, and less than the size of the snapshot.",
    "This server does not host this topic ID.",
    "This broker ID is already in use.",
    "The given broker ID was not registered.",
    "The log's topic ID did not match the topic ID in the request.",
    "The clusterId in the request does not match that found on the server.",
    "The transactionalId could not be found.",
    "The fetch session encountered inconsistent topic ID usage.",
    "The new ISR contains at least one ineligible replica.",
    "The AlterPartition request successfully updated the partition state but the leader has changed.",
    "The requested offset is moved to tiered storage.",
    "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin.",
    "The instance ID is still used by another member in the consumer group. That member must leave first.",
    "The assignor or its version range is not supported by the consumer group.",
    "The member epoch is stale. The member must retry after receiving its updated member epoch via the ConsumerGroupHeartbeat API.",
    "The request was sent to an endpoint of the wrong type.",
    "This endpoint type is not supported yet.",
    "This controller ID is not known.",
    "Client sent a push telemetry request with an invalid or outdated subscription ID.",
    "Client sent a push telemetry request larger than the maximum size the broker will accept.",
    "The controller has considered the broker registration to be invalid.",
    "The server encountered an error with the transaction. The client can abort the transaction to continue using this transactional ID.",
    "The record state is invalid. The acknowledgement of delivery could not be completed.",
    "The share session was not found.",
    "The share session epoch is invalid.",
    "The coordinator rejected the request because the state epoch did not match.",
    "The voter key doesn't match the receiving replica's key.",
    "The voter is already part of the set of voters.",
    "The voter is not part of the set of voters.",
    "The regular expression is not valid.",
    "Client metadata is stale. The client should rebootstrap to obtain new metadata.",
    "The supplied topology is invalid.",
    "The supplied topology epoch is invalid.",
    "The supplied topology epoch is outdated.",
    "The limit of share sessions has been reached.",
    "DeleteGroups could not complete; see the error message on the per-group result for details.",
    "The broker could not process the topology description update; see the error message for details.",
    "The given controller ID was not registered.",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes have no gap, so that each finds its own sentence; only success has none.
    #[test]
    fn each_code_has_its_sentence() {
        let codes = ErrorCode::ALL.iter().map(|code| code.code());
        assert!(codes.eq(-1..137), "{:?}", ErrorCode::ALL);
        assert_eq!(ErrorCode::ALL.len(), SENTENCES.len());
        for code in ErrorCode::ALL {
            assert_eq!(code.sentence().is_empty(), code.is_none(), "{code}");
        }
        assert_eq!(ErrorCode::RequestTimedOut.sentence(), "The request timed out.");
        assert_eq!(
            ErrorCode::ElectionNotNeeded.sentence(),
            "Leader election not needed for topic partition."
        );
    }
}
