//! Two hundred connections at once, all of which are answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::broker::Broker;

const CONNECTIONS: usize = 200;
const ROUNDS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// ApiVersions 0 with a null client id.
fn request(correlation_id: i32) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 10, 0, 18, 0, 0];
    frame.extend(correlation_id.to_be_bytes());
    frame.extend((-1i16).to_be_bytes());
    frame
}

/// Opens them all, asks on all before reading from any, and repeats.
pub fn check(broker: &mut Broker) -> Result<()> {
    let mut streams = Vec::new();
    for n in 0..CONNECTIONS {
        let stream = TcpStream::connect(broker.address()).with_context(|| format!("connection {n}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        streams.push(stream);
    }
    for round in 0..ROUNDS {
        for stream in &mut streams {
            stream.write_all(&request(round))?;
        }
        for (n, stream) in streams.iter_mut().enumerate() {
            let mut head = [0; 8];
            stream.read_exact(&mut head).with_context(|| format!("answer on connection {n}"))?;
            let (size, correlation_id) = head.split_at(4);
            ensure!(correlation_id == round.to_be_bytes(), "connection {n} answered another request");
            let size = u32::from_be_bytes(size.try_into().expect("four bytes")) as usize;
            let mut rest = vec![0; size.saturating_sub(4)];
            stream.read_exact(&mut rest)?;
            ensure!(rest.starts_with(&[0, 0]), "connection {n} was answered with an error");
        }
    }
    ensure!(broker.alive(), "the broker is gone");
    println!("OK {CONNECTIONS} connections, {ROUNDS} requests on each");
    Ok(())
}
