//! The images of hack/image: they are reproducible, and both programs run from them without root on a
//! read-only root file system.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::{
    cluster::{ControlPlane, Parts, apply},
    pki::{CertSpec, Pki},
    process::{Process, free_port},
    repository::{output, root},
    stage::{SYSTEM, binaries, tls_dir, wait_until},
};
use serde_json::{Value, json};

use super::chart::chart;

const LONG: Duration = Duration::from_secs(150);
const USER: u32 = 65532;

/// Script that enters a read-only root file system with these directories, like a container, as the user of
/// the image.
const CONTAINER: &str = r#"
set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc" 2>/dev/null || mount --bind /proc "$0/proc"
for directory in var/lib/rackhand run/rackhand; do
    [ ! -d "$0/$directory" ] || mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs "$0/$directory"
done
mount -o remount,bind,ro "$0"
if touch "$0/written" 2>/dev/null; then echo "the root file system can be written" >&2; exit 1; fi
exec chroot --userspec=65532:65532 "$0" "$@"
"#;

fn build(to: &Path) -> Result<()> {
    let bins = binaries()?;
    let mut command = Command::new(root().join("hack/image"));
    for program in ["controller", "agent"] {
        let path = bins.join(format!("rackhand-{program}"));
        command.arg(format!("--{program}")).arg(path);
    }
    output(command.arg("--output").arg(to)).map(drop)
}

/// All files below a directory.
fn files(dir: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir)?.to_owned();
                found.insert(name, std::fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

/// An image unpacked by umoci, which checks every digest.
struct Unpacked {
    tree: PathBuf,
    config: Value,
}

fn unpack(layout: &Path, image: &str, to: &Path) -> Result<Unpacked> {
    let image = format!("{}:{image}", layout.display());
    output(
        Command::new("umoci")
            .args(["unpack", "--image", &image])
            .arg(to),
    )?;
    let tree = to.join("rootfs");
    // A container runtime creates these.
    for mount in ["proc", "etc/rackhand"] {
        std::fs::create_dir_all(tree.join(mount))?;
    }
    let config = std::fs::read_to_string(to.join("config.json"))?;
    Ok(Unpacked {
        tree,
        config: serde_json::from_str(&config)?,
    })
}

impl Unpacked {
    /// The command that runs the program of the image in it.
    fn command(&self, args: &[&str]) -> Vec<String> {
        let tree = self.tree.display().to_string();
        let program = self.config["process"]["args"][0].as_str();
        let inside = [
            "unshare",
            "--mount",
            "--propagation=private",
            "sh",
            "-c",
            CONTAINER,
        ];
        let words = inside.into_iter().chain([tree.as_str()]).chain(program);
        words
            .chain(args.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    fn check(&self, name: &str) -> Result<()> {
        let user = json!({ "uid": USER, "gid": USER });
        ensure!(self.config["process"]["user"] == user, "{}", self.config);
        let labels = &self.config["annotations"];
        let head = output(
            Command::new("git")
                .arg("-C")
                .arg(root())
                .args(["rev-parse", "HEAD"]),
        )?;
        let revision = labels["org.opencontainers.image.revision"].as_str();
        ensure!(
            revision.is_some_and(|r| r.starts_with(head.trim())),
            "{labels}"
        );
        let version = env!("CARGO_PKG_VERSION");
        ensure!(
            labels["org.opencontainers.image.version"] == version,
            "{labels}"
        );

        let documents = self.tree.join("usr/share/doc").join(name);
        let licences = std::fs::read_to_string(documents.join("LICENSES-OF-CRATES.txt"))?;
        ensure!(licences.contains("\ntokio 1."), "tokio has a licence");
        let bill = documents.join(format!("{name}.cdx.json"));
        validate(&bill)?;
        let bill: Value = serde_json::from_str(&std::fs::read_to_string(bill)?)?;
        let components = bill["components"].as_array().context("no components")?;
        for (crate_, is_in) in [("tokio", true), ("libc", true), ("proptest", false)] {
            let found = components.iter().any(|one| one["name"] == crate_);
            ensure!(found == is_in, "{crate_} in the bill of materials: {found}");
        }
        let roots = std::fs::read_to_string(self.tree.join("etc/ssl/certs/ca-certificates.crt"))?;
        ensure!(roots.matches("BEGIN CERTIFICATE").count() > 50, "CA roots");
        let mut command = self.command(&["--version"]);
        let said = output(Command::new(command.remove(0)).args(command))?;
        ensure!(said.starts_with(&format!("{name} {version}")), "{said}");
        Ok(())
    }
}

/// Validates a bill of materials by the library of CycloneDX.
fn validate(bill: &Path) -> Result<()> {
    const PROGRAM: &str = "import sys; from cyclonedx.validation.json import JsonStrictValidator as V; \
        from cyclonedx.schema import SchemaVersion as S; \
        error = V(S.V1_6).validate_str(open(sys.argv[1]).read()); sys.exit(error and str(error))";
    let peers =
        std::env::var_os("RACKHAND_PEERS").context("RACKHAND_PEERS, as hack/test sets it")?;
    let python = Path::new(&peers).join("bin/python");
    output(Command::new(python).args(["-c", PROGRAM]).arg(bill)).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_reproducible_and_run_rootless_on_read_only_filesystem() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("dpkg-query") {
        println!("this is no Debian: hack/image takes the C library from Debian's packages");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    build(&one).unwrap();
    build(&other).unwrap();
    let (one_files, other_files) = (files(&one).unwrap(), files(&other).unwrap());
    assert!(one_files == other_files, "two builds differ");
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    if user != 0 {
        println!("not root: the images are not unpacked and run");
        return;
    }
    let image = |name: &str| unpack(&one, name, &dir.path().join(name)).unwrap();
    let (controller, agent) = (image("rackhand-controller"), image("rackhand-agent"));
    controller.check("rackhand-controller").unwrap();
    agent.check("rackhand-agent").unwrap();
    agent_serves(&agent, dir.path()).await.unwrap();
    controller_is_ready(&controller, dir.path()).await.unwrap();
}

/// Waits until a program from an image is ready, and ends it.
async fn becomes_ready(mut process: Process, admin: u16) -> Result<()> {
    let url = format!("http://127.0.0.1:{admin}/readyz");
    let ready = wait_until("ready", LONG, || async {
        let status = reqwest::get(&url).await?.status();
        Ok(if status.is_success() {
            Ok(())
        } else {
            Err(status.to_string())
        })
    });
    ready.await.with_context(|| process.log_tail())?;
    let user = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let ids = format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}");
    ensure!(user.lines().any(|line| line == ids), "{user}");
    let ended = process.stop(LONG)?;
    ensure!(ended.success(), "{ended}: {}", process.log_tail());
    Ok(())
}

async fn agent_serves(agent: &Unpacked, dir: &Path) -> Result<()> {
    let admin = free_port()?;
    let config = json!({
        "rack": "r1",
        "socket": "/run/rackhand/agent.sock",
        "state": "/var/lib/rackhand",
        "admin_listen": format!("127.0.0.1:{admin}"),
        "allowed_bmc_networks": ["127.0.0.0/8"],
        "hosts": [],
    });
    std::fs::write(
        agent.tree.join("etc/rackhand/agent.toml"),
        toml::to_string(&config)?,
    )?;
    let process = Process::start("agent", &agent.command(&["serve"]), &[], dir)?;
    becomes_ready(process, admin).await
}

/// Starts the controller with exactly the rights that the chart grants.
async fn controller_is_ready(controller: &Unpacked, dir: &Path) -> Result<()> {
    let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
    let client = plane.client().await?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM },
    });
    apply(&client, namespace).await?;
    for object in chart(&["--set", "crds.standalone=true"]).map_err(anyhow::Error::msg)? {
        apply(&client, object).await?;
    }
    let pki = Pki::new(dir.join("pki"))?;
    let files = pki.issue(&CertSpec::peer(
        "controller",
        "spiffe://rackhand/controller",
    ))?;
    let tls = dir.join("tls");
    tls_dir(&files, &tls)?;
    let etc = controller.tree.join("etc/rackhand");
    for (from, to) in [
        (
            plane.kubeconfig_of(SYSTEM, "rackhand-controller").await?,
            "kubeconfig",
        ),
        (tls.join("ca.crt"), "ca.crt"),
        (tls.join("tls.crt"), "tls.crt"),
        (tls.join("tls.key"), "tls.key"),
    ] {
        std::fs::copy(&from, etc.join(to)).with_context(|| from.display().to_string())?;
        std::os::unix::fs::chown(etc.join(to), Some(USER), Some(USER))?;
    }
    let admin = free_port()?;
    let lease = format!("--lease-namespace={SYSTEM}");
    let address = format!("--admin-address=127.0.0.1:{admin}");
    let args = [
        "--kubeconfig=/etc/rackhand/kubeconfig",
        "--agent-tls-dir=/etc/rackhand",
        &lease,
        &address,
    ];
    let process = Process::start("controller", &controller.command(&args), &[], dir)?;
    becomes_ready(process, admin).await
}
