//! One client connection: frames in, answers out in the order of the requests.
//!
//! What a client can make us hold is bounded, whatever it sends and however slowly it reads: requests in flight, answers
//! that it has not taken yet, one Fetch at a time ([`crate::load`]), and a buffer that grows with the bytes that have come.
//!
//! While it has asked for heavy work that is not done, nothing more is read from it ([`crate::workers`]).
//!
//! When the server stops, nothing more is taken from a client, and what was taken is answered ([`crate::farewell`]).

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use fencepost_broker::{Broker, Connection, ConnectionId, Listener, Outcome};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::answers::{Lost, Patience, write_answers};
use crate::clock::Clock;
use crate::farewell::{LINGER, STOPPED, Stop, say_farewell};
use crate::load::{Arriving, Held, Load, Progress, is_fetch};

/// Requests of one connection that may be read and not yet answered.
const IN_FLIGHT_MAX: usize = 32;
/// A frame's buffer grows by at most this much before its bytes have arrived.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Why a connection is closed whose request comes too slowly, or waits too long for its client to take earlier answers.
const TOO_SLOW: &str = "its request takes too long";
/// Why a connection ends whose writer has ended.
const CUT_OFF: &str = "an answer closed it";

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) broker: Arc<Broker>,
    pub(crate) clock: Clock,
    pub(crate) listener: Listener,
    pub(crate) request_bytes_max: usize,
    pub(crate) idle: Duration,
    /// How many connections are open, for an operator who asks.
    pub(crate) connections: Arc<AtomicUsize>,
    /// What all connections make us hold.
    pub(crate) held: Arc<Held>,
    pub(crate) stop: Stop,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(service: Service, stream: TcpStream, peer: SocketAddr, id: ConnectionId) {
    // Answers are written whole; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    let connection = Connection::new(id, format!("/{}", peer.ip()), service.listener.clone());
    let (reading, writing) = stream.into_split();
    let (answers, queue) = mpsc::channel(IN_FLIGHT_MAX);
    let load = Arc::new(Load::new(&service.held, peer));
    let patience = Patience::new(service.idle, service.stop.clone(), Arc::clone(&load));
    let writer = Writer(tokio::spawn(write_answers(writing, queue, Arc::clone(&load), patience)));
    let why = read_requests(&service, &connection, reading, answers, load, writer).await;
    tracing::debug!(%peer, reason = why, "connection closed");
}

/// The task that writes. It ends with the connection, whatever it waits for.
struct Writer(JoinHandle<()>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_requests(
    service: &Service,
    connection: &Arc<Connection>,
    mut reading: OwnedReadHalf,
    answers: mpsc::Sender<oneshot::Receiver<Outcome>>,
    load: Arc<Load>,
    mut writer: Writer,
) -> &'static str {
    let (mut buffer, mut stop) = (BytesMut::new(), service.stop.clone());
    let mut arriving = Arriving::new(&load);
    let why = loop {
        let frame = tokio::select! {
            biased;
            () = stop.begun() => break STOPPED,
            _ = &mut writer.0 => return CUT_OFF,
            frame = timeout(
                service.idle,
                read_frame(&mut reading, &mut buffer, service.request_bytes_max, &mut arriving),
            ) => frame,
        };
        let frame = match frame {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) => break "the client closed it",
            Ok(Err(TOO_SLOW)) => {
                load.tell(&Lost::TooMuch);
                return TOO_SLOW;
            }
            Ok(Err(why)) => break why,
            Err(_) => return "it was idle",
        };
        let (sender, receiver) = oneshot::channel();
        let handed_in = async {
            wait_for_room(&load, &frame, &arriving).await?;
            answers.send(receiver).await.map_err(|_| CUT_OFF)
        };
        tokio::select! {
            biased;
            () = stop.begun() => break STOPPED,
            _ = &mut writer.0 => return CUT_OFF,
            handed_in = handed_in => if let Err(why) = handed_in { return why },
        }
        let (load, was_fetch) = (Arc::clone(&load), is_fetch(&frame));
        load.taken_in(was_fetch);
        arriving.takes(0);
        let respond = Box::new(move |outcome| {
            load.answered(was_fetch, &outcome);
            // The connection may be gone by the time its answer is ready.
            let _ = sender.send(outcome);
        });
        service.broker.handle(service.clock.now(), connection, frame, respond);
        tokio::select! {
            biased;
            () = poll_fn(|cx| connection.poll_rest(cx.waker())) => {}
            () = stop.begun() => break STOPPED,
            _ = &mut writer.0 => return CUT_OFF,
        }
    };
    // What was asked before is still answered, to a client that has only closed its own direction.
    drop(answers);
    if why == STOPPED {
        say_farewell(&mut reading, &mut writer.0).await;
    } else {
        let _ = timeout(LINGER, &mut writer.0).await;
    }
    why
}

/// Waits until `frame` may be handed in; a large one not for as long as its client likes.
async fn wait_for_room(load: &Load, frame: &Bytes, arriving: &Arriving) -> Result<(), &'static str> {
    let waiting = Progress::begin();
    tokio::select! {
        biased;
        () = load.is_light_enough(frame) => Ok(()),
        () = arriving.is_too_slow(&waiting), if arriving.is_large() => {
            load.tell(&Lost::TooMuch);
            Err(TOO_SLOW)
        }
    }
}

/// The next frame without its length; `None` at the end of the stream. Memory grows with the bytes that arrive, not
/// with the size that is announced (wire-apis §2, `wire-frame-announced-not-sent`).
async fn read_frame(
    reading: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    bytes_max: usize,
    arriving: &mut Arriving,
) -> Result<Option<Bytes>, &'static str> {
    let mut progress = Progress::begin();
    loop {
        let mut wanted = 4;
        if let Some(size) = buffer.first_chunk::<4>() {
            let size = i32::from_be_bytes(*size);
            let size = usize::try_from(size).ok().filter(|size| (1..=bytes_max).contains(size));
            let Some(size) = size else { return Err("a frame announced an impossible size") };
            if buffer.len() >= 4 + size {
                buffer.advance(4);
                let frame = buffer.split_to(size).freeze();
                if size > READ_AHEAD_BYTES {
                    // The room of a large frame goes with the frame.
                    *buffer = BytesMut::from(&buffer[..]);
                }
                return Ok(Some(frame));
            }
            wanted = 4 + size;
        }
        let missing = wanted - buffer.len();
        if buffer.capacity() - buffer.len() < missing.min(READ_AHEAD_BYTES) {
            // Doubling keeps the copying linear; the announced size is only an upper bound.
            buffer.reserve(missing.min(READ_AHEAD_BYTES.max(buffer.len())));
        } else if buffer.capacity() == buffer.len() {
            buffer.reserve(READ_AHEAD_BYTES);
        }
        arriving.takes(buffer.capacity());
        let read = if arriving.is_large() {
            tokio::select! {
                biased;
                read = reading.read_buf(buffer) => read,
                () = arriving.is_too_slow(&progress) => return Err(TOO_SLOW),
            }
        } else {
            reading.read_buf(buffer).await
        };
        match read {
            Ok(0) => return Ok(None),
            Ok(bytes) => progress.made(bytes),
            Err(_) => return Err("reading failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives so many bytes at a time.
    struct Slowly<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl AsyncRead for Slowly<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            let count = self.step.min(self.bytes.len()).min(buffer.remaining());
            let (now, rest) = self.bytes.split_at(count);
            buffer.put_slice(now);
            self.bytes = rest;
            std::task::Poll::Ready(Ok(()))
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn arriving() -> Arriving {
        let all = Held::new(usize::MAX, Clock::start());
        Arriving::new(&Arc::new(Load::new(&all, SocketAddr::from(([127, 0, 0, 1], 1)))))
    }

    fn frame(size: usize, byte: u8) -> Vec<u8> {
        [&(size as u32).to_be_bytes()[..], &vec![byte; size]].concat()
    }

    /// However the bytes are torn, the frames come out whole and in order, and then the end.
    #[test]
    fn frames_come_out_whole() {
        let sizes =
            [1, 3, 4, 5, 1_000, READ_AHEAD_BYTES - 4, READ_AHEAD_BYTES, READ_AHEAD_BYTES + 1, 300_000, 2];
        let bytes: Vec<u8> = sizes.iter().flat_map(|size| frame(*size, *size as u8)).collect();
        for step in [1, 2, 3, 7, 1_000, 70_000, usize::MAX] {
            run(async {
                let (mut reading, mut buffer) = (Slowly { bytes: &bytes, step }, BytesMut::new());
                for size in sizes {
                    let frame = read_frame(&mut reading, &mut buffer, 1 << 20, &mut arriving())
                        .await
                        .unwrap()
                        .unwrap();
                    assert_eq!((frame.len(), frame[size - 1]), (size, size as u8));
                }
                assert_eq!(read_frame(&mut reading, &mut buffer, 1 << 20, &mut arriving()).await, Ok(None));
            });
        }
    }

    /// Sizes that no frame can have are refused as soon as they are announced.
    #[test]
    fn impossible_sizes_are_refused() {
        for size in [0, -1, i32::MIN, 101, i32::MAX] {
            let bytes = size.to_be_bytes();
            let read = run(async {
                let mut slowly = Slowly { bytes: &bytes, step: 4 };
                read_frame(&mut slowly, &mut BytesMut::new(), 100, &mut arriving()).await
            });
            assert!(read.is_err(), "{size}");
        }
    }

    /// E1: a size that is announced takes no room, and the room of a large frame goes with it.
    #[test]
    fn room_grows_with_the_bytes() {
        run(async {
            let mut buffer = BytesMut::new();
            let announced = 100_000_000_u32.to_be_bytes();
            let mut torn = Slowly { bytes: &announced, step: 4 };
            assert_eq!(read_frame(&mut torn, &mut buffer, usize::MAX, &mut arriving()).await, Ok(None));
            assert!(buffer.capacity() <= 2 * READ_AHEAD_BYTES, "{}", buffer.capacity());

            let mut buffer = BytesMut::new();
            let bytes = [frame(10_000_000, 1), frame(10, 2)].concat();
            let mut reading = Slowly { bytes: &bytes, step: usize::MAX };
            for size in [10_000_000, 10] {
                let frame = read_frame(&mut reading, &mut buffer, usize::MAX, &mut arriving())
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(frame.len(), size);
                drop(frame);
                assert!(buffer.capacity() <= 2 * READ_AHEAD_BYTES, "{}", buffer.capacity());
            }
        });
    }

    /// A sender that stops in the middle.
    struct Stops<'a>(Slowly<'a>);

    impl AsyncRead for Stops<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            if self.0.bytes.is_empty() {
                return std::task::Poll::Pending;
            }
            std::pin::Pin::new(&mut self.0).poll_read(cx, buffer)
        }
    }

    /// Issue 12, B8, the other direction: half a large request counts; when all hold too much, its sender has to go on. One of
    /// a small request, or of a large one while there is room, may take its time.
    #[test]
    fn half_a_large_request_does_not_stay() {
        const LARGE: usize = 1_000_000;
        const PATIENCE: Duration = Duration::from_secs(2);
        let bytes = frame(2 * LARGE, 1);
        let read = |sent: usize, all_max: usize| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let all = Held::new(all_max, Clock::start());
                let load = Arc::new(Load::new(&all, SocketAddr::from(([127, 0, 0, 1], 1))));
                let mut arriving = Arriving::new(&load);
                let mut stops = Stops(Slowly { bytes: &bytes[..sent], step: 10_000 });
                let mut buffer = BytesMut::new();
                let read = read_frame(&mut stops, &mut buffer, usize::MAX, &mut arriving);
                let ended = timeout(PATIENCE, read).await;
                let held = all.bytes();
                drop(arriving);
                assert_eq!(all.bytes(), 0);
                (ended.ok(), held)
            })
        };
        let (ended, held) = read(LARGE, LARGE / 2);
        assert_eq!(ended, Some(Err(TOO_SLOW)));
        assert!((LARGE..4 * LARGE).contains(&held), "{held}");
        assert_eq!(read(LARGE, 4 * LARGE).0, None);
        assert_eq!(read(10_000, 0), (None, 0));
    }
}
