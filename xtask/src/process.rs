//! Child processes with a limit on their time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A child that is killed when it is dropped.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a child; one that takes longer than the limit is killed, and that is an error.
pub fn wait(child: &mut Guarded, limit: Duration) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > limit {
            child.0.kill()?;
            bail!("no end within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command with its output passed on; whether it succeeded in time.
pub fn succeeds(command: &mut Command, limit: Duration) -> Result<bool> {
    let spawned = command.stdin(Stdio::null()).spawn();
    let mut child = Guarded(spawned.with_context(|| format!("starting {:?}", command.get_program()))?);
    Ok(wait(&mut child, limit)?.success())
}

/// Runs a command and returns what it printed on stdout; failure is an error that holds it.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let mut child = Guarded(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut stdout = child.0.stdout.take().expect("stdout is piped");
    let reader = thread::spawn(move || std::io::read_to_string(&mut stdout));
    let status = wait(&mut child, limit)?;
    let text = reader.join().expect("reading does not panic")?;
    if !status.success() {
        bail!("{}", text.trim_end());
    }
    Ok(text)
}

/// The same of a command that asks for something by the line `wish`: `grant` does it, and an empty line goes back.
pub fn output_granting(
    command: &mut Command,
    limit: Duration,
    wish: &str,
    mut grant: impl FnMut() -> Result<()>,
) -> Result<String> {
    let mut child = Guarded(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let stdout = child.0.stdout.take().expect("stdout is piped");
    let mut stdin = child.0.stdin.take().expect("stdin is piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || BufReader::new(stdout).lines().map_while(|line| sender.send(line).ok()).count());
    let (began, mut text) = (Instant::now(), String::new());
    loop {
        match lines.recv_timeout(limit.saturating_sub(began.elapsed())) {
            Ok(line) if line.as_ref().is_ok_and(|line| line == wish) => {
                grant()?;
                stdin.write_all(b"\n")?;
            }
            Ok(line) => text = text + &line? + "\n",
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("no end within {} s", limit.as_secs()),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    if !wait(&mut child, limit.saturating_sub(began.elapsed()))?.success() {
        bail!("{}", text.trim_end());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    // Success, failure with what was said, and a child that does not end are told apart.
    #[test]
    fn the_three_ends_of_a_child() {
        let limit = Duration::from_secs(20);
        assert_eq!(output(&mut shell("echo a"), limit).unwrap(), "a\n");
        assert_eq!(output(&mut shell("echo b; exit 3"), limit).unwrap_err().to_string(), "b");
        let late = output(&mut shell("exec sleep 30"), Duration::from_millis(20)).unwrap_err();
        assert_eq!(late.to_string(), "no end within 0 s");
        assert!(!succeeds(&mut shell("exit 1"), limit).unwrap());
    }

    // A child's wish is granted before it goes on, and its ends are told apart likewise.
    #[test]
    fn a_wish_is_granted() {
        let limit = Duration::from_secs(20);
        let mut granted = 0;
        let mut grant = || {
            granted += 1;
            Ok(())
        };
        let script = "echo a; echo please; read x; echo b; echo please; read x; echo c";
        assert_eq!(output_granting(&mut shell(script), limit, "please", &mut grant).unwrap(), "a\nb\nc\n");
        assert_eq!(granted, 2);
        let failed = output_granting(&mut shell("echo d; exit 3"), limit, "please", || Ok(()));
        assert_eq!(failed.unwrap_err().to_string(), "d");
        let short = Duration::from_millis(20);
        let late = output_granting(&mut shell("exec sleep 30"), short, "please", || Ok(()));
        assert_eq!(late.unwrap_err().to_string(), "no end within 0 s");
    }
}
