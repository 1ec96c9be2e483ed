//! The machine that the figures come from, without its name.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::{fs, str};

/// One line: processor, cores, memory, kernel, file system of the data.
pub fn describe(data: &Path) -> String {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let memory =
        field("/proc/meminfo", "MemTotal").and_then(|t| t.trim_end_matches(" kB").parse::<u64>().ok());
    let gib = memory.unwrap_or(0).div_ceil(1 << 20);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // The version without what a distribution or provider appends to it.
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    let java = first_line(Command::new("java").arg("-version"));
    format!(
        "{cores} cores ({processor}), {gib} GiB of memory, Linux {kernel}, data on {}; {java}",
        file_system(data)
    )
}

/// How many threads wanted to run in the last minute, by the system's count: what else the machine has to do.
pub fn load() -> String {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    average.split(' ').next().filter(|first| !first.is_empty()).unwrap_or("unknown").to_owned()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn file_system(path: &Path) -> String {
    let out = Command::new("stat").args(["--file-system", "--format=%T"]).arg(path).output();
    let name = out.ok().and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    // The kernel has one number for the three.
    name.trim().replace("ext2/ext3", "ext4")
}

/// Java prints its version on stderr.
fn first_line(command: &mut Command) -> String {
    let out = command.output().map(|out| out.stderr).unwrap_or_default();
    str::from_utf8(&out).unwrap_or_default().lines().next().unwrap_or_default().replace('"', "")
}
