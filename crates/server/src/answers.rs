//! The answers of one connection on their way out, in the order of its requests.
//!
//! Records that lie in a file are read when the socket has room, a piece at a time, into a buffer that all connections of a
//! thread share. What the socket does not take of a piece is read again later: so a client that takes nothing holds nothing.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use fencepost_broker::{Chunk, Frame, Outcome};
use fencepost_storage::DiskError;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};

use crate::farewell::{LINGER, STOPPED, Stop};
use crate::load::{Load, Progress};

/// Slices that one vectored write takes.
const SLICES_MAX: usize = 64;
/// The most that is read of files at a time, bytes. Two of them fit into a processor's cache.
const PIECE_BYTES_MAX: usize = 256 * 1024;
/// And the least, for a socket that takes little.
const PIECE_BYTES_MIN: usize = 16 * 1024;

thread_local! {
    /// Where pieces of files are read to; empty until the first one.
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes what comes through `queue` until that ends, or until the connection does.
pub(crate) async fn write_answers(
    mut writing: OwnedWriteHalf,
    mut queue: mpsc::Receiver<oneshot::Receiver<Outcome>>,
    load: Arc<Load>,
    mut patience: Patience,
) {
    while let Some(answer) = queue.recv().await {
        let Ok(outcome) = answer.await else { break };
        match &outcome {
            Outcome::Frame(frame) => {
                if let Err(lost) = write_frame(&writing, frame, &mut patience).await {
                    load.tell(&lost);
                    return;
                }
            }
            Outcome::Nothing => {}
            Outcome::Close => break,
        }
        load.written(&outcome);
    }
    let _ = writing.shutdown().await;
}

/// Why the rest of an answer is not sent, and the connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The client has gone.
    #[error(transparent)]
    Client(#[from] io::Error),
    /// It takes nothing.
    #[error("the client was idle in the middle of an answer")]
    Idle,
    /// The server cannot wait for it.
    #[error("{STOPPED}")]
    Stopped,
    /// It takes nothing, and all who do so hold too much.
    #[error("too much is held for clients that do not go on, and this one does not")]
    TooMuch,
    /// Records could not be read from their file.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// How long a client may take nothing of an answer before it is given up.
pub(crate) struct Patience {
    idle: Duration,
    stop: Stop,
    load: Arc<Load>,
    progress: Progress,
}

impl Patience {
    /// For a client that may be idle for so long.
    pub(crate) fn new(idle: Duration, stop: Stop, load: Arc<Load>) -> Self {
        Self { idle, stop, load, progress: Progress::begin() }
    }

    /// Ends when it is over; says why.
    async fn ends(&mut self) -> Lost {
        tokio::select! {
            () = tokio::time::sleep(self.idle) => Lost::Idle,
            () = self.stop.begun_since(LINGER) => Lost::Stopped,
            () = self.progress.is_too_slow(&self.load) => Lost::TooMuch,
        }
    }
}

/// Writes a frame; a client that takes nothing of it for too long is given up.
async fn write_frame(writing: &OwnedWriteHalf, frame: &Frame, patience: &mut Patience) -> Result<(), Lost> {
    patience.progress = Progress::begin();
    let (mut rest, mut piece_bytes) = (Rest::new(frame), PIECE_BYTES_MAX);
    while !rest.is_empty() {
        tokio::select! {
            biased;
            writable = writing.writable() => writable?,
            why = patience.ends() => return Err(why),
        }
        match PIECE.with_borrow_mut(|piece| rest.try_write(writing, piece, piece_bytes)) {
            Ok((0, _)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok((written, offered)) => {
                rest.advance(written);
                patience.progress.made(written);
                let is_fast = written == offered;
                piece_bytes = if is_fast { piece_bytes * 2 } else { written };
                piece_bytes = piece_bytes.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
                if is_fast && !rest.is_empty() {
                    // A client that takes whatever comes does not keep the thread for itself.
                    tokio::task::yield_now().await;
                }
            }
            Err(Lost::Client(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(lost) => return Err(lost),
        }
    }
    Ok(())
}

/// What of a frame is not written.
struct Rest<'a> {
    length: [u8; 4],
    /// How many bytes of the length are written.
    length_at: usize,
    chunks: &'a [Chunk],
    /// How many bytes of the first chunk are written.
    at: usize,
}

impl<'a> Rest<'a> {
    fn new(frame: &'a Frame) -> Self {
        let length = (frame.bytes() as u32).to_be_bytes();
        Self { length, length_at: 0, chunks: frame.chunks(), at: 0 }
    }

    fn is_empty(&self) -> bool {
        self.length_at == self.length.len() && self.chunks.is_empty()
    }

    /// Offers the socket what comes next, at most `piece_bytes` of it out of files; answers how much it took, and of how much.
    fn try_write(
        &self,
        writing: &OwnedWriteHalf,
        piece: &mut Vec<u8>,
        piece_bytes: usize,
    ) -> Result<(usize, usize), Lost> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.slices(&mut slices, piece, piece_bytes)?;
        let offered = slices[..count].iter().map(|slice| slice.len()).sum();
        Ok((writing.try_write_vectored(&slices[..count])?, offered))
    }

    fn slices<'b>(
        &'b self,
        slices: &mut [IoSlice<'b>; SLICES_MAX],
        piece: &'b mut Vec<u8>,
        piece_bytes: usize,
    ) -> Result<usize, DiskError> {
        slices[0] = IoSlice::new(&self.length[self.length_at..]);
        let (mut count, mut room, mut at) = (1, &mut [][..], self.at);
        let chunks = &self.chunks[..self.chunks.len().min(SLICES_MAX - 1)];
        if chunks.iter().any(|chunk| matches!(chunk, Chunk::File(_))) {
            piece.resize(PIECE_BYTES_MAX, 0);
            room = &mut piece[..piece_bytes];
        }
        for chunk in chunks {
            let (slice, is_whole) = match chunk {
                Chunk::Held(bytes) => (&bytes[at..], true),
                Chunk::File(part) => {
                    let wanted = part.bytes() - at;
                    let (into, behind) = room.split_at_mut(wanted.min(room.len()));
                    room = behind;
                    part.read_exact(at, into)?;
                    (&*into, into.len() == wanted)
                }
            };
            slices[count] = IoSlice::new(slice);
            (count, at) = (count + 1, 0);
            if !is_whole {
                break;
            }
        }
        Ok(count)
    }

    fn advance(&mut self, mut written: usize) {
        let of_length = written.min(self.length.len() - self.length_at);
        self.length_at += of_length;
        written -= of_length;
        while let Some((first, behind)) = self.chunks.split_first() {
            let left = first.bytes() - self.at;
            if written < left {
                self.at += written;
                return;
            }
            (self.chunks, self.at) = (behind, 0);
            written -= left;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use bytes::Bytes;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;
    use crate::clock::Clock;
    use crate::load::{Held, PROGRESS_WITHIN};

    /// A connection whose answers are written by [`write_answers`], and what is needed to see how that goes.
    struct Answering {
        client: TcpStream,
        answers: mpsc::Sender<oneshot::Receiver<Outcome>>,
        load: Arc<Load>,
        writer: tokio::task::JoinHandle<()>,
        _stop: watch::Sender<bool>,
    }

    impl Answering {
        async fn start(all: &Arc<Held>) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address: SocketAddr = listener.local_addr().unwrap();
            let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (_, writing) = accepted.unwrap().0.into_split();
            let (answers, queue) = mpsc::channel(4);
            let (stop, told) = watch::channel(false);
            let load = Arc::new(Load::new(all, address));
            let patience = Patience::new(Duration::from_secs(600), Stop::new(told), Arc::clone(&load));
            let writer = tokio::spawn(write_answers(writing, queue, Arc::clone(&load), patience));
            Self { client: client.unwrap(), answers, load, writer, _stop: stop }
        }

        async fn answer(&self, frame: Frame) {
            let (sender, receiver) = oneshot::channel();
            let outcome = Outcome::Frame(frame);
            self.load.answered(false, &outcome);
            sender.send(outcome).unwrap();
            self.answers.send(receiver).await.unwrap();
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn held(bytes: usize) -> Frame {
        Frame::from(Bytes::from(vec![7; bytes]))
    }

    /// Issue 12, B8: when all hold too much, who holds much of it and reads nothing is closed; who holds little, who reads, and who
    /// comes later, is not.
    #[test]
    fn who_does_not_read_goes_first() {
        // More than a socket's buffers take.
        const MUCH: usize = 40 << 20;
        run(async {
            let all = Held::new(MUCH, Clock::start());
            let little = Answering::start(&all).await;
            little.answer(held(1_000)).await;
            let unread = Answering::start(&all).await;
            unread.answer(held(MUCH)).await;
            let mut reading = Answering::start(&all).await;
            reading.answer(held(MUCH)).await;
            let mut taken = vec![0; MUCH / 40];
            let begun = Instant::now();
            for _ in 0..40 {
                reading.client.read_exact(&mut taken).await.unwrap();
                tokio::time::sleep(PROGRESS_WITHIN / 20).await;
            }
            unread.writer.await.unwrap();
            assert!(begun.elapsed() > PROGRESS_WITHIN, "it has had its time");
            reading.client.read_exact(&mut [0; 4]).await.unwrap();
            assert!(!reading.writer.is_finished() && !little.writer.is_finished());
            drop((unread.load, reading, little));
        });
    }
}
