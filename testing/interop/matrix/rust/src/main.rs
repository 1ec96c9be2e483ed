//! The program of the Rust crate rdkafka: `BOOTSTRAP SCOPE CAPABILITY…`; prints one line of JSON for each capability.

mod admin;
mod client;
mod scenarios;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(40);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, scope, capabilities @ ..] = arguments.as_slice() else {
        panic!("arguments: BOOTSTRAP SCOPE CAPABILITY…");
    };
    let version = format!("0.39.0 (librdkafka {})", rdkafka::util::get_rdkafka_version().1);
    for capability in capabilities {
        let (told, tells) = mpsc::channel();
        let (bootstrap, scope, name) =
            (bootstrap.clone(), format!("{scope}-{capability}"), capability.clone());
        thread::spawn(move || told.send(scenarios::run(&bootstrap, &scope, &name)));
        let outcome = tells
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err(anyhow!("no end in {} s", PATIENCE.as_secs())));
        let (result, detail) = match outcome {
            Ok(detail) => ("pass", detail),
            Err(error) => ("fail", format!("{error:#}")),
        };
        let line = json!({
            "client": "rdkafka (Rust)", "version": version, "capability": capability, "result": result, "detail": detail,
        });
        println!("{line}");
    }
    // What did not end in time is not waited for.
    std::process::exit(0);
}
