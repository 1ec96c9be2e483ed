//! A listener in this process that answers as it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use fencepost_protocol::messages::ApiVersionsResponse;
use fencepost_protocol::messages::api_versions_response::{ApiKeys, FinalizedFeatures};
use fencepost_protocol::{ApiKey, RequestBody, RequestHeader, ResponseBody, encode_response};
use fencepost_types::wire::Reader;

/// What the broker does with a request that is not ApiVersions.
pub type Answer = Box<dyn FnMut(&RequestHeader, RequestBody) -> Reply + Send>;

/// One answer.
pub enum Reply {
    /// As it should be.
    Body(ResponseBody),
    /// Under another correlation id.
    Misplaced(ResponseBody),
    /// These bytes.
    Raw(Vec<u8>),
}

/// A running listener, and the API and version of each request that it has seen.
pub struct Fake {
    pub address: SocketAddr,
    pub seen: Receiver<(ApiKey, i16)>,
}

/// Starts a listener that serves one connection. `knows_v3` is false for a broker that knows ApiVersions 0 alone.
pub fn listen(transaction_version: i16, knows_v3: bool, mut answer: Answer) -> Fake {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        serve(stream, transaction_version, knows_v3, &mut answer, &sender);
    });
    Fake { address, seen }
}

fn serve(
    mut stream: TcpStream,
    transaction_version: i16,
    knows_v3: bool,
    answer: &mut Answer,
    seen: &Sender<(ApiKey, i16)>,
) {
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).expect("a whole frame");
        let mut reader = Reader::new(frame.into());
        let header = RequestHeader::decode(&mut reader).expect("a header");
        let (api_key, version) = (header.api_key().expect("a known API"), header.api_version);
        seen.send((api_key, version)).expect("the test listens");
        let body = RequestBody::decode(api_key, version, &mut reader).expect("a body");
        let (correlation_id, reply) = match body {
            RequestBody::ApiVersions(_) if version > 0 && !knows_v3 => {
                let refused = ApiVersionsResponse { error_code: 35, ..ApiVersionsResponse::default() };
                let body = ResponseBody::ApiVersions(refused);
                send(&mut stream, &encode_response(header.correlation_id, api_key, 0, &body).into_bytes());
                continue;
            }
            RequestBody::ApiVersions(_) => {
                (header.correlation_id, Reply::Body(ResponseBody::ApiVersions(versions(transaction_version))))
            }
            body => (header.correlation_id, answer(&header, body)),
        };
        let (correlation_id, body) = match reply {
            Reply::Body(body) => (correlation_id, body),
            Reply::Misplaced(body) => (correlation_id + 1, body),
            Reply::Raw(bytes) => {
                stream.write_all(&bytes).expect("the client reads");
                return;
            }
        };
        send(&mut stream, &encode_response(correlation_id, api_key, version, &body).into_bytes());
    }
}

fn send(stream: &mut TcpStream, frame: &[u8]) {
    stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("the client reads");
    stream.write_all(frame).expect("the client reads");
}

fn versions(transaction_version: i16) -> ApiVersionsResponse {
    let keys = ApiKey::ALL.iter().map(|key| ApiKeys {
        api_key: key.code(),
        min_version: *key.versions().start(),
        max_version: *key.versions().end(),
    });
    ApiVersionsResponse {
        api_keys: keys.collect(),
        finalized_features_epoch: 1,
        finalized_features: vec![FinalizedFeatures {
            name: "transaction.version".to_owned(),
            max_version_level: transaction_version,
            min_version_level: transaction_version,
        }],
        ..ApiVersionsResponse::default()
    }
}
