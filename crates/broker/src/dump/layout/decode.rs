//! From bytes to [`Json`], by a [`Layout`].

use bytes::Bytes;
use fencepost_types::wire::{DecodeError, Decoded, Reader};

use super::{Field, Json, Kind, Layout};

/// The most values that one record may unfold to: a value in memory is far larger than on the disk.
const DECODED_VALUES_MAX: usize = 1024 * 1024;

/// Why a record was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeFailure {
    /// The record has no such version.
    #[error("there is no version {0} of it")]
    Version(i16),
    /// The bytes are not what the version says.
    #[error("{0}")]
    Bytes(DecodeError),
    /// Bytes are left after the last field.
    #[error("{0} bytes follow the record")]
    Rest(usize),
}

impl From<DecodeError> for DecodeFailure {
    fn from(error: DecodeError) -> Self {
        Self::Bytes(error)
    }
}

impl Layout {
    /// The record as `version` has it, and the bytes after it.
    pub(crate) fn decode(&self, bytes: Bytes, version: i16) -> Result<(Json, Bytes), DecodeFailure> {
        if !self.versions.contains(version) {
            return Err(DecodeFailure::Version(version));
        }
        let mut reader = Reader::new(bytes);
        let mut walk =
            Walk { version, is_flexible: version >= self.flexible_from, values_left: DECODED_VALUES_MAX };
        let json = walk.fields(&self.fields, &mut reader)?;
        Ok((json, reader.into_rest()))
    }

    /// The record as `version` has it; nothing may follow.
    pub(crate) fn decode_whole(&self, bytes: Bytes, version: i16) -> Result<Json, DecodeFailure> {
        let (json, rest) = self.decode(bytes, version)?;
        if rest.is_empty() { Ok(json) } else { Err(DecodeFailure::Rest(rest.len())) }
    }
}

struct Walk {
    version: i16,
    is_flexible: bool,
    values_left: usize,
}

impl Walk {
    /// A struct: untagged fields in their order, then the tagged section; shown in the order of the layout. A tagged
    /// field that is as if it were not there is not shown.
    fn fields(&mut self, fields: &[Field], reader: &mut Reader) -> Decoded<Json> {
        let mut values: Vec<Option<Json>> = Vec::new();
        for field in fields {
            let is_here = field.tag.is_none() && field.versions.contains(self.version);
            values.push(if is_here { Some(self.field(field, reader)?) } else { None });
        }
        if self.is_flexible {
            reader.tagged_fields(|tag, reader| {
                let known = fields
                    .iter()
                    .position(|field| field.tag == Some(tag) && field.versions.contains(self.version));
                let Some(at) = known else { return Ok(false) };
                let value = self.field(&fields[at], reader)?;
                values[at] = Some(value).filter(|value| *value != fields[at].default_value(self.version));
                Ok(true)
            })?;
        }
        let shown = fields.iter().zip(values);
        Ok(Json::Object(shown.filter_map(|(field, value)| Some((field.name, value?))).collect()))
    }

    fn field(&mut self, field: &Field, reader: &mut Reader) -> Decoded<Json> {
        if !field.is_array {
            return self.value(field, reader);
        }
        match reader.array_count(self.is_flexible, 1)? {
            None if field.is_nullable(self.version) => Ok(Json::Null),
            None => Err(DecodeError::UnexpectedNull),
            Some(count) => {
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(field, reader)?);
                }
                Ok(Json::List(items))
            }
        }
    }

    /// A field that is no array, or one element of an array.
    fn value(&mut self, field: &Field, reader: &mut Reader) -> Decoded<Json> {
        self.values_left = self.values_left.checked_sub(1).ok_or(DecodeError::TooManyElements)?;
        let may_be_null = !field.is_array && field.is_nullable(self.version);
        let value = match field.kind {
            Kind::Bool => Json::Bool(reader.bool()?),
            Kind::Int8 => Json::Int(reader.i8()?.into()),
            Kind::Int16 => Json::Int(reader.i16()?.into()),
            Kind::Uint16 => Json::Int(reader.u16()?.into()),
            Kind::Int32 => Json::Int(reader.i32()?.into()),
            Kind::Int64 => Json::Int(reader.i64()?),
            Kind::Float64 => Json::Float(reader.f64()?),
            Kind::Uuid => Json::text(reader.uuid()?.to_text()),
            Kind::Text => Json::or_null(reader.nullable_string(self.is_flexible)?.map(Json::text)),
            Kind::Bytes => Json::or_null(reader.nullable_bytes(self.is_flexible)?.map(Json::Bytes)),
            Kind::Struct if may_be_null && is_null_struct(field, reader)? => Json::Null,
            Kind::Struct => self.fields(&field.fields, reader)?,
        };
        if value == Json::Null && !may_be_null { Err(DecodeError::UnexpectedNull) } else { Ok(value) }
    }
}

/// Whether the mark before a struct that may be null says that it is. Source: Kafka's message generator.
fn is_null_struct(field: &Field, reader: &mut Reader) -> Decoded<bool> {
    if field.tag.is_some() { Ok(reader.uvarint()? == 0) } else { Ok(reader.i8()? < 0) }
}

impl Field {
    fn is_nullable(&self, version: i16) -> bool {
        self.nullable.is_some_and(|versions| versions.contains(version))
    }

    /// What the field is where nothing is said.
    fn default_value(&self, version: i16) -> Json {
        let default = self.default;
        if default == Some("null") {
            return Json::Null;
        }
        if self.is_array {
            return Json::List(Vec::new());
        }
        match self.kind {
            Kind::Bool => Json::Bool(default == Some("true")),
            Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Int64 => {
                Json::Int(default.and_then(|number| number.parse().ok()).unwrap_or(0))
            }
            Kind::Float64 => Json::Float(0.0),
            Kind::Uuid => Json::text(fencepost_types::Uuid::ZERO.to_text()),
            Kind::Text => Json::text(default.unwrap_or("")),
            Kind::Bytes => Json::Bytes(Bytes::new()),
            Kind::Struct => {
                let untagged = self.fields.iter();
                let untagged =
                    untagged.filter(|field| field.tag.is_none() && field.versions.contains(version));
                Json::Object(untagged.map(|field| (field.name, field.default_value(version))).collect())
            }
        }
    }
}
