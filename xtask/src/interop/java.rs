//! The Java programs of `testing/interop/java`, built with Maven when their source has changed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A command that runs one of the programs of `Main`.
pub fn command(program: &str) -> Result<Command> {
    let built = workspace::target_dir().join("xtask").join("java");
    let project = workspace::root().join("testing/interop/java");
    let source: String = workspace::files()?
        .into_iter()
        .filter(|file| file.path.starts_with("testing/interop/java/"))
        .map(|file| file.path + "\n" + &file.text.unwrap_or_default())
        .collect();
    let mark = built.join("source.txt");
    if fs::read_to_string(&mark).unwrap_or_default() != source {
        let status = Command::new("mvn")
            .args([
                "-q",
                "-B",
                "-Dstyle.color=never",
                "compile",
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                "-f",
            ])
            .arg(project.join("pom.xml"))
            .arg(format!("-Doutput.directory={}", built.display()))
            .arg(format!("-DoutputDirectory={}", built.join("jars").display()))
            .status()
            .context("mvn")?;
        ensure!(status.success(), "building the Java programs failed");
        fs::write(&mark, source)?;
    }
    let mut command = Command::new("java");
    let classpath = format!("{}:{}", built.join("classes").display(), built.join("jars/*").display());
    command.args(["-cp", &classpath, "fencepost.interop.Main", program]);
    Ok(command)
}
