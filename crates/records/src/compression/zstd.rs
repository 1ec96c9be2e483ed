//! Zstandard frames. Making a decompression context costs more than a small batch does, so each thread keeps one.

use core::cell::Cell;

use ::zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};
use alloc::vec::Vec;

/// The largest window a frame may ask for, as a power of two: 128 MiB, what level 22 writes and what the Java client
/// reads at most. Memory for it is touched only as far as bytes come out.
const WINDOW_LOG_MAX: u32 = 27;
/// The largest context that a thread keeps for its next batch: room for the window of the default level, 2 MiB.
const IDLE_CONTEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

std::thread_local! {
    static IDLE_CONTEXT: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Frames that are being read, one after the other.
pub(super) struct Frames<'a> {
    /// Always there, but while it is dropped.
    context: Option<DCtx<'static>>,
    payload: &'a [u8],
    at: usize,
    inside_frame: bool,
}

impl<'a> Frames<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let context = match IDLE_CONTEXT.take() {
            Some(context) => context,
            None => {
                let mut context = DCtx::try_create()?;
                context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
                context
            }
        };
        Some(Self { context: Some(context), payload, at: 0, inside_frame: false })
    }

    /// Appends what fits into the room that `out` has; `Some(false)` at the end, `None` where a frame is wrong or cut off.
    pub(super) fn read_some(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        let before = out.len();
        while out.len() == before {
            if self.at == self.payload.len() && !self.inside_frame {
                return Some(false);
            }
            let mut input = InBuffer::around(&self.payload[self.at..]);
            let bytes_wanted = {
                let mut output = OutBuffer::around_pos(out, before);
                self.context.as_mut()?.decompress_stream(&mut output, &mut input).ok()?
            };
            let taken = input.pos();
            self.at += taken;
            self.inside_frame = bytes_wanted != 0;
            if self.inside_frame && taken == 0 && out.len() == before {
                return None;
            }
        }
        Some(true)
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        if let Some(mut context) = self.context.take()
            && context.sizeof() <= IDLE_CONTEXT_BYTES_MAX
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            IDLE_CONTEXT.set(Some(context));
        }
    }
}

/// Writes one frame, which says how many bytes it holds. A level out of range counts as the nearest there is.
pub(super) fn encode(plain: &[u8], level: Option<i32>) -> Vec<u8> {
    ::zstd::bulk::compress(plain, in_range(level)).expect("the bound of the codec leaves room for any input")
}

/// Writes one frame as its bytes come.
pub(super) type Writer = ::zstd::stream::write::Encoder<'static, Vec<u8>>;

/// A frame that does not say how many bytes it holds.
pub(super) fn writer(level: Option<i32>) -> Writer {
    Writer::new(Vec::new(), in_range(level)).expect("there is memory for a context")
}

fn in_range(level: Option<i32>) -> i32 {
    let levels = ::zstd::compression_level_range();
    level.map_or(::zstd::DEFAULT_COMPRESSION_LEVEL, |level| level.clamp(*levels.start(), *levels.end()))
}
