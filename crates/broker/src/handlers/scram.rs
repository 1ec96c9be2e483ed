//! SCRAM credentials: DescribeUserScramCredentials, AlterUserScramCredentials.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_metadata::controller::{ScramChanges, ScramDeletion, ScramUpsertion};
use fencepost_metadata::image::{ScramCredentials, ScramMechanism};
use fencepost_metadata::{Reply, Request};
use fencepost_protocol::messages::describe_user_scram_credentials_response::{CredentialInfos, Results};
use fencepost_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, alter_user_scram_credentials_request,
    alter_user_scram_credentials_response,
};
use fencepost_types::{ErrorCode, KeptBytes};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::asking::{Fault, ask_controller, code_and_message};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

/// The mechanisms and iterations of users; null and empty mean all users. Nothing of a password is told.
///
/// Source: KIP-554.
pub(crate) fn describe_credentials(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: DescribeUserScramCredentialsRequest,
) {
    let image = broker.image();
    let users = request.users.unwrap_or_default().into_iter().map(|user| user.name);
    let results = describe(image.scram(), users.collect());
    exchange.reply(DescribeUserScramCredentialsResponse { results, ..Default::default() });
}

fn describe(credentials: &ScramCredentials, asked: Vec<String>) -> Vec<Results> {
    let mut by_user: BTreeMap<&str, Vec<CredentialInfos>> = BTreeMap::new();
    for ((mechanism, user), credential) in credentials.iter() {
        let row = CredentialInfos { mechanism: mechanism.0, iterations: credential.iterations };
        by_user.entry(user).or_default().push(row);
    }
    if asked.is_empty() {
        let all = by_user.into_iter();
        return all.map(|(user, credentials)| row(user.to_owned(), Ok(credentials))).collect();
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for user in asked {
        *times.entry(user).or_default() += 1;
    }
    let described = times.into_iter().map(|(user, times)| {
        let result = match by_user.remove(user.as_str()) {
            _ if times > 1 => {
                let message = format!(
                    "Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                );
                Err(Fault::new(ErrorCode::DuplicateResource, message))
            }
            None => {
                let message = format!("Attempt to describe a user credential that does not exist: {user}");
                Err(Fault::new(ErrorCode::ResourceNotFound, message))
            }
            Some(credentials) => Ok(credentials),
        };
        row(user, result)
    });
    described.collect()
}

fn row(user: String, result: Result<Vec<CredentialInfos>, Fault>) -> Results {
    let (credential_infos, fault) = match result {
        Ok(credentials) => (credentials, Ok(())),
        Err(fault) => (Vec::new(), Err(fault)),
    };
    let (error_code, error_message) = code_and_message(fault);
    // As in Kafka it is empty where all is well, and not null.
    let error_message = error_message.or(Some(String::new()));
    Results { user, error_code, error_message, credential_infos }
}

/// Changes credentials, each user by itself. The client has salted the password; we never see it.
///
/// Source: KIP-554, RFC 5802.
pub(crate) fn alter_credentials(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AlterUserScramCredentialsRequest,
) {
    let deletions = request.deletions.into_iter();
    let upsertions = request.upsertions.into_iter();
    let changes = ScramChanges {
        deletions: deletions
            .map(|deletion| ScramDeletion {
                user: deletion.name,
                mechanism: ScramMechanism(deletion.mechanism),
            })
            .collect(),
        upsertions: upsertions.map(upsertion).collect(),
    };
    let users = changes.deletions.iter().map(|deletion| &deletion.user);
    let users = users.chain(changes.upsertions.iter().map(|upsertion| &upsertion.user));
    let users: Vec<String> = users.cloned().collect();
    ask_controller(broker, cx, Request::AlterScramCredentials(changes), move |_, _, reply| {
        let results = match reply {
            Ok(Reply::AlterScramCredentials(results)) => results
                .into_iter()
                .map(|(user, result)| altered(user, result.map_err(|refusal| Fault::of(&refusal))))
                .collect(),
            Ok(other) => unreachable!("AlterScramCredentials was answered {other:?}"),
            Err(fault) => users.into_iter().map(|user| altered(user, Err(fault.clone()))).collect(),
        };
        exchange.reply(AlterUserScramCredentialsResponse { results, ..Default::default() });
    });
}

fn altered(user: String, result: Result<(), Fault>) -> alter_user_scram_credentials_response::Results {
    let (error_code, error_message) = code_and_message(result);
    alter_user_scram_credentials_response::Results { user, error_code, error_message }
}

fn upsertion(asked: alter_user_scram_credentials_request::Upsertions) -> ScramUpsertion {
    let mechanism = ScramMechanism(asked.mechanism);
    let keys = ScramKeys::derive(mechanism, &asked.salted_password);
    ScramUpsertion {
        user: asked.name,
        mechanism,
        iterations: asked.iterations,
        salt: KeptBytes::copy_of(&asked.salt),
        stored_key: keys.stored_key,
        server_key: keys.server_key,
    }
}

/// What is kept of a salted password.
#[derive(Debug, Default, PartialEq, Eq)]
struct ScramKeys {
    stored_key: KeptBytes,
    server_key: KeptBytes,
}

impl ScramKeys {
    /// Empty for a mechanism that there is not; the controller refuses that one.
    ///
    /// Source: RFC 5802 §3.
    fn derive(mechanism: ScramMechanism, salted_password: &[u8]) -> Self {
        match mechanism {
            ScramMechanism::SHA_256 => Self {
                stored_key: KeptBytes::copy_of(&Sha256::digest(&*hmac_sha_256(salted_password, CLIENT_KEY))),
                server_key: hmac_sha_256(salted_password, SERVER_KEY),
            },
            ScramMechanism::SHA_512 => Self {
                stored_key: KeptBytes::copy_of(&Sha512::digest(&*hmac_sha_512(salted_password, CLIENT_KEY))),
                server_key: hmac_sha_512(salted_password, SERVER_KEY),
            },
            ScramMechanism(_) => Self::default(),
        }
    }
}

const CLIENT_KEY: &[u8] = b"Client Key";
const SERVER_KEY: &[u8] = b"Server Key";

fn hmac_sha_256(key: &[u8], text: &[u8]) -> KeptBytes {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(text);
    KeptBytes::copy_of(&mac.finalize().into_bytes())
}

fn hmac_sha_512(key: &[u8], text: &[u8]) -> KeptBytes {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("a key of any length will do");
    mac.update(text);
    KeptBytes::copy_of(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_metadata::image::ScramCredential;

    fn credential(iterations: i32) -> ScramCredential {
        ScramCredential {
            salt: KeptBytes::default(),
            stored_key: KeptBytes::default(),
            server_key: KeptBytes::default(),
            iterations,
        }
    }

    /// Users come in order of name with all their mechanisms; unknown and doubled ones have an error (KIP-554).
    #[test]
    fn users_are_described() {
        let credentials: ScramCredentials = [
            ((ScramMechanism::SHA_256, "b".to_owned()), credential(4096)),
            ((ScramMechanism::SHA_512, "b".to_owned()), credential(8192)),
            ((ScramMechanism::SHA_256, "a".to_owned()), credential(5000)),
        ]
        .into_iter()
        .collect();
        let brief = |asked: &[&str]| -> Vec<(String, i16, Vec<(i8, i32)>)> {
            let rows = describe(&credentials, asked.iter().map(|user| (*user).to_owned()).collect());
            let infos = |row: &Results| {
                row.credential_infos.iter().map(|info| (info.mechanism, info.iterations)).collect()
            };
            rows.iter().map(|row| (row.user.clone(), row.error_code, infos(row))).collect()
        };
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let both = vec![(1, 4096), (2, 8192)];
        assert_eq!(brief(&[]), [(a.clone(), 0, vec![(1, 5000)]), (b.clone(), 0, both.clone())]);
        assert_eq!(brief(&["b"]), [(b.clone(), 0, both)]);
        assert_eq!(brief(&["c", "b", "b"]), [(b, 92, vec![]), ("c".to_owned(), 91, vec![])]);
    }

    /// The exchange of RFC 7677 §3: the client's proof xored with its signature gives a key whose hash is the stored key,
    /// and the server's signature is made with the server key.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let salted = hex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d");
        let keys = ScramKeys::derive(ScramMechanism::SHA_256, &salted);
        let auth_message = b"n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let server_signature = hmac_sha_256(&keys.server_key, auth_message);
        assert_eq!(
            server_signature[..],
            hex("eabae24d1062db75a9451ff0b6ea7e98c8546549ff741e672d3251b2397de46e")
        );
        let client_signature = hmac_sha_256(&keys.stored_key, auth_message);
        let proof = hex("747cdb65aa56224e2352137e52d7bdcad6a0f738df30782caa69a2cfb0277554");
        let client_key: Vec<u8> = proof.iter().zip(client_signature.iter()).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(client_key)[..], keys.stored_key[..]);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }
}
