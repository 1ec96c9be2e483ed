//! Every limit has a name, here or beside the thing it bounds.

/// Strings on the wire: the most bytes (Java reads lengths as i16). Longer ones are malformed.
pub const STRING_BYTES_MAX: usize = 32_767;
/// The elements of a message's arrays may take this much memory whatever the message's size …
pub const DECODED_ELEMENT_BYTES_FREE: usize = 1024 * 1024;
/// … and this many times its bytes on the wire besides. Messages of real clients stay far below it.
pub const DECODED_ELEMENT_RATIO_MAX: usize = 5;
/// The elements of all arrays of a message. Each may cost some hundred bytes while a request is handled, so this bounds what a frame
/// of `socket.request.max.bytes` can cost.
pub const DECODED_ELEMENTS_MAX: usize = 500_000;
/// The deepest nesting of structs in any message; the generator refuses a schema that goes deeper.
pub const NESTING_DEPTH_MAX: usize = 8;
/// Record count and offset span of a batch fit an i32; batches keep at most five in a producer's window.
pub const PRODUCER_BATCHES_CACHED_MAX: usize = 5;
/// Plain bytes of one compressed batch that are held at once, where a reader wants all its records: a coordinator's load, the
/// cleaner, the dump. What a producer sends is checked piece by piece and may inflate to any size.
pub const DECOMPRESSED_BATCH_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Topic names: the most characters.
pub const TOPIC_NAME_CHARS_MAX: usize = 249;
/// Producer ids are handed out by the controller in blocks of this many.
pub const PRODUCER_ID_BLOCK_SIZE: i64 = 1_000;
