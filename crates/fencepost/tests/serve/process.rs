//! The binary as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fencepost_client::protocol::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, create_topics_request, describe_configs_request,
};
use fencepost_client::{Connection, Options};

/// Nothing that a test waits for takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What `fencepost serve` is started with.
pub struct Serve {
    command: Command,
    listen: String,
}

impl Serve {
    /// On a free port of this machine, with nothing of the test's environment.
    pub fn new() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command.env_clear().arg("serve");
        command.args([
            "-X",
            "offsets.topic.num.partitions=2",
            "-X",
            "transaction.state.log.num.partitions=2",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, listen: "127.0.0.1:0".to_owned() }
    }

    /// On a directory.
    pub fn on(directory: &Path) -> Self {
        Self::new().with(&["--data", directory.to_str().unwrap()])
    }

    /// In memory.
    pub fn ephemeral() -> Self {
        Self::new().with(&["--ephemeral"])
    }

    /// More arguments.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// A variable of its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With so many file handles.
    pub fn with_handles(self, count: &str) -> Self {
        self.with_soft_handles(count, count)
    }

    /// With so many file handles at first, and so many that it may ask for.
    pub fn with_soft_handles(mut self, soft: &str, hard: &str) -> Self {
        let limited = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
        let mut command = Command::new("/bin/sh");
        command.env_clear().args(["-c", &limited]).arg(self.command.get_program());
        command.args(self.command.get_args()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command = command;
        self
    }

    /// On an address of the test's choice.
    pub fn with_listen(mut self, listen: &str) -> Self {
        self.listen = listen.to_owned();
        self
    }

    fn command(mut self) -> Command {
        self.command.args(["--listen", &self.listen]);
        self.command
    }

    /// With stderr going elsewhere than to the test.
    pub fn with_stderr(mut self, stderr: Stdio) -> Self {
        self.command.stderr(stderr);
        self
    }

    /// Starts it with stdout going elsewhere, and waits for nothing.
    pub fn spawn_with_stdout(mut self, stdout: Stdio) -> Child {
        self.command.stdout(stdout).stderr(Stdio::null());
        self.command().spawn().unwrap()
    }

    /// Starts it, and waits for the ready line.
    pub fn start(self) -> Process {
        let mut child = self.command().spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("fencepost ready ").and_then(|rest| rest.strip_suffix('\n'));
        let Some(address) = address else {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("not ready but {line:?}; {}", String::from_utf8_lossy(&output.stderr));
        };
        let log = child.stderr.take().map(BufReader::new);
        Process { address: address.parse().unwrap(), child, stdout, log }
    }

    /// Starts it where it must not start; answers what it said on stderr. Nothing is said on stdout.
    pub fn refused(self) -> String {
        let output = self.command().output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "it started and ended: {stderr}");
        assert!(output.status.code().is_some(), "it was killed: {stderr}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
        stderr
    }
}

/// A running broker. Killed when it is dropped.
pub struct Process {
    pub address: SocketAddr,
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// stderr, unless it goes elsewhere.
    log: Option<BufReader<ChildStderr>>,
}

/// How a broker has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// What came on stdout behind the ready line.
    pub stdout: String,
    /// Everything that came on stderr.
    pub stderr: String,
    /// How long it took from the signal.
    pub took: Duration,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address, &Options::default()).unwrap()
    }

    /// Sends a signal by its name.
    pub fn send_signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Reads the log up to a line with this in it; answers what was read.
    pub fn read_log_until(&mut self, expected: &str) -> String {
        let (log, mut said) = (self.log.as_mut().expect("the log comes here"), String::new());
        loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ends without {expected:?}: {said}");
            said.push_str(&line);
            if line.contains(expected) {
                return said;
            }
        }
    }

    /// Sends a signal by its name, and waits for the end.
    pub fn signal(mut self, name: &str) -> Ended {
        let begun = Instant::now();
        self.send_signal(name);
        let status = self.wait(begun);
        let took = begun.elapsed();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        if let Some(log) = &mut self.log {
            log.read_to_string(&mut stderr).unwrap();
        }
        Ended { status, stdout, stderr, took }
    }

    fn wait(&mut self, begun: Instant) -> ExitStatus {
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it does not end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value in force of a key of broker 1.
pub fn broker_config(connection: &mut Connection, key: &str) -> String {
    config_of_broker(connection, "1", key)
}

/// The value in force of a broker's key.
pub fn config_of_broker(connection: &mut Connection, id: &str, key: &str) -> String {
    const BROKER: i8 = 4;
    let resource = describe_configs_request::Resources {
        resource_type: BROKER,
        resource_name: id.to_owned(),
        configuration_keys: Some(vec![key.to_owned()]),
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = connection.call(&request).unwrap();
    answer.results[0].configs[0].value.clone().expect("it has a value")
}

/// Creates a topic with as many partitions as the broker thinks right; answers how many that are.
pub fn create_topic(connection: &mut Connection, name: &str) -> i32 {
    let topic = create_topics_request::Topics {
        name: name.to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let answer = connection.call(&request).unwrap();
    assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
    answer.topics[0].num_partitions
}
