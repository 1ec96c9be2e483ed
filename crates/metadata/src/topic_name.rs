//! Names of topics: which there may be, and which collide.

use alloc::string::String;

use fencepost_types::limits::TOPIC_NAME_CHARS_MAX;

/// Why no topic can have a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicNameFault {
    /// It is empty.
    Empty,
    /// It is `.` or `..`.
    Dots(String),
    /// It is longer than a directory's name allows.
    TooLong(String),
    /// It holds something else than letters and digits of ASCII, dots, underscores and dashes.
    Letters(String),
}

impl core::fmt::Display for TopicNameFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Topic name is invalid: ")?;
        match self {
            Self::Empty => f.write_str("the empty string is not allowed"),
            Self::Dots(name) => write!(f, "'{name}' is not allowed"),
            Self::TooLong(name) => write!(
                f,
                "the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
            ),
            Self::Letters(name) => write!(
                f,
                "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
            ),
        }
    }
}

/// Checks a name.
///
/// Source: Kafka Topic.validate.
pub fn check(name: &str) -> Result<(), TopicNameFault> {
    match name {
        "" => Err(TopicNameFault::Empty),
        "." | ".." => Err(TopicNameFault::Dots(name.into())),
        name if name.encode_utf16().count() > TOPIC_NAME_CHARS_MAX => {
            Err(TopicNameFault::TooLong(name.into()))
        }
        name if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
            Err(TopicNameFault::Letters(name.into()))
        }
        _ => Ok(()),
    }
}

/// Whether a topic may have that name.
pub fn is_valid_topic_name(name: &str) -> bool {
    check(name).is_ok()
}

/// Whether another name can have the same form.
pub(crate) fn may_collide(name: &str) -> bool {
    name.contains(['.', '_'])
}

/// The form in which two names collide: dots and underscores are the same in the names of metrics.
pub(crate) fn collision_form(name: &str) -> String {
    name.replace('.', "_")
}
