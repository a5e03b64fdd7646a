//! The `rack-sim` binary as its users meet it: a file in, endpoints out, faults by curl, a graceful
//! end.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const CONFIG: &str = "
name: rack-a
directory: run
timings:
  off_takes: 10ms
bmc:
  username: operator
hosts:
  - name: n1
    uuid: 11111111-2222-3333-4444-555555555555
    vendor: dell
  - name: n2
    starts_on: false
";

struct Sim {
    child: Child,
    _out: BufReader<ChildStdout>,
    dir: TempDir,
    endpoints: Value,
}

impl Sim {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("rack.yaml"), CONFIG).unwrap();
        std::fs::write(dir.path().join("curl.conf"), "user = \"operator:s3cret\"\n").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rack-sim"))
            .arg("--config")
            .arg(dir.path().join("rack.yaml"))
            .env("RACK_SIM_PASSWORD", "s3cret")
            .env("RUST_LOG", "info")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert_ne!(
                out.read_line(&mut line).unwrap(),
                0,
                "rack-sim ended before it was ready"
            );
        }
        let endpoints = std::fs::read_to_string(dir.path().join("run/endpoints.json")).unwrap();
        let endpoints = serde_json::from_str(&endpoints).unwrap();
        Self {
            child,
            _out: out,
            dir,
            endpoints,
        }
    }

    fn curl(&self, url: &str, args: &[&str]) -> (u16, Value) {
        let ca = self.endpoints["ca"].as_str().unwrap();
        let code = [
            "--silent",
            "--max-time",
            "20",
            "--write-out",
            "\n%{http_code}",
        ];
        let output = Command::new("curl")
            .args(code)
            .args(["--noproxy", "*", "--cacert", ca])
            .arg("--config")
            .arg(self.dir.path().join("curl.conf"))
            .args(args)
            .arg(url)
            .output()
            .expect("curl (Debian package curl) is needed");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap();
        (
            code.parse().unwrap(),
            serde_json::from_str(body).unwrap_or(Value::Null),
        )
    }

    fn control(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.endpoints["control"].as_str().unwrap());
        let args = ["--request", method, "--data", body];
        self.curl(&url, if body.is_empty() { &args[..2] } else { &args })
    }

    fn system(&self, host: &str) -> Value {
        let url = self.endpoints["hosts"][host]["system"].as_str().unwrap();
        let (code, system) = self.curl(url, &[]);
        assert_eq!(code, 200);
        system
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn files_below(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn it_serves_takes_faults_and_ends_when_asked() {
    let mut sim = Sim::start();
    let system = sim.system("n1");
    assert_eq!(system["UUID"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(system["Manufacturer"], "Dell Inc.");
    assert_eq!(sim.system("n2")["PowerState"], "Off");

    let (code, added) = sim.control("POST", "/hosts/n1/faults", r#"{"fault":"lie_off"}"#);
    assert_eq!(code, 200);
    assert_eq!(sim.system("n1")["PowerState"], "Off");
    assert_eq!(sim.control("GET", "/hosts/n1", "").1["power"], "On");
    let path = format!("/hosts/n1/faults/{}", added["id"]);
    assert_eq!(sim.control("DELETE", &path, "").0, 204);
    assert_eq!(sim.control("DELETE", &path, "").0, 404);

    let rule = json!({"method": "GET", "path": "/redfish/v1/Systems/*",
        "action": {"state": {"state": "Paused"}}, "remaining": 1});
    assert_eq!(
        sim.control("POST", "/hosts/n1/faults", &rule.to_string()).0,
        200
    );
    assert_eq!(sim.system("n1")["PowerState"], "Paused");
    assert_eq!(sim.system("n1")["PowerState"], "On");
    assert_eq!(
        sim.control("GET", "/hosts/n1/faults", "").1[0]["remaining"],
        0
    );
    let (code, wrong) = sim.control("POST", "/hosts/n1/faults", r#"{"fault":"explode"}"#);
    assert_eq!(code, 422);
    assert!(wrong["error"].as_str().unwrap().contains("explode"));

    assert_eq!(sim.control("POST", "/hosts/n1/hang", "").0, 204);
    assert_eq!(sim.control("POST", "/hosts/n2/hang", "").0, 409);
    assert_eq!(
        sim.control("POST", "/hosts/n1/power/ForceRestart", "").1["answer"],
        "accepted"
    );
    assert_eq!(sim.control("POST", "/hosts/n2/clock/stop", "").0, 200);
    assert_eq!(
        sim.control("POST", "/hosts/n2/power/On", "").1["answer"],
        "accepted"
    );
    let (_, stepped) = sim.control("POST", "/hosts/n2/clock/step", "");
    assert_eq!(stepped[0]["change"], json!({"power": "On"}));
    assert_eq!(
        stepped[0]["cause"],
        json!({"reset": "On", "by": "control port"})
    );
    assert_eq!(sim.control("POST", "/hosts/n2/clock/2m", "").1, json!([]));
    assert_eq!(sim.control("POST", "/hosts/n2/clock/soon", "").0, 400);
    let (_, switched) = sim.control("GET", "/hosts/n2/switched", "");
    assert_eq!(switched.as_array().unwrap().len(), 2);
    assert_eq!(
        sim.control("GET", "/hosts/n2/boots", "").1[0]["from"],
        "None"
    );

    let (_, log) = sim.control("GET", "/hosts/n1/log", "");
    assert!(
        log.as_array()
            .unwrap()
            .iter()
            .any(|line| line["os"] == "Hung"),
        "{log}"
    );
    assert_eq!(sim.control("GET", "/overlaps", "").1, json!([]));
    assert_eq!(sim.control("GET", "/hosts/n9", "").0, 404);

    assert_eq!(
        files_below(sim.dir.path()),
        ["curl.conf", "rack.yaml", "run"]
    );
    assert_eq!(
        files_below(&sim.dir.path().join("run")),
        ["endpoints.json", "pki"]
    );

    let pid = Pid::from_raw(i32::try_from(sim.child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(sim.child.wait().unwrap().success());
}

#[test]
fn a_wrong_file_is_refused_with_its_place() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("rack.yaml");
    std::fs::write(&path, "name: a\nhosts: []\npassword: nope\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rack-sim"))
        .arg("--config")
        .arg(&path)
        .env_remove("RACK_SIM_PASSWORD")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("rack.yaml") && said.contains("password"),
        "{said}"
    );
}

#[test]
fn every_action_of_the_help_is_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_rack-sim"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, actions) = help.split_once("ACTION is one of").unwrap();
    let mut known = 0;
    for line in actions.lines() {
        let mut rest = line.trim_start();
        // A line has actions first, then words about them.
        while rest.starts_with(['{', '"']) {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let action = values.next().unwrap().unwrap();
            let read: Result<rackhand_tests::rack::Action, _> = serde_json::from_value(action);
            read.unwrap_or_else(|error| panic!("{line}: {error}"));
            known += 1;
            rest = rest[values.byte_offset()..].trim_start();
        }
    }
    assert_eq!(known, 25);
}
