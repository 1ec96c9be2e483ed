//! Values of configuration keys, typed, and the text that DescribeConfigs shows for them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Key, Kind};

/// A value of the type its key asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Int`], [`Kind::Short`] and [`Kind::Long`].
    Number(i64),
    /// Of [`Kind::Double`].
    Real(f64),
    /// Of [`Kind::List`].
    List(Vec<String>),
    /// Of [`Kind::String`], [`Kind::Class`] and [`Kind::Password`].
    Text(String),
}

/// Why a text is no value of a key, in Kafka's words: tools look for them.
///
/// Source: Kafka ConfigException.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InvalidValue {
    /// The value, or the one item of it that is wrong, and what it should be.
    Value {
        /// The value as it is shown.
        value: String,
        /// What it should be.
        problem: String,
    },
    /// A list has an item without letters.
    EmptyItem,
}

impl InvalidValue {
    pub(super) fn new(value: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Value { value: value.into(), problem: problem.into() }
    }

    /// The sentence for the administrator who set it.
    pub fn sentence(&self, key: &Key) -> String {
        let name = key.name;
        match self {
            Self::Value { problem, .. } if key.is_sensitive() => {
                format!("Invalid value [hidden] for configuration {name}: {problem}")
            }
            Self::Value { value, problem } => {
                format!("Invalid value {value} for configuration {name}: {problem}")
            }
            Self::EmptyItem => format!("Configuration '{name}' values must not be empty."),
        }
    }
}

impl Value {
    /// Reads `text` as a value of that kind. Blanks around it do not count, except in secrets.
    ///
    /// Source: Kafka ConfigDef.parseType.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, InvalidValue> {
        let trimmed = text.trim();
        let wrong = || InvalidValue::new(text, format!("Not a number of type {}", kind.java_name()));
        let number = |least: i64, most: i64| {
            trimmed
                .parse::<i64>()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .map(Self::Number)
                .ok_or_else(wrong)
        };
        match kind {
            Kind::Boolean if trimmed.eq_ignore_ascii_case("true") => Ok(Self::Boolean(true)),
            Kind::Boolean if trimmed.eq_ignore_ascii_case("false") => Ok(Self::Boolean(false)),
            Kind::Boolean => Err(InvalidValue::new(text, "Expected value to be either true or false")),
            Kind::Short => number(i16::MIN.into(), i16::MAX.into()),
            Kind::Int => number(i32::MIN.into(), i32::MAX.into()),
            Kind::Long => number(i64::MIN, i64::MAX),
            Kind::Double => trimmed.parse::<f64>().map(Self::Real).map_err(|_| wrong()),
            Kind::List => Ok(Self::List(split_list(trimmed))),
            Kind::String | Kind::Class => Ok(Self::Text(trimmed.to_string())),
            Kind::Password => Ok(Self::Text(text.to_string())),
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Number(_) | Self::Real(_) | Self::List(_) | Self::Text(_) => None,
        }
    }

    /// The whole number, if it is one.
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Boolean(_) | Self::Real(_) | Self::List(_) | Self::Text(_) => None,
        }
    }

    /// The fraction, if it is one.
    pub fn as_real(&self) -> Option<f64> {
        match self {
            Self::Real(value) => Some(*value),
            Self::Boolean(_) | Self::Number(_) | Self::List(_) | Self::Text(_) => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[String]> {
        match self {
            Self::List(items) => Some(items),
            Self::Boolean(_) | Self::Number(_) | Self::Real(_) | Self::Text(_) => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Boolean(_) | Self::Number(_) | Self::Real(_) | Self::List(_) => None,
        }
    }

    /// The text that DescribeConfigs shows.
    ///
    /// Source: Kafka ConfigDef.convertToString.
    pub fn to_text(&self) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Real(value) => real_text(*value),
            Self::List(values) => values.join(","),
            Self::Text(value) => value.clone(),
        }
    }
}

/// The items of a list, without the blanks around them; an empty text is an empty list.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_string()).collect()
}

/// A fraction as Java writes it: always with a point, with an exponent from ten million on and below a thousandth.
fn real_text(value: f64) -> String {
    let size = if value < 0.0 { -value } else { value };
    if size != 0.0 && !(1e-3..1e7).contains(&size) && value.is_finite() {
        let text = format!("{value:E}");
        return match text.split_once('E') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
            _ => text,
        };
    }
    format!("{value:?}")
}
