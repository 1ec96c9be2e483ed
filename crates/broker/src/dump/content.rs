//! Keys and values of records, by decoder.

use std::borrow::Cow;

use bytes::Bytes;
use fencepost_records::{ControlRecordType, EndTxnMarker, Record};
use fencepost_types::Offset;

use super::json::Json;
use super::layout::{Layout, Owner};
use super::options::Decoder;
use super::row::ControlRow;

/// A key or a value on its way out.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// As it is.
    Bytes(Bytes),
    /// Decoded.
    Decoded(Json),
    /// A coordinator's tombstone.
    Deleted,
    /// It cannot be decoded: why.
    Note(String),
}

impl Content {
    /// The text of it; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
            Self::Decoded(json) => json.to_string().into(),
            Self::Deleted => "<DELETE>".into(),
            Self::Note(text) => text.into(),
        }
    }

    /// For JSON: text where it is UTF-8, `{"base64": …}` where it is not, null for a tombstone, `{"note": …}` for
    /// what cannot be decoded.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Json::text(text.to_owned()),
                Err(_) => Json::Object(vec![("base64", Json::Bytes(bytes.clone()))]),
            },
            Self::Decoded(json) => json.clone(),
            Self::Deleted => Json::Null,
            Self::Note(text) => Json::Object(vec![("note", Json::text(text.clone()))]),
        }
    }
}

/// Key and value of a data record as they are shown; `None` is not shown.
pub(super) fn contents(
    decoder: Decoder,
    offset: Offset,
    record: &Record,
) -> (Option<Content>, Option<Content>) {
    let owner = match decoder {
        Decoder::Text => {
            return (record.key.clone().map(Content::Bytes), record.value.clone().map(Content::Bytes));
        }
        Decoder::ClusterMetadata => return (None, Some(metadata(offset, record.value.clone()))),
        Decoder::Offsets => Owner::Offsets,
        Decoder::TransactionLog => Owner::Transactions,
        Decoder::ShareGroupState => Owner::Shares,
    };
    let Some(key) = record.key.clone() else {
        let note = format!(
            "Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
        );
        return (Some(Content::Note(note)), None);
    };
    match coordinator(owner, key, record.value.clone()) {
        Ok((key, value)) => {
            (Some(Content::Decoded(key)), Some(value.map_or(Content::Deleted, Content::Decoded)))
        }
        Err(CoordinatorFailure::UnknownType(id)) => {
            let note = format!("Unknown record type {id} at offset {offset}, skipping.");
            (Some(Content::Note(note)), None)
        }
        Err(CoordinatorFailure::Malformed(why)) => {
            (Some(Content::Note(format!("Error at offset {offset}, skipping. {why}"))), None)
        }
    }
}

enum CoordinatorFailure {
    UnknownType(i16),
    Malformed(String),
}

/// A record of a coordinator: `{"type", "data"}` of the key, `{"version", "data"}` of the value.
fn coordinator(
    owner: Owner,
    key: Bytes,
    value: Option<Bytes>,
) -> Result<(Json, Option<Json>), CoordinatorFailure> {
    let malformed = |part: &'static str| {
        move |why: String| CoordinatorFailure::Malformed(format!("the {part} cannot be read: {why}"))
    };
    let (record_type, key) = version_and_rest(key).map_err(malformed("key"))?;
    let (key_layout, value_layout) =
        Layout::of_coordinator(owner, record_type).ok_or(CoordinatorFailure::UnknownType(record_type))?;
    // Kafka reads no further than the last field: what follows is left alone.
    let (key, _) = key_layout.decode(key, 0).map_err(|why| malformed("key")(why.to_string()))?;
    let key = Json::Object(vec![("type", Json::text(record_type.to_string())), ("data", key)]);
    let Some(value) = value else { return Ok((key, None)) };
    let (version, value) = version_and_rest(value).map_err(malformed("value"))?;
    let decoded = value_layout.decode(value, version);
    let (mut data, _) = decoded.map_err(|why| malformed("value")(why.to_string()))?;
    match value_layout.name {
        "GroupMetadataValue" => unfold_members(&mut data),
        "TransactionLogValue" => name_status(&mut data),
        _ => {}
    }
    let value = Json::Object(vec![("version", Json::text(version.to_string())), ("data", data)]);
    Ok((key, Some(value)))
}

fn version_and_rest(mut bytes: Bytes) -> Result<(i16, Bytes), String> {
    if bytes.len() < 2 {
        return Err(format!("{} bytes hold no version", bytes.len()));
    }
    let version = bytes.split_to(2);
    Ok((i16::from_be_bytes([version[0], version[1]]), bytes))
}

/// In a classic group of consumers the members' subscriptions and assignments are messages themselves.
fn unfold_members(group: &mut Json) {
    if group.get("protocolType") != Some(&Json::text("consumer")) {
        return;
    }
    let Some(Json::List(members)) = group.get_mut("members") else { return };
    let parts = [
        ("subscription", Layout::named("ConsumerProtocolSubscription")),
        ("assignment", Layout::named("ConsumerProtocolAssignment")),
    ];
    for member in members {
        for (name, layout) in parts {
            let (Some(field), Some(layout)) = (member.get_mut(name), layout) else { continue };
            let Json::Bytes(bytes) = &*field else { continue };
            let Ok((version, rest)) = version_and_rest(bytes.clone()) else { continue };
            // A later version may only have added fields at the end.
            if let Ok((content, _)) = layout.decode(rest, version.min(layout.version_max())) {
                *field = content;
            }
        }
    }
}

/// States of transactions by name. Source: Kafka TransactionState.
fn name_status(transaction: &mut Json) {
    const NAMES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];
    let Some(status) = transaction.get_mut("transactionStatus") else { return };
    let Json::Int(number) = *status else { return };
    if let Some(name) = usize::try_from(number).ok().and_then(|at| NAMES.get(at)) {
        *status = Json::text(*name);
    }
}

/// A record of the metadata log: frame version, type, version, message.
fn metadata(offset: Offset, value: Option<Bytes>) -> Content {
    match value.ok_or_else(|| "the value is null".to_owned()).and_then(metadata_record) {
        Ok(json) => Content::Decoded(json),
        Err(why) => Content::Note(format!("Error at {offset}, skipping. {why}")),
    }
}

fn metadata_record(value: Bytes) -> Result<Json, String> {
    let mut reader = fencepost_types::wire::Reader::new(value);
    let mut number = |what: &str| {
        let read = reader.uvarint().map_err(|error| format!("no {what}: {error}"))?;
        i16::try_from(read).map_err(|_| format!("{what} {read} is out of range"))
    };
    let frame = number("frame version")?;
    if frame != 1 {
        return Err(format!("the frame version is {frame}, not 1"));
    }
    let (record_type, version) = (number("type")?, number("version")?);
    let layout = Layout::of_type(Owner::Metadata, record_type)
        .ok_or_else(|| format!("Unknown metadata id {record_type}"))?;
    let data = layout.decode_whole(reader.into_rest(), version).map_err(|error| error.to_string())?;
    Ok(Json::Object(vec![
        ("type", Json::text(upper_snake(layout.name))),
        ("version", Json::Int(version.into())),
        ("data", data),
    ]))
}

/// `FeatureLevelRecord` as `FEATURE_LEVEL_RECORD`.
fn upper_snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (at, c) in name.char_indices() {
        if at > 0 && c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

/// What a control record says.
pub(super) fn control(record: &Record) -> ControlRow {
    let (key, value) = (record.key.as_deref(), record.value.as_deref());
    let malformed = |why: &dyn ToString| ControlRow::Malformed(why.to_string());
    let (id, name) = match ControlRecordType::from_key(key) {
        Err(error) => return malformed(&error),
        Ok(ControlRecordType::Abort | ControlRecordType::Commit) => {
            return match EndTxnMarker::from_record(key, value) {
                Ok(Some(marker)) => ControlRow::EndTxn {
                    result: if marker.result.is_commit() { "COMMIT" } else { "ABORT" },
                    coordinator_epoch: marker.coordinator_epoch.0,
                },
                Ok(None) => malformed(&"no marker"),
                Err(error) => malformed(&error),
            };
        }
        Ok(ControlRecordType::Unknown(id)) => return ControlRow::Unknown(id),
        Ok(kind @ ControlRecordType::LeaderChange) => (kind.id(), "LeaderChange"),
        Ok(kind @ ControlRecordType::SnapshotHeader) => (kind.id(), "SnapshotHeader"),
        Ok(kind @ ControlRecordType::SnapshotFooter) => (kind.id(), "SnapshotFooter"),
        Ok(kind @ ControlRecordType::KRaftVersion) => (kind.id(), "KRaftVersion"),
        Ok(kind @ ControlRecordType::KRaftVoters) => (kind.id(), "KRaftVoters"),
    };
    let layout = Layout::of_type(Owner::Control, id).expect("every control record of KRaft has a layout");
    // The first field is the version itself.
    let Some(version) = value.and_then(|value| value.first_chunk()).map(|bytes| i16::from_be_bytes(*bytes))
    else {
        return malformed(&format!("a {name} without a version"));
    };
    match layout.decode(record.value.clone().unwrap_or_default(), version.min(layout.version_max())) {
        Ok((json, _)) => ControlRow::KRaft(name, json),
        Err(error) => malformed(&format!("a {name}: {error}")),
    }
}
