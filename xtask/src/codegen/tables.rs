//! What is generated over all messages: API keys, the enums of bodies, module lists, the page of versions.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::schema::{Kind, Message};
use super::shape::snake;

/// One API: its request and response.
struct Api<'a> {
    name: &'a str,
    request: &'a Message,
    response: &'a Message,
}

fn apis(messages: &[Message]) -> Result<Vec<Api<'_>>> {
    let of = |kind| move |m: &&Message| m.kind == kind;
    messages
        .iter()
        .filter(of(Kind::Request))
        .map(|request| {
            let name = request.name.strip_suffix("Request").context("a request's name ends with Request")?;
            let response = messages
                .iter()
                .filter(of(Kind::Response))
                .find(|response| response.key == request.key)
                .with_context(|| format!("{name} has no response"))?;
            anyhow::ensure!(
                response.versions == request.versions,
                "{name}: versions of request and response differ"
            );
            Ok(Api { name, request, response })
        })
        .collect()
}

fn bounds(message: &Message) -> (i16, i16) {
    (*message.versions.first().unwrap_or(&0), *message.versions.last().unwrap_or(&0))
}

/// `api_key.rs`.
pub fn api_keys(messages: &[Message]) -> Result<String> {
    let apis = apis(messages)?;
    let lines = |line: &dyn Fn(&Api<'_>) -> String| apis.iter().map(line).collect::<String>();
    let names_where = |holds: &dyn Fn(&Message) -> bool| {
        let those = apis.iter().filter(|api| holds(api.request));
        those.map(|api| format!("Self::{}", api.name)).collect::<Vec<_>>()
    };
    let variants = lines(&|api| {
        let (low, high) = bounds(api.request);
        format!("/// {name}, versions {low}–{high}.\n{name} = {},", api.request.key, name = api.name)
    });
    let codes = lines(&|api| format!("{} => Self::{},", api.request.key, api.name));
    let names = lines(&|api| format!("Self::{name} => \"{name}\",", name = api.name));
    let versions = lines(&|api| format!("Self::{} => {:?},", api.name, bounds(api.request)));
    let flexible = lines(&|api| {
        let from = api.request.flexible_from;
        let from = if from == i16::MAX { "i16::MAX".to_string() } else { from.to_string() };
        format!("Self::{} => {from},", api.name)
    });
    let by_key = [
        ("/// The API with this key, if it is known here.", "from_code(code: i16) -> Option<Self>", {
            format!("Some(match code {{ {codes} _ => return None }})")
        }),
        ("/// Kafka's name of the API.", "name(self) -> &'static str", format!("match self {{ {names} }}")),
        ("/// The lowest and the highest version that the codec knows.", "bounds(self) -> (i16, i16)", {
            format!("match self {{ {versions} }}")
        }),
        (
            "/// The first flexible version; beyond every version where there is none.",
            "flexible_from(self) -> i16",
            { format!("match self {{ {flexible} }}") },
        ),
        (
            "/// Whether the highest version is unstable: Kafka shows it only when asked to.",
            "latest_version_unstable(self) -> bool",
            format!("matches!(self, {})", names_where(&|m| m.latest_unstable).join(" | ")),
        ),
        (
            "/// Whether Kafka serves the API on a controller's listener too.",
            "on_controller_listener(self) -> bool",
            format!("matches!(self, {})", names_where(&|m| m.controller_listener).join(" | ")),
        ),
    ];
    let functions: Vec<String> =
        by_key.iter().map(|(doc, head, body)| format!("{doc}\npub const fn {head} {{ {body} }}\n")).collect();
    Ok(format!(
        "//! The APIs: keys, names, versions.

        /// An API of Kafka's protocol that this codec knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {{\n{variants}\n}}

        impl ApiKey {{
        /// Every one, by rising key.
        pub const ALL: [Self; {count}] = [{all}];

        {functions}
        }}\n",
        count = apis.len(),
        all = names_where(&|_| true).join(", "),
        functions = functions.join("\n"),
    ))
}

/// `body.rs`: one enum of all requests, one of all responses.
pub fn bodies(messages: &[Message]) -> Result<String> {
    let apis = apis(messages)?;
    let mut out = String::from(
        "//! Any request and any response: dispatch by API key.

        use fencepost_types::wire::{Decoded, Reader, Writer};

        use crate::ApiKey;
        use crate::messages::*;\n",
    );
    for (side, what) in [("Request", "asks for"), ("Response", "answers with")] {
        let lines = |line: &dyn Fn(&str) -> String| apis.iter().map(|api| line(api.name)).collect::<String>();
        let variants = lines(&|name| format!("/// {name}.\n{name}({name}{side}),\n"));
        let keys = lines(&|name| format!("Self::{name}(_) => ApiKey::{name},\n"));
        let decode =
            lines(&|name| format!("ApiKey::{name} => Self::{name}({name}{side}::decode(r, version)?),\n"));
        let encode = lines(&|name| format!("Self::{name}(it) => it.encode(w, version),\n"));
        let from = lines(&|name| {
            format!(
                "impl From<{name}{side}> for {side}Body {{ fn from(it: {name}{side}) -> Self {{ Self::{name}(it) }} }}\n"
            )
        });
        let (read_gate, write_gate) = match side {
            "Request" => ("", "#[cfg(feature = \"client\")]\n"),
            _ => ("#[cfg(feature = \"client\")]\n", ""),
        };
        write!(
            out,
            "
            /// What a {lower} {what}, whatever its API.
            // One at a time is alive per request; a box each would cost more than the room.
            #[allow(clippy::large_enum_variant)]
            #[derive(Clone, Debug, PartialEq)]
            pub enum {side}Body {{\n{variants}}}

            impl {side}Body {{
                /// Its API.
                pub fn api_key(&self) -> ApiKey {{
                    match self {{\n{keys}}}
                }}

                /// Reads the body of an API's {lower}.
                {read_gate}pub fn decode(api_key: ApiKey, version: i16, r: &mut Reader) -> Decoded<Self> {{
                    Ok(match api_key {{\n{decode}}})
                }}

                /// Writes the body as `version` has it, which must be one of the API's.
                {write_gate}pub fn encode(&self, w: &mut Writer, version: i16) {{
                    match self {{\n{encode}}}
                }}
            }}

            {from}",
            lower = side.to_lowercase(),
        )?;
    }
    Ok(out)
}

/// Sorted as rustfmt sorts modules.
fn by_module(messages: &[Message], kind: impl Fn(Kind) -> bool) -> Vec<&Message> {
    let mut sorted: Vec<&Message> = messages.iter().filter(|m| kind(m.kind)).collect();
    sorted.sort_by_key(|m| snake(&m.name));
    sorted
}

/// `messages/mod.rs`.
pub fn message_modules(messages: &[Message]) -> Result<String> {
    let mut out = String::from("//! One module a message.\n\n");
    let mut exports = String::new();
    let mut both_ways = String::new();
    for message in by_module(messages, |kind| kind != Kind::Record) {
        let module = snake(&message.name);
        writeln!(out, "pub mod {module};")?;
        writeln!(exports, "pub use {module}::{};", message.name)?;
        writeln!(both_ways, "crate::message::message!({});", message.name)?;
    }
    for Api { name, .. } in apis(messages)? {
        writeln!(both_ways, "crate::message::request!({name}, {name}Request, {name}Response);")?;
    }
    write!(
        out,
        "\n{exports}\n#[cfg(feature = \"client\")]\nmod both_ways {{\nuse super::*;\n{both_ways}}}\n"
    )?;
    Ok(out)
}

/// `persisted/mod.rs`.
pub fn persisted_modules(messages: &[Message]) -> Result<String> {
    let mut out = String::from(
        "//! The records that Kafka keeps in its internal topics, in the metadata log and in control batches: one module each.
        //! Framing around them (versions, types) is the log's own affair.\n\n",
    );
    let mut exports = String::new();
    for message in by_module(messages, |kind| kind == Kind::Record) {
        let module = snake(&message.name);
        writeln!(out, "pub mod {module};")?;
        writeln!(exports, "pub use {module}::{};", message.name)?;
    }
    write!(out, "\n{exports}")?;
    Ok(out)
}

/// The list of every message's name, for the tests: `entry!` is theirs.
pub fn test_table(messages: &[Message], records: bool) -> Result<String> {
    let mut out = String::new();
    for message in messages.iter().filter(|m| (m.kind == Kind::Record) == records) {
        writeln!(out, "entry!({});", message.name)?;
    }
    Ok(out)
}

/// `docs/protocol.md`.
pub fn page(messages: &[Message]) -> Result<String> {
    let mut out = String::from(
        "# Protocol\n\n\
        Generated by `cargo xtask codegen` from `crates/protocol/schema/schema.txt`; do not edit.\n\n\
        The APIs that the codec of `fencepost-protocol` knows. A broker may show fewer versions than are listed here: an unstable \
        version is shown only when the operator asks for it. How clients are treated, and which test shows it: \
        [manners.md](manners.md).\n\n\
        | Key | API | Versions | Flexible from | Unstable | Listeners in Kafka |\n|---:|---|---|---|---|---|\n",
    );
    for Api { name, request, response } in apis(messages)? {
        let (low, high) = bounds(request);
        let flexible = if request.flexible_from == i16::MAX {
            "never".into()
        } else {
            request.flexible_from.to_string()
        };
        let unstable = if request.latest_unstable { high.to_string() } else { String::new() };
        let listeners = if request.controller_listener { "broker, controller" } else { "broker" };
        debug_assert_eq!(response.flexible_from, request.flexible_from);
        writeln!(out, "| {} | {name} | {low}–{high} | {flexible} | {unstable} | {listeners} |", request.key)?;
    }
    out.push_str(
        "\n## Persisted records\n\n\
        Types are those of the metadata log, or the version before a coordinator's log key.\n\n\
        | Record | Type | Versions | Flexible from |\n|---|---:|---|---|\n",
    );
    for record in messages.iter().filter(|m| m.kind == Kind::Record) {
        let (low, high) = bounds(record);
        let flexible =
            if record.flexible_from == i16::MAX { "never".into() } else { record.flexible_from.to_string() };
        let key = if record.key < 0 { String::new() } else { record.key.to_string() };
        writeln!(out, "| {} | {key} | {low}–{high} | {flexible} |", record.name)?;
    }
    Ok(out)
}
