//! The scenarios of the demonstration, run by the built program: exit code and output.
//!
//! The picture of the README and three scenarios are enough here; other tests cover each rule.

use std::{path::Path, time::Duration};

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

/// Who takes part in the demonstration, by the second column of its table.
const WHO: [&str; 6] = [
    "demo",
    "kubernetes",
    "controller",
    "BMC",
    "host",
    "evidence",
];

/// A line of the table.
#[derive(Debug, Clone)]
struct Line {
    at: f64,
    who: String,
    what: String,
}

impl Line {
    /// Whether it is a state that lasts so short that a watch may miss it.
    fn is_brief(&self) -> bool {
        ["pod db-0 is to end on VICTIM", "node VICTIM: Ready=False"]
            .iter()
            .any(|brief| self.what.starts_with(brief))
    }

    /// Whether both are the same event of different runs. The picture cuts long lines off.
    fn is_like(&self, other: &Self) -> bool {
        let (mine, others) = (shape(&self.what), shape(&other.what));
        self.who == other.who && (mine.starts_with(&others) || others.starts_with(&mine))
    }
}

/// Names the hosts by their parts, because the scheduler chooses them: the one that hangs, and others.
fn with_parts(mut lines: Vec<Line>) -> Vec<Line> {
    let first = lines.first().map(|line| line.what.clone());
    let first = first.unwrap_or_default();
    let victim = first.split(' ').next().unwrap_or_default();
    for line in &mut lines {
        line.what = line.what.replace(victim, "VICTIM");
        for rack in ["rack-a-", "rack-b-"] {
            for number in 1..=4 {
                line.what = line.what.replace(&format!("{rack}{number}"), "ANOTHER");
            }
        }
    }
    lines
}

/// What of a line is the same in each run: neither how long a step took, nor times, ports and ids.
fn shape(what: &str) -> String {
    let whole = what.len();
    let end = what.find("...").unwrap_or(whole);
    let what = &what[..end];
    // The picture may have cut it off within the time that a step took.
    let end = what
        .rfind(" (")
        .filter(|at| what[*at..].contains(" took ") || end < whole);
    let words = what[..end.unwrap_or(what.len())].split(' ');
    let words = words.map(|word| match word {
        _ if word.starts_with("redfish://") => "BMC".to_owned(),
        _ if word.starts_with(|c: char| c.is_ascii_digit()) && word.contains(':') => {
            "TIME".to_owned()
        }
        _ => word.to_owned(),
    });
    let text = words.collect::<Vec<_>>().join(" ");
    match text.split_once("boot id ") {
        Some((before, _)) => format!("{before}boot id"),
        None => text,
    }
}

fn seconds(text: &str) -> Option<f64> {
    text.strip_suffix(" s")?.trim_start().parse().ok()
}

/// The table in the output of the program.
fn lines_of_output(out: &str) -> Vec<Line> {
    let lines = out.lines().filter_map(|line| {
        let (at, rest) = line.trim_start().split_once("  ")?;
        let (who, what) = rest.trim_start().split_once(' ')?;
        Some(Line {
            at: seconds(at)?,
            who: who.to_owned(),
            what: what.trim_start().to_owned(),
        })
    });
    let lines = lines.filter(|line| WHO.contains(&line.who.as_str()));
    with_parts(lines.collect())
}

/// The texts of `docs/demo.svg`, in their order.
fn texts_of_picture() -> Vec<String> {
    let picture = include_str!("../../../../docs/demo.svg");
    let texts = picture.lines().filter_map(|line| {
        let text = line.strip_prefix("<text ")?.split_once('>')?.1;
        text.strip_suffix("</text>")
    });
    let plain = |text: &str| {
        let text = text.replace("&#x27;", "'").replace("&quot;", "\"");
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    };
    texts.map(plain).collect()
}

fn lines_of_picture() -> Vec<Line> {
    let texts = texts_of_picture();
    let lines = texts.windows(3).filter_map(|row| {
        Some(Line {
            at: seconds(&row[0])?,
            who: WHO.contains(&row[1].as_str()).then(|| row[1].clone())?,
            what: row[2].clone(),
        })
    });
    with_parts(lines.collect())
}

/// Labels and durations of the summary below the table.
fn durations_of_picture() -> Vec<(String, f64)> {
    let texts = texts_of_picture();
    let rows = texts.windows(2).filter(|row| row[0].starts_with("from "));
    rows.filter_map(|row| Some((row[0].clone(), seconds(&row[1])?)))
        .collect()
}

/// Finds the first line with these words, and its time.
fn time_of(lines: &[Line], words: &str) -> f64 {
    let found = lines.iter().find(|line| line.what.contains(words));
    found.unwrap_or_else(|| panic!("no line has {words:?}")).at
}

/// The picture agrees with itself: each duration that it names is that between two of its lines.
#[test]
fn durations_in_picture_of_demo_are_those_between_its_lines() {
    let lines = lines_of_picture();
    assert!(lines.is_sorted_by_key(|line| line.at), "{lines:?}");
    let at = |words: &str| time_of(&lines, words);
    let confirmed = lines.iter().find(|line| line.who == "evidence").unwrap().at;
    let named = durations_of_picture();
    let duration = |label: &str| {
        let found = named.iter().find(|(text, _)| text.contains(label));
        found
            .unwrap_or_else(|| panic!("no {label:?} in {named:?}"))
            .1
    };
    for (label, between) in [
        ("to the confirmed power-off", confirmed),
        ("to the pod running again", at("is Running on")),
        ("to the node being Ready", at("Ready=True")),
        (
            "from the taint to the pod starting",
            at("db-0 started on") - at("carries the out-of-service taint"),
        ),
    ] {
        let shown = duration(label);
        assert!(
            (shown - between).abs() < 0.025,
            "{label}: {shown}, not {between:.2}"
        );
    }
    assert!(duration("from the deadline") < at("received ForceOff"));
    assert_eq!(named.len(), 5, "{named:?}");
}

#[tokio::test]
async fn picture_of_demo_shows_what_demo_says() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&[], dir.path(), &[]).await;
    assert_eq!(shown.code, Some(0), "{}\n{}", shown.out, shown.errors);
    let (pictured, said) = (lines_of_picture(), lines_of_output(&shown.out));
    let missing = |lines: &[Line], of: &[Line]| -> Vec<String> {
        let missing = lines
            .iter()
            .filter(|line| !line.is_brief() && !of.iter().any(|other| line.is_like(other)));
        missing
            .map(|line| format!("{}: {}", line.who, line.what))
            .collect()
    };
    let none = Vec::<String>::new();
    let hint = "`hack/demo-picture` draws docs/demo.svg anew";
    assert_eq!(
        missing(&pictured, &said),
        none,
        "not said by the demo; {hint}:\n{}",
        shown.out
    );
    assert_eq!(
        missing(&said, &pictured),
        none,
        "not in the picture; {hint}:\n{}",
        shown.out
    );
    assert!(said.len() > 25, "{said:?}");
    for (label, _) in durations_of_picture() {
        let label = label.split(", on ").next().unwrap();
        assert!(
            shown.out.contains(label),
            "{label:?} is not said; {hint}:\n{}",
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
        "Tainted: ",
        "receives the command to switch on",
    ]);
}

#[tokio::test]
async fn power_lost_scenario_is_shown_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let shown = demo(&["--scenario", "power-lost"], dir.path(), &[]).await;
    shown.passed("power-lost", 7);
    shown.said_in_order(&[
        "loses its power",
        "Tainted: ",
        "why (F1): ",
        "Without it: ",
        "its kubelet starts",
        "with the signal, ",
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
        "receives the command to switch on",
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
    // Reported at the same moment as the end of the first step, in any order.
    shown.said_in_order(&["from quick has Succeeded=False"]);
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
    assert_eq!(listed.lines().len(), 16, "{}", listed.out);
    let help = demo(&["--help"], dir.path(), &[]).await;
    assert!(help.out.contains(listed.out.trim()), "{}", help.out);
    let unknown = demo(&["--scenario", "flood"], dir.path(), &[]).await;
    assert_eq!(unknown.code, Some(2), "{}", unknown.errors);
    assert!(unknown.errors.contains("lying-bmc"), "{}", unknown.errors);
    // No stage was started for these arguments.
    assert!(!dir.path().join("demo").exists());
}
