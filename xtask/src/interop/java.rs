//! The Java programs of `testing/interop/java`, `testing/interop/streams` and `testing/interop/matrix/java`, built with Maven when their source has changed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The client that the programs run on unless another is named.
pub const NEWEST: &str = "4.4.0";
/// The last client that knows nothing of transactions of version 2.
pub const BEFORE_VERSION_2: &str = "3.9.1";

/// A command that runs one of the programs of `fencepost.interop.Main`.
pub fn command(program: &str) -> Result<Command> {
    main("java", "fencepost.interop.Main", program)
}

/// A command that runs a main class of a project below `testing/interop`.
pub fn main(project: &str, class: &str, program: &str) -> Result<Command> {
    let mut command = Command::new("java");
    command.args(["-cp", &classpath(project, NEWEST)?]);
    if project == "streams" {
        // Several of them share the machine with the broker, none lives long.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]);
    }
    command.args([class, program]);
    Ok(command)
}

/// The class paths of the programs on the newest client and on one before transactions of version 2, as arguments.
pub fn both_classpaths() -> Result<[String; 4]> {
    let old = classpath("java", BEFORE_VERSION_2)?;
    Ok(["--java".into(), classpath("java", NEWEST)?, "--old-java".into(), old])
}

/// The class path of a project, compiled against this version of the client.
pub fn classpath(project: &str, version: &str) -> Result<String> {
    let built = workspace::target_dir().join("xtask").join(format!("{project}-{version}"));
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
            .arg(format!("-Dkafka.version={version}"))
            .arg(format!("-Doutput.directory={}", built.display()))
            .arg(format!("-DoutputDirectory={}", built.join("jars").display()))
            .status()
            .context("mvn")?;
        ensure!(status.success(), "building the Java programs of {project} failed");
        fs::write(&mark, source)?;
    }
    Ok(format!("{}:{}", built.join("classes").display(), built.join("jars/*").display()))
}
