//! Texts of others on the terminal of an operator: what the controller's commands show.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use rackhand_tests::stage::binaries;

/// A name that no API server accepts; files are written by anybody.
const CHECK: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: "check\e[2J\u202e", namespace: machines}
spec: {clusterName: c, selector: {}}
"#;

fn explain(args: &[&str]) -> Output {
    let mut child = Command::new(binaries().unwrap().join("rackhand-controller"))
        .args(["explain", "mhc", "--file", "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(CHECK.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn hidden(text: &str) -> Vec<char> {
    let is_hidden = |c: &char| matches!(c, '\u{1b}' | '\u{202e}');
    text.chars().filter(is_hidden).collect()
}

#[test]
fn escapes_in_the_text_of_an_object_are_shown_and_not_interpreted() {
    for output in ["table", "json", "yaml"] {
        let ran = explain(&["--output", output]);
        let text = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{output}: {text}");
        assert!(hidden(&text).is_empty(), "{output}: {text:?}");
        if output == "table" {
            assert!(text.contains(r"check\u001b[2J\u202e"), "{text:?}");
        }
    }
    // On standard error too.
    let ran = explain(&["other\u{1b}[2J"]);
    let text = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success(), "{text}");
    assert!(text.contains(r"other\u001b[2J"), "{text:?}");
    assert!(hidden(&text).is_empty(), "{text:?}");
}
