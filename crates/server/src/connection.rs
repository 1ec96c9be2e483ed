//! One client connection: frames in, answers out in the order of the requests.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use fencepost_broker::{Broker, Connection, ConnectionId, Listener, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;

/// Requests of one connection that may be read and not yet answered.
const IN_FLIGHT_MAX: usize = 32;
/// A frame's buffer grows by at most this much before its bytes have arrived.
const READ_AHEAD_BYTES: usize = 64 * 1024;
/// Slices that one vectored write takes.
const SLICES_MAX: usize = 64;

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) broker: Arc<Broker>,
    pub(crate) clock: Clock,
    pub(crate) listener: Listener,
    pub(crate) request_bytes_max: usize,
    pub(crate) idle: Duration,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(service: Service, stream: TcpStream, peer: SocketAddr, id: ConnectionId) {
    // Answers are written whole; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    let connection = Connection::new(id, format!("/{}", peer.ip()), service.listener.clone());
    let (reading, writing) = stream.into_split();
    let (answers, queue) = mpsc::channel(IN_FLIGHT_MAX);
    let writer = tokio::spawn(write_answers(writing, queue));
    let why = read_requests(&service, &connection, reading, answers, writer).await;
    tracing::debug!(%peer, reason = why, "connection closed");
}

async fn read_requests(
    service: &Service,
    connection: &Arc<Connection>,
    mut reading: OwnedReadHalf,
    answers: mpsc::Sender<oneshot::Receiver<Outcome>>,
    mut writer: tokio::task::JoinHandle<()>,
) -> &'static str {
    let mut buffer = BytesMut::new();
    loop {
        let frame = tokio::select! {
            _ = &mut writer => return "an answer closed it",
            frame = tokio::time::timeout(service.idle, read_frame(&mut reading, &mut buffer, service.request_bytes_max)) => frame,
        };
        let frame = match frame {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) => break,
            Ok(Err(why)) => {
                drop(answers);
                // What was asked before the bad frame is still answered.
                let _ = writer.await;
                return why;
            }
            Err(_) => return "it was idle",
        };
        let (sender, receiver) = oneshot::channel();
        tokio::select! {
            _ = &mut writer => return "an answer closed it",
            sent = answers.send(receiver) => if sent.is_err() { return "an answer closed it" },
        }
        let respond = Box::new(move |outcome| {
            // The connection may be gone by the time its answer is ready.
            let _ = sender.send(outcome);
        });
        service.broker.handle(service.clock.now(), connection, frame, respond);
    }
    // The client has said all it wants to; what it asked may still be answered, unless it is gone altogether.
    drop(answers);
    writer.abort();
    "the client closed it"
}

/// The next frame without its length; `None` at the end of the stream. Memory grows with the bytes that arrive, not
/// with the size that is announced (wire-apis §2, `wire-frame-announced-not-sent`).
async fn read_frame(
    reading: &mut OwnedReadHalf,
    buffer: &mut BytesMut,
    bytes_max: usize,
) -> Result<Option<Bytes>, &'static str> {
    loop {
        let mut wanted = 4;
        if let Some(size) = buffer.first_chunk::<4>() {
            let size = i32::from_be_bytes(*size);
            let size = usize::try_from(size).ok().filter(|size| (1..=bytes_max).contains(size));
            let Some(size) = size else { return Err("a frame announced an impossible size") };
            if buffer.len() >= 4 + size {
                buffer.advance(4);
                return Ok(Some(buffer.split_to(size).freeze()));
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
        match reading.read_buf(buffer).await {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(_) => return Err("reading failed"),
        }
    }
}

async fn write_answers(mut writing: OwnedWriteHalf, mut queue: mpsc::Receiver<oneshot::Receiver<Outcome>>) {
    while let Some(answer) = queue.recv().await {
        match answer.await {
            Ok(Outcome::Frame(chunks)) => {
                if write_frame(&mut writing, &chunks).await.is_err() {
                    return;
                }
            }
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::Close) | Err(_) => break,
        }
    }
    let _ = writing.shutdown().await;
}

async fn write_frame(writing: &mut OwnedWriteHalf, chunks: &[Bytes]) -> std::io::Result<()> {
    let length = (chunks.iter().map(Bytes::len).sum::<usize>() as u32).to_be_bytes();
    let mut slices: Vec<&[u8]> = Vec::with_capacity(chunks.len() + 1);
    slices.push(&length);
    slices.extend(chunks.iter().map(|chunk| &chunk[..]));
    let mut at = 0;
    while at < slices.len() {
        let batch: Vec<IoSlice<'_>> =
            slices[at..slices.len().min(at + SLICES_MAX)].iter().map(|slice| IoSlice::new(slice)).collect();
        let mut written = writing.write_vectored(&batch).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        while at < slices.len() && written >= slices[at].len() {
            written -= slices[at].len();
            at += 1;
        }
        if written > 0 {
            slices[at] = &slices[at][written..];
        }
    }
    Ok(())
}
