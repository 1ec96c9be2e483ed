//! Which values a key takes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{InvalidValue, Value};

/// Which values a key takes, beside being of its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Any.
    Any,
    /// A number not below this one.
    AtLeast(i64),
    /// A number in this range, both ends included.
    Between(i64, i64),
    /// A number in this range, both ends included, or −1.
    BetweenOrMinusOne(i64, i64),
    /// A fraction in this range, both ends included.
    RealBetween(f64, f64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts, in any case.
    OneOfIgnoringCase(&'static [&'static str]),
    /// A list of nothing but these texts.
    EachOf(&'static [&'static str]),
    /// A text that is not empty.
    NonEmpty,
    /// Pairs of partition and broker as `0:1`, or a lone `*`.
    ThrottledReplicas,
    /// Pairs of an internet address and a count as `127.0.0.1:10`, separated by commas.
    ConnectionLimits,
    /// `latest`, `earliest` or `by_duration:` with an ISO 8601 duration.
    OffsetReset,
}

impl Rule {
    /// Checks a value of the right type, of the key `name`.
    pub fn check(self, name: &str, value: &Value) -> Result<(), InvalidValue> {
        if self.accepts(value) { Ok(()) } else { Err(self.fault(name, value)) }
    }

    /// What a value that is not taken should have been.
    ///
    /// Source: Kafka ConfigDef.Range, ValidString, ValidList, NonEmptyString, ThrottledReplicaListValidator,
    /// ShareGroupAutoOffsetResetStrategy.Validator, CompressionType.levelValidator.
    fn fault(self, name: &str, value: &Value) -> InvalidValue {
        let at_least = |least: i64| format!("Value must be at least {least}");
        let text = value.to_text();
        let problem = match self {
            Self::Any => String::new(),
            Self::AtLeast(least) => at_least(least),
            Self::Between(least, most) => match value.as_number() {
                Some(number) if number < least => at_least(least),
                Some(_) | None => format!("Value must be no more than {most}"),
            },
            Self::RealBetween(least, most) => match value.as_real() {
                Some(number) if number < least => format!("Value must be at least {least}"),
                Some(_) | None => format!("Value must be no more than {most}"),
            },
            Self::BetweenOrMinusOne(least, most) => {
                format!("Value must be between {least} and {most} or equal to -1")
            }
            Self::OneOf(texts) => format!("String must be one of: {}", texts.join(", ")),
            Self::OneOfIgnoringCase(texts) => {
                format!("String must be one of (case insensitive): {}", texts.join(", "))
            }
            Self::EachOf(texts) => {
                let items = value.as_list().unwrap_or_default();
                if items.iter().any(String::is_empty) {
                    return InvalidValue::EmptyItem;
                }
                let wrong = items.iter().find(|item| !texts.contains(&item.as_str()));
                let problem = format!("String must be one of: {}", texts.join(", "));
                return InvalidValue::new(wrong.cloned().unwrap_or_default(), problem);
            }
            Self::NonEmpty => "String must be non-empty".to_string(),
            Self::ThrottledReplicas => {
                let shown = format!("[{}]", value.as_list().unwrap_or_default().join(", "));
                let problem = format!(
                    "{name} must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                );
                return InvalidValue::new(shown, problem);
            }
            Self::ConnectionLimits => "Value must be a list of ADDRESS:COUNT pairs".to_string(),
            Self::OffsetReset => format!(
                "Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            ),
        };
        InvalidValue::new(text, problem)
    }

    fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::AtLeast(least), Value::Number(n)) => *n >= least,
            (Self::Between(least, most), Value::Number(n)) => (least..=most).contains(n),
            (Self::BetweenOrMinusOne(least, most), Value::Number(n)) => {
                *n == -1 || (least..=most).contains(n)
            }
            (Self::RealBetween(least, most), Value::Real(n)) => (least..=most).contains(n),
            (Self::OneOf(texts), Value::Text(text)) => texts.contains(&text.as_str()),
            (Self::OneOfIgnoringCase(texts), Value::Text(text)) => {
                texts.iter().any(|known| known.eq_ignore_ascii_case(text))
            }
            (Self::EachOf(texts), Value::List(items)) => {
                items.iter().all(|item| texts.contains(&item.as_str()))
            }
            (Self::NonEmpty, Value::Text(text)) => !text.is_empty(),
            (Self::ThrottledReplicas, Value::List(items)) => {
                matches!(items.as_slice(), [all] if all == "*") || items.iter().all(|item| is_replica(item))
            }
            (Self::ConnectionLimits, Value::Text(text)) => connection_limits(text).is_some(),
            (Self::OffsetReset, Value::Text(text)) => is_offset_reset(text),
            (
                Self::AtLeast(_)
                | Self::Between(..)
                | Self::BetweenOrMinusOne(..)
                | Self::RealBetween(..)
                | Self::OneOf(_)
                | Self::OneOfIgnoringCase(_)
                | Self::EachOf(_)
                | Self::NonEmpty
                | Self::ThrottledReplicas
                | Self::ConnectionLimits
                | Self::OffsetReset,
                _,
            ) => unreachable!("the table gives {self:?} to a key of another type"),
        }
    }

    /// What a value must be, for the documentation; empty for any.
    pub fn describe(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::AtLeast(least) => format!("at least {least}"),
            Self::Between(least, most) => format!("between {least} and {most}"),
            Self::BetweenOrMinusOne(least, most) => format!("between {least} and {most}, or -1"),
            Self::RealBetween(least, most) => format!("between {least} and {most}"),
            Self::OneOf(texts) | Self::OneOfIgnoringCase(texts) => format!("one of {}", texts.join(", ")),
            Self::EachOf(texts) => format!("a list of {}", texts.join(", ")),
            Self::NonEmpty => "not empty".to_string(),
            Self::ThrottledReplicas => "a list of partition:broker pairs, or *".to_string(),
            Self::ConnectionLimits => "a list of ADDRESS:COUNT pairs".to_string(),
            Self::OffsetReset => "latest, earliest or by_duration:PnDTnHnMn.nS".to_string(),
        }
    }
}

/// The pairs of [`Rule::ConnectionLimits`]; an address of IPv6 may stand in brackets. `None`: some part is no such pair.
///
/// Differs from Kafka: names of hosts are not looked up.
pub fn connection_limits(text: &str) -> Option<Vec<(IpAddr, usize)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let limits = pairs.map(|pair| {
        let (address, count) = pair.rsplit_once(':')?;
        let address = address.trim().trim_start_matches('[').trim_end_matches(']');
        Some((address.parse().ok()?, count.trim().parse().ok()?))
    });
    limits.collect()
}

fn is_replica(item: &str) -> bool {
    item.split_once(':').is_some_and(|(partition, broker)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number(partition) && is_number(broker)
    })
}

/// Whether the text is one of the three forms; the duration's value is judged by its letters and digits alone.
fn is_offset_reset(text: &str) -> bool {
    let Some(duration) = text.strip_prefix("by_duration:") else {
        return text == "latest" || text == "earliest";
    };
    let Some(parts) = duration.strip_prefix('P') else { return false };
    parts.bytes().any(|b| b.is_ascii_digit())
        && parts.bytes().last().is_some_and(|b| b"DHMS".contains(&b))
        && parts.bytes().all(|b| b.is_ascii_digit() || b"DTHMS.".contains(&b))
}
