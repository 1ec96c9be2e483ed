//! Log lines on stderr, whatever becomes of stderr: nobody is served later, and nothing ends, because a line cannot be written.
//!
//! ```text
//!   event ─► one line, control characters escaped ─► bounded queue ─► one thread ─► stderr
//!                                                         └─► full: the line is dropped and counted
//! ```

use std::fmt::{self, Write as _};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::field::Field;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Lines that wait for stderr; the next one is dropped.
const LINES_MAX: usize = 4_096;
/// How often it is said that lines were dropped.
const TELL_DROPPED: Duration = Duration::from_secs(10);
/// The most characters of one field; a client chooses how long its names are.
const FIELD_CHARACTERS_MAX: usize = 2_048;

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// The thread that writes. Dropped, it writes what waits, for a second at most.
pub struct Logging {
    _writing: WorkerGuard,
}

/// Sends everything that is logged to stderr, from `info` on, or as `FENCEPOST_LOG` asks. Once in a process.
pub fn start_logging() -> Logging {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FENCEPOST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let queue = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX);
    let (writer, writing) = queue.thread_name("log").finish(std::io::stderr());
    let _ = DROPPED.set(writer.error_counter());
    let fields = debug_fn(write_field).delimited(" ");
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // What cannot be written must not be said on stderr either.
    lines.fmt_fields(fields).with_ansi(colours).with_target(false).log_internal_errors(false).init();
    Logging { _writing: writing }
}

/// How many lines were dropped since the start.
pub fn log_lines_dropped() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64)
}

/// Says from time to time how many lines were dropped, once they can be written again.
pub(crate) fn tell_dropped() -> JoinHandle<()> {
    tokio::spawn(async {
        let mut told = 0;
        loop {
            tokio::time::sleep(TELL_DROPPED).await;
            let dropped = log_lines_dropped();
            if dropped > told {
                tracing::warn!(lines = dropped - told, "log lines were dropped: stderr did not take them");
                told = dropped;
            }
        }
    })
}

/// One field as `name=value`, the message as it is.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    write!(Escaping { writer, left: FIELD_CHARACTERS_MAX }, "{value:?}")
}

/// Writes text of unknown origin: control characters come out as `\u{1b}`, so that it stays within its line and moves no
/// cursor, and what is too long is cut.
struct Escaping<'a, 'w> {
    writer: &'a mut Writer<'w>,
    left: usize,
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match self.left {
                0 => return Ok(()),
                1 => self.writer.write_char('…')?,
                _ if is_harmful(character) => write!(self.writer, "{}", character.escape_unicode())?,
                _ => self.writer.write_char(character)?,
            }
            self.left -= 1;
        }
        Ok(())
    }
}

/// Control characters, and those that turn the direction of writing.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut line = String::new();
        write!(Escaping { writer: &mut Writer::new(&mut line), left: FIELD_CHARACTERS_MAX }, "{text}")
            .unwrap();
        line
    }

    /// Issue 12, B13: a client's name neither begins a new line nor moves the cursor nor fills the log.
    #[test]
    fn text_of_clients_is_escaped_and_cut() {
        assert_eq!(escaped("grüße 漢字"), "grüße 漢字");
        assert_eq!(
            escaped("a\nWARN forged\r\x1b[2J\0\u{202e}"),
            "a\\u{a}WARN forged\\u{d}\\u{1b}[2J\\u{0}\\u{202e}"
        );
        let long = escaped(&"x".repeat(100_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (FIELD_CHARACTERS_MAX, true));
    }
}
