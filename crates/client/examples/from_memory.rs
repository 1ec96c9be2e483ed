//! Stands between clients and a broker, and after a few transactions answers them itself, from memory: what a client can do when the
//! broker costs nothing.
//!
//!   from_memory LISTEN BROKER
//!
//! The broker must advertise LISTEN. The first [`LEARNT`] transactions reach it; from then on its last answer to each kind of request is
//! repeated, until a topic is made or a producer asks for its id, which begins anew. All that is not part of a transaction is passed
//! on. Ends when its standard input does.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use fencepost_protocol::ApiKey;

/// So many transactions end at the broker before the first answer is repeated.
const LEARNT: u32 = 20;
/// Largest frame that is passed on.
const FRAME_BYTES_MAX: usize = 1 << 24;
const REPEATED: [ApiKey; 5] = [
    ApiKey::Produce,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::TxnOffsetCommit,
    ApiKey::EndTxn,
];

/// What the broker has said.
#[derive(Default)]
struct Memory {
    ended: u32,
    /// The last answer, by the bytes of api key and version.
    answers: HashMap<[u8; 4], Vec<u8>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, broker] = &arguments[..] else {
        return Err("usage: from_memory LISTEN BROKER".into());
    };
    let listener = TcpListener::bind(listen)?;
    let broker = broker.clone();
    let memory = Arc::new(Mutex::new(Memory::default()));
    thread::spawn(move || {
        for client in listener.incoming() {
            let (broker, memory) = (broker.clone(), Arc::clone(&memory));
            // A connection that ends is a client that is done.
            thread::spawn(move || client.and_then(|client| serve(client, &broker, &memory)));
        }
    });
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn serve(mut client: TcpStream, broker: &str, memory: &Mutex<Memory>) -> io::Result<()> {
    let mut broker = TcpStream::connect(broker)?;
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    loop {
        let request = frame(&mut client)?;
        let (kind, correlation) = (request.first_chunk().copied(), request.get(4..8));
        let (Some(kind), Some(correlation)) = (kind, correlation) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let is = |key: ApiKey| key.code().to_be_bytes() == kind[..2];
        if is(ApiKey::CreateTopics) || is(ApiKey::InitProducerId) {
            *lock(memory) = Memory::default();
        }
        if let Some(mut answer) = remembered(memory, kind) {
            answer[..4].copy_from_slice(correlation);
            send(&mut client, &answer)?;
            continue;
        }
        send(&mut broker, &request)?;
        let answer = frame(&mut broker)?;
        send(&mut client, &answer)?;
        if REPEATED.into_iter().any(is) {
            let mut memory = lock(memory);
            memory.ended += u32::from(is(ApiKey::EndTxn));
            memory.answers.insert(kind, answer);
        }
    }
}

fn remembered(memory: &Mutex<Memory>, kind: [u8; 4]) -> Option<Vec<u8>> {
    let memory = lock(memory);
    if memory.ended < LEARNT { None } else { memory.answers.get(&kind).cloned() }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().expect("no holder of this lock panics")
}

fn frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size) as usize;
    if !(4..=FRAME_BYTES_MAX).contains(&size) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; size];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn send(to: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    bytes.extend_from_slice(&u32::try_from(frame.len()).map_err(io::Error::other)?.to_be_bytes());
    bytes.extend_from_slice(frame);
    to.write_all(&bytes)
}
