//! Names of topics: which there may be, and which collide.

use alloc::string::String;

use fencepost_types::limits::TOPIC_NAME_CHARS_MAX;

/// Why no topic can have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicNameFault {
    /// It is empty.
    Empty,
    /// It is `.` or `..`.
    Dots,
    /// It is longer than a directory's name allows.
    TooLong,
    /// It holds something else than letters and digits of ASCII, dots, underscores and dashes.
    Letters,
}

impl core::fmt::Display for TopicNameFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => f.write_str("A topic needs a name."),
            Self::Dots => f.write_str("A topic cannot be named . or .."),
            Self::TooLong => write!(f, "A topic's name has at most {TOPIC_NAME_CHARS_MAX} characters."),
            Self::Letters => {
                f.write_str("A topic's name holds ASCII letters, digits, dots, underscores and dashes only.")
            }
        }
    }
}

/// Checks a name.
///
/// Source: Kafka Topic.validate.
pub fn check(name: &str) -> Result<(), TopicNameFault> {
    match name {
        "" => Err(TopicNameFault::Empty),
        "." | ".." => Err(TopicNameFault::Dots),
        name if name.len() > TOPIC_NAME_CHARS_MAX => Err(TopicNameFault::TooLong),
        name if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
            Err(TopicNameFault::Letters)
        }
        _ => Ok(()),
    }
}

/// Whether a topic may have that name.
pub fn is_valid_topic_name(name: &str) -> bool {
    check(name).is_ok()
}

/// The form in which two names collide: dots and underscores are the same in the names of metrics.
pub(crate) fn collision_form(name: &str) -> String {
    name.replace('.', "_")
}
