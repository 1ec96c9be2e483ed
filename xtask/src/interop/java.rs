//! The Java programs of `testing/interop/java` and `testing/interop/streams`, built with Maven when their source has changed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A command that runs one of the programs of `fencepost.interop.Main`.
pub fn command(program: &str) -> Result<Command> {
    main("java", "fencepost.interop.Main", program)
}

/// A command that runs a main class of a project below `testing/interop`.
pub fn main(project: &str, class: &str, program: &str) -> Result<Command> {
    let built = workspace::target_dir().join("xtask").join(project);
    let below = format!("testing/interop/{project}/");
    let source: String = workspace::files()?
        .into_iter()
        .filter(|file| file.path.starts_with(&below))
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
            .arg(workspace::root().join(below).join("pom.xml"))
            .arg(format!("-Doutput.directory={}", built.display()))
            .arg(format!("-DoutputDirectory={}", built.join("jars").display()))
            .status()
            .context("mvn")?;
        ensure!(status.success(), "building the Java programs of {project} failed");
        fs::write(&mark, source)?;
    }
    let mut command = Command::new("java");
    let classpath = format!("{}:{}", built.join("classes").display(), built.join("jars/*").display());
    command.args(["-cp", &classpath]);
    if project == "streams" {
        // Several of them share the machine with the broker, none lives long.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]);
    }
    command.args([class, program]);
    Ok(command)
}
