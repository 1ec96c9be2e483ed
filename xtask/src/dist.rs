//! `cargo xtask dist`: the one file that is given to people, which needs nothing on their machine but Linux.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use object::elf::{FileHeader64, PT_DYNAMIC, PT_INTERP};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use crate::broker::{Broker, End, Setup};
use crate::summary::Summary;
use crate::workspace;

/// Links the C library into the binary. It cannot be asked for in `.cargo/config.toml`: without `--target`, which moves the build
/// directory, it would reach procedural macros, which must be shared objects.
const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Builds the binary, makes sure that it is whole, and starts it once.
pub fn run() -> Result<Summary> {
    let binary = build()?;
    let scratch = workspace::scratch("dist")?;
    let setup = Setup {
        executable: binary.clone(),
        data: scratch.join("data"),
        settings: Vec::new(),
        log: scratch.join("broker.log"),
    };
    let mut broker = Broker::start(setup)?;
    ensure!(broker.answers(), "{} does not answer", binary.display());
    broker.end(End::Stop)?;
    let mib = fs::metadata(&binary)?.len() as f64 / f64::from(1 << 20);
    let line = format!(
        "dist: {} is whole: {mib:.1} MiB, no other file is loaded; it starts and answers",
        binary.display()
    );
    Ok(Summary { line, passed: 1, failed: 0 })
}

/// Builds the broker as one static file, and returns where it is. Where the platform has no static C library, an ordinary build.
pub fn build() -> Result<PathBuf> {
    let host = host()?;
    let mut command = workspace::cargo();
    command.args(["build", "--quiet", "--release", "--locked", "--package", "fencepost", "--target", &host]);
    let linux = host.contains("-linux-");
    if linux {
        command.env("CARGO_ENCODED_RUSTFLAGS", STATIC);
    }
    ensure!(
        command.status()?.success(),
        "building the broker failed; its linker needs the static C library (libc.a)"
    );
    let built = workspace::target_dir().join(&host).join("release/fencepost");
    if linux {
        let content = fs::read(&built).with_context(|| built.display().to_string())?;
        is_whole(&content).with_context(|| built.display().to_string())?;
    }
    Ok(built)
}

/// The triple that this machine's compiler builds for.
fn host() -> Result<String> {
    let out =
        Command::new("rustc").arg("-vV").current_dir(workspace::root()).output().context("rustc -vV")?;
    let text = String::from_utf8(out.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

/// Whether an executable names neither a loader nor a shared object.
fn is_whole(content: &[u8]) -> Result<()> {
    let header = FileHeader64::<Endianness>::parse(content)?;
    let endian = header.endian()?;
    for part in header.program_headers(endian, content)? {
        if part.p_type(endian) == PT_INTERP {
            bail!("it asks for a loader");
        }
        let entries = match part.p_type(endian) == PT_DYNAMIC {
            true => part.dynamic(endian, content)?.unwrap_or_default(),
            false => &[],
        };
        ensure!(
            entries.iter().all(|entry| entry.tag32(endian) != Some(elf::DT_NEEDED)),
            "it asks for shared objects"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The program of this test itself is linked the ordinary way.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_ordinary_executable_is_not_whole() {
        let own =
            fs::read(std::env::current_exe().expect("a running test has a file")).expect("it can be read");
        assert!(is_whole(&own).is_err());
        assert!(is_whole(b"no executable at all").is_err());
    }
}
