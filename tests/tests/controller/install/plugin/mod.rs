//! The kubectl plugin as krew installs it: the manifest, and the archive that `hack/package` makes.

mod real_kubectl;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rackhand_tests::{
    cluster::parse_yaml,
    repository::{self, root},
    stage::binaries,
};
use serde_json::Value;

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> String {
    repository::output(command).unwrap()
}

fn manifest(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    parse_yaml(&text).unwrap().remove(0)
}

fn package(controller: &Path, dir: &Path) -> PathBuf {
    let said = output(
        Command::new(root().join("hack/package"))
            .args(["--plugin", "--uri", "https://downloads.example.org/v1/"])
            .arg("--controller")
            .arg(controller)
            .arg("--output")
            .arg(dir),
    );
    PathBuf::from(said.lines().last().unwrap())
}

#[test]
fn krew_finds_in_the_archive_what_the_manifest_names() {
    let dir = tempfile::tempdir().unwrap();
    let controller = binaries().unwrap().join("rackhand-controller");
    let path = package(&controller, dir.path());
    let (shipped, made) = (
        manifest(&root().join("deploy/krew/rackhand.yaml")),
        manifest(&path),
    );

    // The manifest in the repository is that of this version, but for the platform and the checksum.
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(shipped["spec"]["version"], version.as_str());
    for field in ["version", "shortDescription", "description", "caveats"] {
        assert_eq!(shipped["spec"][field], made["spec"][field], "{field}");
    }
    assert_eq!(shipped["metadata"], made["metadata"]);
    assert_eq!(shipped["apiVersion"], made["apiVersion"]);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(made["spec"]["shortDescription"].as_str().unwrap().len() <= 50);

    let platform = &made["spec"]["platforms"][0];
    let arch = platform["selector"]["matchLabels"]["arch"]
        .as_str()
        .unwrap();
    let archive = format!("kubectl-{name}_{version}_linux_{arch}.tar.gz");
    let uri = format!("https://downloads.example.org/v1/{archive}");
    assert_eq!(platform["uri"], uri.as_str());
    let archive = dir.path().join(archive);
    let digest = output(Command::new("sha256sum").arg(&archive));
    let digest = digest.split(' ').next().unwrap();
    assert_eq!(platform["sha256"], digest);

    // Every file that krew copies is there, the plugin under the name that kubectl looks for.
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let mut unpack = Command::new("tar");
    output(
        unpack
            .arg("--extract")
            .arg("--directory")
            .arg(&tree)
            .arg("--file")
            .arg(&archive),
    );
    let files = platform["files"].as_array().unwrap();
    for file in files {
        assert!(
            tree.join(file["from"].as_str().unwrap()).is_file(),
            "{file}"
        );
        assert_eq!(file["to"], ".", "{file}");
    }
    assert_eq!(std::fs::read_dir(&tree).unwrap().count(), files.len());
    let bin = platform["bin"].as_str().unwrap();
    assert_eq!(bin, format!("kubectl-{name}"));
    let help = output(&mut Command::new(tree.join(bin)));
    for command in [
        "status",
        "history",
        "explain",
        "preflight",
        "page",
        "confirm-fenced",
    ] {
        assert!(
            help.contains(&format!("\n  {command}")),
            "{command}: {help}"
        );
    }

    // The same program gives the same archive.
    let again = tempfile::tempdir().unwrap();
    assert_eq!(manifest(&package(&controller, again.path())), made);
}
