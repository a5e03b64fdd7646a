//! The simulated BMCs as DMTF's own validators see them.
//!
//! `rf_service_validator` judges every document of every make against the schemas, and
//! `rf_protocol_validator` the protocol. What fails there on purpose is in
//! `redfish-protocol-exceptions.txt`, and nothing else may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rackhand_tests::pki::Pki;
use rackhand_tests::rack::redfish::{Profile, Vendor};
use rackhand_tests::rack::{
    BootOverride, HostConfig, HostView, OsState, OverrideLifetime, Rack, RackConfig, ResetType,
    SimHost,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many service validators run at a time: each keeps a processor busy.
const BUSY: usize = 2;

/// How many protocol validators run at a time: they mostly wait for discovery that nobody answers.
const WAITING: usize = Vendor::ALL.len();

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A service has some hundred properties: fewer that pass mean that the validator gave up.
const ENOUGH: u64 = 250;

/// One host of every make, and where reports go.
struct Bench {
    rack: Rack,
    dir: TempDir,
}

impl Bench {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path()).unwrap();
        let hosts = Vendor::ALL.map(|vendor| {
            let mut host = HostConfig::new(name_of(vendor));
            host.bmc.profile = Profile::of(vendor);
            host
        });
        let config = RackConfig {
            name: "rack-a".to_owned(),
            hosts: hosts.to_vec(),
        };
        let rack = Rack::start(config, Some(&pki), None).await.unwrap();
        Self { rack, dir }
    }

    fn host(&self, vendor: Vendor) -> &SimHost {
        self.rack.host(&name_of(vendor)).unwrap()
    }

    fn folder(&self, vendor: Vendor) -> PathBuf {
        let folder = self.dir.path().join(name_of(vendor));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }
}

/// The make as configuration files and the list of exceptions name it.
fn name_of(vendor: Vendor) -> String {
    let name = serde_json::to_value(vendor).unwrap();
    name.as_str().unwrap().to_owned()
}

/// A program of the peers: in `$RACKHAND_PEERS/bin`, or in PATH.
fn peer(name: &str) -> Command {
    let path = std::env::var_os("RACKHAND_PEERS").map_or_else(
        || PathBuf::from(name),
        |peers| Path::new(&peers).join("bin").join(name),
    );
    let mut command = Command::new(path);
    // The validators run on this machine against this machine.
    for name in [
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end, or ends it.
async fn run(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.get_program().to_owned();
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().unwrap_or_else(|error| {
        panic!(
            "{} cannot be started ({error}): put DMTF's redfish-service-validator and \
             redfish-protocol-validator (PyPI) into PATH, or set RACKHAND_PEERS to a folder with \
             bin/ (hack/setup brings them)",
            name.display()
        )
    });
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    ended
        .unwrap_or_else(|_| panic!("{} took longer than {PATIENCE:?}", name.display()))
        .unwrap()
}

/// The folder of the schemas: cargo knows where the crate lies that carries them.
fn schemas() -> PathBuf {
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../hack/peers/schema/Cargo.toml"
    );
    let cargo = |args: &[&str]| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Command::new(cargo)
            .args(args)
            .args(["--locked", "--manifest-path", manifest])
            .output()
            .unwrap()
    };
    let ask = || cargo(&["metadata", "--format-version", "1", "--offline"]);
    let mut known = ask();
    if !known.status.success() {
        let fetched = cargo(&["fetch"]);
        let said = String::from_utf8_lossy(&fetched.stderr);
        assert!(
            fetched.status.success(),
            "cargo fetch of the schemas: {said}"
        );
        known = ask();
    }
    let known: Value = serde_json::from_slice(&known.stdout).unwrap();
    let packages = known["packages"].as_array().unwrap();
    let package = packages
        .iter()
        .find(|package| package["name"] == "nv-redfish-schema")
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().join("redfish-csdl/csdl")
}

/// Gives the validator something to see: an event, and a pending boot source. Returns when the host is up again: a GPU
/// board cannot be read while its host is off.
async fn prepare(host: &SimHost) {
    host.with_settings(|_, settings| {
        settings.boot.pending = Some(BootOverride {
            lifetime: OverrideLifetime::Once,
            target: "Pxe".to_owned(),
            mode: "UEFI".to_owned(),
        });
    });
    host.switch(ResetType::PowerCycle, "a test");
    let is_up = |view: &HostView| view.counters.boots == 1 && view.os == OsState::Running;
    host.wait_for(PATIENCE, "up again", is_up).await.unwrap();
}

async fn service_is_valid(bench: Arc<Bench>, schemas: Arc<TempDir>, vendor: Vendor) {
    prepare(bench.host(vendor)).await;
    let mut command = peer("rf_service_validator");
    command
        .args(["-u", "admin", "-p", "secret", "--authtype", "Basic"])
        .args(["--skipschema", "--nooemcheck", "-r"])
        .arg(bench.host(vendor).bmc_url().unwrap())
        .arg("--schema_directory")
        .arg(schemas.path())
        .arg("--logdir")
        .arg(bench.folder(vendor))
        .current_dir(bench.folder(vendor));
    let output = run(command).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let [passed, failed] = counts(&said);
    assert!(
        output.status.success() && failed == 0 && passed > ENOUGH,
        "{vendor:?}: {passed} passed, {failed} failed\n{}\n{}\n{}",
        failures(&bench.folder(vendor)).join("\n"),
        said.lines().rev().take(20).collect::<Vec<_>>().join("\n"),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// How many passed and failed, from the table at the end.
fn counts(said: &str) -> [u64; 2] {
    let row = said.lines().rev().find_map(|line| {
        let numbers: Vec<u64> = line
            .split('|')
            .filter_map(|cell| plain(cell).trim().parse().ok())
            .collect();
        (numbers.len() == 4).then_some(numbers)
    });
    row.map_or([0, u64::MAX], |row| [row[0], row[2]])
}

/// Without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut coloured = false;
    for letter in text.chars() {
        match letter {
            '\u{1b}' => coloured = true,
            'm' if coloured => coloured = false,
            letter if !coloured => plain.push(letter),
            _ => {}
        }
    }
    plain
}

fn failures(folder: &Path) -> Vec<String> {
    let runs = std::fs::read_dir(folder).unwrap();
    let files = runs.flat_map(|run| std::fs::read_dir(run.unwrap().path()).into_iter().flatten());
    let logs = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.flat_map(|log| {
        let text = std::fs::read_to_string(log).unwrap();
        let lines = text.lines().filter(|line| line.contains("FAIL"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

/// Runs `check` for every make, a few at a time, and panics with what any of them said.
async fn for_every_make<F: Future<Output = ()> + Send + 'static>(
    at_a_time: usize,
    check: impl Fn(Vendor) -> F,
) {
    let turns = Arc::new(Semaphore::new(at_a_time));
    let mut checks = JoinSet::new();
    for vendor in Vendor::ALL {
        let (turns, check) = (Arc::clone(&turns), check(vendor));
        checks.spawn(async move {
            let _turn = turns.acquire_owned().await.unwrap();
            check.await;
        });
    }
    checks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_profile_passes_the_service_validator() {
    let bench = Arc::new(Bench::start().await);
    // The validator writes into the folder of its schemas.
    let copy = Arc::new(TempDir::new().unwrap());
    for file in std::fs::read_dir(schemas()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let check = |vendor| service_is_valid(Arc::clone(&bench), Arc::clone(&copy), vendor);
    for_every_make(BUSY, check).await;
}

/// An assertion that a make fails on purpose.
type Exception = (String, String);

/// The list of exceptions: `assertion make why`.
fn exceptions() -> BTreeSet<Exception> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/redfish-protocol-exceptions.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            assert!(words.len() > 4, "an exception needs a reason: {line}");
            let known = Vendor::ALL.map(name_of).contains(&words[1].to_owned());
            assert!(known, "no such make: {line}");
            (words[0].to_owned(), words[1].to_owned())
        })
        .collect()
}

/// What a make fails, as the validator's table has it.
async fn protocol_failures(bench: &Bench, vendor: Vendor) -> BTreeSet<(String, String)> {
    let folder = bench.folder(vendor);
    let mut command = peer("rf_protocol_validator");
    command
        .args(["-u", "admin", "-p", "secret", "--report-type", "tsv"])
        .args(["--avoid-http-redirect", "-r"])
        .arg(bench.host(vendor).bmc_url().unwrap())
        .arg("--ca-bundle")
        .arg(bench.ca())
        .arg("--report-dir")
        .arg(&folder)
        .current_dir(&folder);
    let output = run(command).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut reports = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let report = reports.find(|path| path.extension().is_some_and(|end| end == "tsv"));
    let report = report.unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{vendor:?}: no report\n{said}\n{errors}")
    });
    let text = std::fs::read_to_string(report).unwrap();
    let mut passed = 0;
    let mut failed = BTreeSet::new();
    for line in text.lines().skip(1) {
        let cells: Vec<_> = line.split('\t').collect();
        match cells[4] {
            "PASS" => passed += 1,
            "FAIL" => {
                failed.insert((cells[0].to_owned(), format!("{vendor:?}: {}", cells[5])));
            }
            _ => {}
        }
    }
    assert!(passed > ENOUGH, "{vendor:?}: only {passed} passed\n{said}");
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_profile_passes_the_protocol_validator_but_for_the_list() {
    let bench = Arc::new(Bench::start().await);
    let found: Arc<std::sync::Mutex<BTreeSet<(Exception, String)>>> = Arc::default();
    for_every_make(WAITING, |vendor| {
        let (bench, found) = (Arc::clone(&bench), Arc::clone(&found));
        async move {
            let failed = protocol_failures(&bench, vendor).await;
            let failed = failed
                .into_iter()
                .map(|(assertion, said)| ((assertion, name_of(vendor)), said));
            found.lock().unwrap().extend(failed);
        }
    })
    .await;
    let found = found.lock().unwrap();
    let listed = exceptions();
    let unlisted: Vec<_> = found
        .iter()
        .filter(|(exception, _)| !listed.contains(exception))
        .collect();
    assert!(
        unlisted.is_empty(),
        "these fail and are not listed: {unlisted:#?}"
    );
    let seen: BTreeSet<_> = found
        .iter()
        .map(|(exception, _)| exception.clone())
        .collect();
    let obsolete: Vec<_> = listed.difference(&seen).collect();
    assert!(
        obsolete.is_empty(),
        "these are listed and do not fail: {obsolete:#?}"
    );
}
