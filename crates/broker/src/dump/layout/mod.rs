//! What the persisted records look like, as data (`layouts.txt`), and a decoder that walks over it: any version of any
//! record becomes [`Json`] as Kafka's converters write it. The codecs of `records` know no names; and the records of
//! share groups, which this broker never reads otherwise, are here as well.

use std::sync::OnceLock;

use super::json::Json;

mod decode;
mod parse;
#[cfg(test)]
mod tests;

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// `__consumer_offsets`.
    Offsets,
    /// `__transaction_state`.
    Transactions,
    /// `__share_group_state`.
    Shares,
    /// `__cluster_metadata`.
    Metadata,
    /// Control batches of KRaft.
    Control,
    /// A part of another record.
    Embedded,
}

/// One record: its versions and fields.
#[derive(Debug)]
pub(super) struct Layout {
    owner: Owner,
    record_type: i16,
    pub(super) name: &'static str,
    versions: Versions,
    /// The first version with tagged sections and compact lengths; `i16::MAX` where there is none.
    flexible_from: i16,
    fields: Vec<Field>,
}

/// A range of versions, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    low: i16,
    high: i16,
}

impl Versions {
    fn contains(self, version: i16) -> bool {
        (self.low..=self.high).contains(&version)
    }
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    kind: Kind,
    is_array: bool,
    versions: Versions,
    nullable: Option<Versions>,
    tag: Option<u32>,
    default: Option<&'static str>,
    /// Those of a struct.
    fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Int64,
    Float64,
    Uuid,
    Text,
    Bytes,
    Struct,
}

impl Layout {
    /// All of them.
    fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Layout>> = OnceLock::new();
        ALL.get_or_init(|| parse::parse(include_str!("layouts.txt")))
    }

    /// The key and the value of a coordinator's record type.
    pub(super) fn of_coordinator(owner: Owner, record_type: i16) -> Option<(&'static Self, &'static Self)> {
        let of_type = |suffix: &str| {
            Self::all().iter().find(|layout| {
                layout.owner == owner && layout.record_type == record_type && layout.name.ends_with(suffix)
            })
        };
        Some((of_type("Key")?, of_type("Value")?))
    }

    /// The record of a type in the metadata log or in a control batch.
    pub(super) fn of_type(owner: Owner, record_type: i16) -> Option<&'static Self> {
        Self::all().iter().find(|layout| layout.owner == owner && layout.record_type == record_type)
    }

    /// The record of a name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|layout| layout.name == name)
    }

    /// The highest version.
    pub(super) fn version_max(&self) -> i16 {
        self.versions.high
    }
}
