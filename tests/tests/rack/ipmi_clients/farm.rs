use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::peer::{PATIENCE, run};

struct BmcFarm {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl BmcFarm {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bmc-farm"));
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("bmc-farm");
        let stdin = child.stdin.take().expect("its input");
        let stdout = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self {
            child,
            stdin,
            stdout,
        }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line()).await;
        line.expect("in time").expect("its output").expect("a line")
    }

    async fn say(&mut self, line: &str) -> String {
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("its input");
        self.line().await
    }
}

/// The port that ends a line of the list.
fn port(line: &str) -> String {
    line.rsplit(':').next().expect("a port").to_owned()
}

#[tokio::test]
async fn the_farm_program_does_what_its_lines_say() {
    let mut farm = BmcFarm::start(&[
        "-n",
        "2",
        "--first",
        "127.0.78.1",
        "--port",
        "0",
        "--dead",
        "1",
    ]);
    let (first, second, ready) = (farm.line().await, farm.line().await, farm.line().await);
    assert!(first.starts_with("0 127.0.78.1:") && second.starts_with("1 127.0.78.2:"));
    assert_eq!(ready, "ready");
    let (one, two) = (port(&first), port(&second));
    let status = async |address: &str, port: &str, patience: &str| {
        let base = [
            "-I", "lanplus", "-H", address, "-p", port, "-U", "admin", "-P", "secret",
        ];
        let rest = [
            "-N", patience, "-R", "1", "-C", "17", "chassis", "power", "status",
        ];
        run("ipmitool", &[&base[..], &rest].concat()).await
    };

    assert!(
        status("127.0.78.1", &one, "10")
            .await
            .done()
            .contains("is on")
    );
    status("127.0.78.2", &two, "1").await.failed();
    assert_eq!(farm.say("alive 1").await, "ok");
    assert!(
        status("127.0.78.2", &two, "10")
            .await
            .done()
            .contains("is on")
    );
    let rule = r#"rule all {"on":{"command":"00/01"},"action":{"report_power":{"on":false}}}"#;
    assert_eq!(farm.say(rule).await, "ok");
    assert!(
        status("127.0.78.1", &one, "10")
            .await
            .done()
            .contains("is off")
    );
    assert_eq!(farm.say("clear 0").await, "ok");
    assert!(
        status("127.0.78.1", &one, "10")
            .await
            .done()
            .contains("is on")
    );
    assert!(
        farm.say("dance 0")
            .await
            .starts_with("error: dance is not understood")
    );
    assert!(
        farm.say("dead 7")
            .await
            .starts_with("error: there is no BMC 7")
    );

    let counters: serde_json::Value =
        serde_json::from_str(&farm.say("counters 0").await).expect("JSON");
    assert_eq!(counters["counters"]["commands"]["00/01"], 3);
    assert_eq!(counters["power"]["offs"], 0);
    farm.stdin.write_all(b"quit\n").await.expect("its input");
    for bmc in 0..2 {
        let last: serde_json::Value = serde_json::from_str(&farm.line().await).expect("JSON");
        assert_eq!(last["bmc"], bmc);
    }
    let ended = tokio::time::timeout(Duration::from_secs(10), farm.child.wait()).await;
    assert!(ended.expect("in time").expect("its end").success());
}
