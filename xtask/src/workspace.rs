//! Where things are: the root of the repository, the build directory, the files that are ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Directories whose content is made, not written.
const NOT_OURS: [&str; 6] = ["target", ".git", "node_modules", "fencepost-data", "__pycache__", ".venv"];

/// The directory that holds the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The build directory: `CARGO_TARGET_DIR`, or `target` in the workspace.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(path) => root().join(path),
        None => root().join("target"),
    }
}

/// An empty directory of that name below the build directory.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let path = target_dir().join("xtask").join(name);
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("clearing {}", path.display()))?;
    }
    fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(path)
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What `cargo metadata` says, with all dependencies.
pub fn metadata() -> Result<Value> {
    let out = cargo().args(["metadata", "--format-version", "1", "--locked"]).output()?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// One file of the repository.
pub struct SourceFile {
    /// Path below the root, with `/` between its parts.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its content; none where it is not UTF-8.
    pub text: Option<String>,
}

/// Every file below the root that is not made by a tool, in order of its path.
pub fn files() -> Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    walk(root(), "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(directory: &Path, prefix: &str, found: &mut Vec<SourceFile>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), found)?;
            }
        } else if kind.is_file() {
            let content = fs::read(entry.path()).with_context(|| path.clone())?;
            let bytes = content.len() as u64;
            found.push(SourceFile { path, bytes, text: String::from_utf8(content).ok() });
        }
    }
    Ok(())
}
