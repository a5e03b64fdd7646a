//! Third-party IPMI servers and clients: ipmi_sim (OpenIPMI), goipmi-server, pyghmi's fakebmc, and
//! ipmitool.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use rackhand_bmc::{
    Bmc,
    ipmi::{IpmiConfig, connect},
};
use rackhand_tests::{
    process::{Process, free_port},
    repository,
};
use tempfile::TempDir;

/// The IPMI server of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// OpenIPMI's simulator: suite 3, users and sessions, power state kept by a script.
    IpmiSim,
    /// bougou/go-ipmi with these cipher suites; implements boot flags correctly.
    Goipmi(&'static str),
    /// pyghmi's example: suite 3 whatever is proposed.
    Fakebmc,
}

/// A server for one test.
pub struct Server {
    pub peer: Peer,
    pub port: u16,
    dir: TempDir,
    process: Option<Process>,
}

const GUID: &str = "a123456789abcdefa123456789abcdef";

const SCRIPT: &str = r#"#!/bin/sh
D=DIR; S=$D/power; echo "$*" >>$D/calls
[ -f $D/slow ] && sleep $(cat $D/slow)
[ -f $D/fail ] && exit 1
shift; op=$1; shift
case $op in
get) for p; do [ $p = power ] && echo power:$(cat $S 2>/dev/null || echo 0); [ $p = boot ] && echo boot:default; done ;;
set) while [ $# -gt 0 ]; do [ $1 = power ] && echo $2 >$S; shift 2; done ;;
esac
exit 0
"#;

const EMULATOR: &str = "mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
sel_add 0x20 2 0 0 0 0 0x20 0 4 1 1 0x57 0x60 0x5a 0x64
mc_enable 0x20
";

impl Server {
    pub fn start(peer: Peer) -> Self {
        let port = free_port().expect("a free port");
        let dir = TempDir::new().expect("directory");
        let mut server = Self {
            peer,
            port,
            dir,
            process: None,
        };
        server.restart();
        server
    }

    /// Restarts it if it has ended. ipmi_sim keeps its users and the power state.
    pub fn restart(&mut self) {
        self.process = None;
        let (program, arguments, env) = match self.peer {
            Peer::IpmiSim => (program("ipmi_sim"), self.configure_sim(), Vec::new()),
            Peer::Goipmi(suites) => {
                let env = [
                    ("PORT", self.port.to_string().as_str()),
                    ("USER", "admin"),
                    ("PASS", "secret"),
                    ("CIPHER_SUITES", suites),
                    ("TRACE", "1"),
                ]
                .map(|(name, value)| (format!("GOIPMI_SERVER_{name}"), value.to_owned()));
                (program("goipmi-server"), Vec::new(), env.to_vec())
            }
            Peer::Fakebmc => {
                let arguments = vec!["--port".to_owned(), self.port.to_string()];
                (program("fakebmc"), arguments, Vec::new())
            }
        };
        let mut command = vec![program];
        command.extend(arguments);
        let process = Process::start("server", &command, &env, self.dir.path()).expect("start");
        self.process = Some(process);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_bound(self.port) {
            assert!(Instant::now() < deadline, "not bound: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn configure_sim(&self) -> Vec<String> {
        let dir = self.dir.path();
        let shown = dir.display();
        let users: String = [
            (2, "admin", "secret", "admin"),
            (3, "oper", "operpw", "operator"),
            (4, "reader", "readpw", "user"),
        ]
        .into_iter()
        .map(|(id, name, password, limit)| {
            format!("user {id} true \"{name}\" \"{password}\" {limit} 10 none md2 md5 straight\n")
        })
        .collect();
        let allowed: String = ["callback", "user", "operator", "admin"]
            .into_iter()
            .map(|level| format!("allowed_auths_{level} none md2 md5 straight\n"))
            .collect();
        let lan = format!(
            "name \"bmc1\"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 {}\npriv_limit admin\n\
             {allowed}guid {GUID}\nendlan\nchassis_control \"{shown}/chassis.sh 0x20\"\n\
             startnow false\n{users}",
            self.port
        );
        fs::create_dir_all(dir.join("state")).expect("state");
        write(&dir.join("lan.conf"), &lan);
        write(&dir.join("sim.emu"), EMULATOR);
        let script = dir.join("chassis.sh");
        write(&script, &SCRIPT.replace("DIR", &shown.to_string()));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(script, mode).expect("mode");
        ["-c", "lan.conf", "-f", "sim.emu", "-s", "state", "-n"]
            .map(|word| {
                if word.starts_with('-') {
                    word.to_owned()
                } else {
                    dir.join(word).display().to_string()
                }
            })
            .to_vec()
    }

    pub fn config(&self, user: &str, password: &str) -> IpmiConfig {
        let address = format!("ipmi://127.0.0.1:{}", self.port);
        IpmiConfig::new(address.parse().expect("address"), user, password.into())
    }

    /// A client with the administrator account.
    pub fn admin(&self) -> Box<dyn Bmc> {
        let password = match self.peer {
            Peer::Fakebmc => "password",
            _ => "secret",
        };
        connect(self.config("admin", password)).expect("configuration")
    }

    /// Runs ipmitool as an independent client, with one attempt of 1 s.
    pub fn ipmitool(&self, words: &[&str]) -> Output {
        let port = self.port.to_string();
        let suite = match self.peer {
            Peer::Goipmi(suites) if !suites.starts_with('3') => "17",
            _ => "3",
        };
        let password = match self.peer {
            Peer::Fakebmc => "password",
            _ => "secret",
        };
        Command::new(program("ipmitool"))
            .args(["-I", "lanplus", "-H", "127.0.0.1", "-p", &port, "-C", suite])
            .args(["-U", "admin", "-P", password, "-N", "1", "-R", "1"])
            .args(words)
            .output()
            .expect("ipmitool")
    }

    /// Number of calls of ipmi_sim's chassis script whose arguments contain `word`.
    pub fn calls(&self, word: &str) -> usize {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.contains(word)).count()
    }

    /// Delays each chassis command of ipmi_sim by this time; `None`: no delay.
    pub fn slow(&self, seconds: Option<f32>) {
        let file = self.dir.path().join("slow");
        match seconds {
            Some(seconds) => write(&file, &seconds.to_string()),
            None => fs::remove_file(file).expect("slow"),
        }
    }

    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("process");
        process.signal(signal).expect("signal");
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("kill");
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut().expect("process");
        let deadline = Instant::now() + Duration::from_secs(60);
        while process.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        process.ended().is_some()
    }

    pub fn log(&self) -> String {
        self.process
            .as_ref()
            .map(|process| fs::read_to_string(process.log()).unwrap_or_default())
            .unwrap_or_default()
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("write");
}

/// Whether a UDP socket is bound to this port, according to the kernel.
fn is_bound(port: u16) -> bool {
    let port = format!(":{port:04X}");
    ["/proc/net/udp", "/proc/net/udp6"].iter().any(|table| {
        fs::read_to_string(table)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .any(|local| local.ends_with(&port))
    })
}

/// A third-party program.
pub fn program(name: &str) -> String {
    repository::program(name).unwrap().display().to_string()
}
