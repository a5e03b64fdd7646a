//! `rackhand-agent sim` as a process, and the command line for it.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rackhand_proto::v1::{self, begin_request::Action, power_client::PowerClient};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_rackhand-agent");

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program without additional arguments.
pub(crate) fn bare(args: &[&str]) -> Ran {
    run(Command::new(BINARY).args(args))
}

fn run(command: &mut Command) -> Ran {
    let output = command
        .env_remove("CREDENTIALS_DIRECTORY")
        .env_remove("RACKHAND_AGENT_CONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) struct Sim {
    child: Child,
    said: String,
    dir: TempDir,
}

impl Sim {
    /// Starts it with a high limit of sockets; returns when it has printed its introduction.
    pub(crate) fn start(args: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let raised = "ulimit -n \"$(ulimit -Hn)\" && exec \"$0\" \"$@\"";
        let mut child = Command::new("sh")
            .args(["-c", raised, BINARY, "sim", "--dir"])
            .arg(dir.path())
            .args(args)
            .env_remove("CREDENTIALS_DIRECTORY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        for line in lines.map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.starts_with("Ctrl-C") {
                return Self { child, said, dir };
            }
        }
        let mut why = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut why).unwrap();
        child.wait().unwrap();
        panic!("the simulated rack did not start: {said}{why}");
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .env("RACKHAND_SOCKET", self.socket())
            .args(self.for_direct(args));
        run(&mut command)
    }

    /// With --direct the configuration is that of the rack.
    fn for_direct(&self, args: &[&str]) -> Vec<String> {
        if !args.contains(&"--direct") {
            return Vec::new();
        }
        vec!["--config".to_owned(), self.config().display().to_string()]
    }

    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir().join("agent.sock")
    }

    /// The generated configuration.
    pub(crate) fn config(&self) -> PathBuf {
        let line = self
            .said
            .lines()
            .find(|line| line.starts_with("Configuration"));
        let (_, path) = line.unwrap().split_once(": ").unwrap();
        path.into()
    }

    /// The same rack with another socket and state, where no agent runs.
    pub(crate) fn other_config(&self) -> PathBuf {
        let text = std::fs::read_to_string(self.config()).unwrap();
        let other = text
            .replace("agent.sock", "other.sock")
            .replace("state: state", "state: other")
            .replace("state = \"state\"", "state = \"other\"");
        assert_ne!(text, other);
        let path = self.config().with_file_name("other");
        let path = path.with_extension(self.config().extension().unwrap());
        std::fs::write(&path, other).unwrap();
        path
    }

    /// Sends SIGINT and returns the exit code.
    pub(crate) fn stop(mut self) -> i32 {
        self.interrupt()
    }

    /// Sends SIGINT and returns the exit code; the generated files are kept.
    pub(crate) fn interrupt(&mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }

    /// Switches a host off by the socket and holds it off, as a controller does for a remediation.
    pub(crate) async fn hold(&self, host: &str) {
        let channel = rackhand_transport::connect_local(&self.socket())
            .await
            .unwrap();
        let mut client = PowerClient::new(channel);
        let off = v1::PowerOff {
            hold: true,
            ..v1::PowerOff::default()
        };
        let begin = v1::BeginRequest {
            operation_id: "off-1".to_owned(),
            target: Some(v1::Target {
                host: host.to_owned(),
                endpoint: None,
            }),
            action: Some(Action::PowerOff(off)),
            ..v1::BeginRequest::default()
        };
        client.begin(begin).await.unwrap();
        let request = v1::AwaitRequest {
            operation_id: "off-1".to_owned(),
        };
        let mut events = client.r#await(request).await.unwrap().into_inner();
        while events.message().await.unwrap().is_some() {}
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
