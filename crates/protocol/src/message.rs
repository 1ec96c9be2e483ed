//! What every message can do, for code that works with any of them.

use fencepost_types::wire::{Decoded, Reader, Writer};

use crate::ApiKey;

/// A message that is read and written. Each message has the same two functions of its own, so that this trait is needed
/// for generic code only; with the feature `client` every message has it.
pub trait Message: Sized {
    /// Kafka's name.
    const NAME: &'static str;
    /// The lowest version.
    const VERSION_MIN: i16;
    /// The highest version.
    const VERSION_MAX: i16;

    /// Reads the message as `version` has it.
    fn decode(r: &mut Reader, version: i16) -> Decoded<Self>;

    /// Writes the message as `version` has it, which must be one of its own.
    fn encode(&self, w: &mut Writer, version: i16);
}

/// A request, with what answers it.
pub trait Request: Message {
    /// Its API.
    const API_KEY: ApiKey;
    /// The message that answers it.
    type Response: Message;
}

/// Passes on to the functions that the message has itself.
#[cfg(feature = "client")]
macro_rules! message {
    ($name:ident) => {
        impl crate::Message for $name {
            const NAME: &'static str = stringify!($name);
            const VERSION_MIN: i16 = Self::VERSION_MIN;
            const VERSION_MAX: i16 = Self::VERSION_MAX;

            fn decode(
                r: &mut fencepost_types::wire::Reader,
                version: i16,
            ) -> fencepost_types::wire::Decoded<Self> {
                Self::decode(r, version)
            }

            fn encode(&self, w: &mut fencepost_types::wire::Writer, version: i16) {
                self.encode(w, version);
            }
        }
    };
}

/// Ties a request to its API and its response.
#[cfg(feature = "client")]
macro_rules! request {
    ($api:ident, $request:ident, $response:ident) => {
        impl crate::Request for $request {
            const API_KEY: crate::ApiKey = crate::ApiKey::$api;
            type Response = $response;
        }
    };
}

#[cfg(feature = "client")]
pub(crate) use {message, request};
