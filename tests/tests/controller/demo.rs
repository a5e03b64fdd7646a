//! The scenarios of the demonstration, run by the built program: exit code and output.
//!
//! The picture of the README and three scenarios are enough here; other tests cover each rule.

use std::{collections::BTreeSet, path::Path, time::Duration};

use tokio::process::Command;

/// Longer than any timeout within a scenario.
const LONG: Duration = Duration::from_secs(400);

struct Shown {
    code: Option<i32>,
    out: String,
    errors: String,
}

/// Runs the program as `hack/demo` does.
async fn demo(arguments: &[&str], dir: &Path, environment: &[(&str, &Path)]) -> Shown {
    let running = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(arguments)
        .arg("--dir")
        .arg(dir.join("demo"))
        .envs(environment.iter().copied())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LONG, running).await;
    let output = output.expect("it ends in time").unwrap();
    Shown {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Shown {
    fn lines(&self) -> Vec<&str> {
        self.out.lines().filter(|line| !line.is_empty()).collect()
    }

    /// Checks that a scenario passed, by the last line.
    fn passed(&self, name: &str, checks: usize) {
        let all = format!("{}\n{}", self.out, self.errors);
        assert_eq!(self.code, Some(0), "{all}");
        let lines = self.lines();
        let last = lines.last().unwrap();
        assert!(last.starts_with(&format!("{name}: passed (")), "{all}");
        let from = lines.iter().position(|line| *line == "checked:").unwrap();
        let checked = &lines[from + 1..lines.len() - 1];
        assert_eq!(checked.len(), checks, "{all}");
        assert!(
            checked.iter().all(|line| line.starts_with("  ok ")),
            "{all}"
        );
    }

    /// Checks that the output contains these texts in this order.
    fn said_in_order(&self, wanted: &[&str]) {
        let mut rest = self.out.as_str();
        for words in wanted {
            let found = rest.find(words);
            let at = found.unwrap_or_else(|| panic!("{words:?} is missing:\n{}", self.out));
            rest = &rest[at + words.len()..];
        }
    }
}

/// The words of one report of the controller: without numbers, the rack, how long a step took, and what the picture
/// cuts off.
fn words(report: &str) -> String {
    let end = report.find(" (").or_else(|| report.find("..."));
    let report = &report[..end.unwrap_or(report.len())];
    let report = report.replace(|c: char| c.is_ascii_digit(), "");
    report.replace("rack-b-", "rack-a-")
}

/// What the controller reports in `docs/demo.svg`.
fn reports_of_picture() -> BTreeSet<String> {
    let picture = include_str!("../../../docs/demo.svg");
    let texts = picture.lines().filter_map(|line| {
        let text = line.strip_prefix("<text ")?.split_once('>')?.1;
        text.strip_suffix("</text>")
    });
    let texts: Vec<&str> = texts.collect();
    let reports = texts.windows(2).filter(|pair| pair[0] == "controller");
    let plain = |text: &str| text.replace("&#x27;", "'").replace("&quot;", "\"");
    reports.map(|pair| words(&plain(pair[1]))).collect()
}

#[tokio::test]
async fn picture_of_demo_shows_what_demo_says() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&[], dir.path(), &[]).await;
    assert_eq!(shown.code, Some(0), "{}\n{}", shown.out, shown.errors);
    let pictured = reports_of_picture();
    assert!(pictured.len() > 8, "{pictured:?}");
    for report in pictured {
        let said = shown.lines().into_iter().any(|line| {
            let (_, said) = line.split_once(" controller ").unwrap_or_default();
            words(said.trim_start()).starts_with(&report)
        });
        assert!(
            said,
            "docs/demo.svg shows {report:?}, the demo does not say it; `hack/demo-picture` draws it anew:\n{}",
            shown.out
        );
    }
}

#[tokio::test]
async fn lying_bmc_scenario_is_shown_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&["--scenario", "lying-bmc"], dir.path(), &[]).await;
    shown.passed("lying-bmc", 10);
    shown.said_in_order(&[
        "LeaseRenewed: ",
        "why (F5): ",
        "$ kubectl -n kube-node-lease get lease ",
        "FenceUnconfirmed: ",
        "Tainting: ",
        "PoweringOn: ",
    ]);
}

#[tokio::test]
async fn blocked_drain_scenario_is_shown_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&["--scenario", "blocked-drain"], dir.path(), &[]).await;
    shown.passed("blocked-drain", 6);
    shown.said_in_order(&[
        "DrainBlocked: ",
        "default/db-0",
        "volume-of-db-0",
        "$ kubectl patch pod db-0 ",
        "$ kubectl delete volumeattachment ",
        "Drained: ",
        "PoweringOn: ",
    ]);
}

#[tokio::test]
async fn node_health_check_scenario_is_shown_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&["--scenario", "nodes"], dir.path(), &[]).await;
    shown.passed("nodes", 14);
    shown.said_in_order(&[
        "$ kubectl api-resources ",
        "| none of Cluster API, none of Metal3",
        "| name = \"bay-1\"",
        "NodeHealthCheck workers is Enabled: 4 of 4 healthy",
        // The first host recovers after a power cycle.
        "DetectedUnhealthy: ",
        "is created from the template quick",
        "NodeHealthCheck workers is Remediating: 3 of 4 healthy; unhealthy: rack-a-",
        "RemediationRemoved: ",
        "NodeHealthCheck workers is Enabled: 4 of 4 healthy",
        // The second host hangs again.
        "is created from the template quick",
        "hangs again while it boots",
        "Escalated: ",
        "is created from the template full",
        "| quick,full ",
        "carries the out-of-service taint",
        "starts on rack-b-",
        "is Ready",
        "NodeHealthCheck workers is Enabled: 4 of 4 healthy",
    ]);
    // The Node is Ready: the check and the kubelet's pods follow at the same moment.
    shown.said_in_order(&["is created from the template quick", "starts here"]);
    // Reported at the same moment as the start of the second step, in any order.
    shown.said_in_order(&["Escalated: ", "from quick has Succeeded=False"]);
}

#[tokio::test]
async fn demo_fails_if_scenario_cannot_run() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = ("RACKHAND_BIN_DIR", dir.path());
    let shown = demo(&["--scenario", "all"], dir.path(), &[nothing]).await;
    assert_eq!(shown.code, Some(1), "{}", shown.out);
    for name in ["dead-bmc", "baremetal-operator"] {
        let summary = shown.lines().into_iter().rfind(|line| line.contains(name));
        assert!(summary.unwrap().contains("FAILED"), "{}", shown.out);
    }
    assert!(shown.errors.contains("dead-bmc"), "{}", shown.errors);
}

#[tokio::test]
async fn demo_lists_scenarios_and_refuses_unknown_names() {
    let dir = tempfile::tempdir().unwrap();
    let listed = demo(&["--scenario", "list"], dir.path(), &[]).await;
    assert_eq!(listed.code, Some(0), "{}", listed.errors);
    assert_eq!(listed.lines().len(), 11, "{}", listed.out);
    let help = demo(&["--help"], dir.path(), &[]).await;
    assert!(help.out.contains(listed.out.trim()), "{}", help.out);
    let unknown = demo(&["--scenario", "flood"], dir.path(), &[]).await;
    assert_eq!(unknown.code, Some(2), "{}", unknown.errors);
    assert!(unknown.errors.contains("lying-bmc"), "{}", unknown.errors);
    // No stage was started for these arguments.
    assert!(!dir.path().join("demo").exists());
}
