//! Real Pacemaker with `fence_rackhand` in two levels: BMC and outlets (F17).
//!
//! Corosync and Pacemaker run in the foreground, as one node that fences another one which nobody has seen. Pacemaker
//! looks for fence agents in one directory of the system only, so this test needs root, and that name to be free.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rackhand_tests::{
    process::Process,
    rack::{Action, PowerState, ResetType, Rule},
};
use tempfile::TempDir;

use crate::fence_agent::site::Site;

/// Time limit on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Where Pacemaker looks for fence agents.
const AGENT: &str = "/usr/sbin/fence_rackhand";
/// Pacemaker's time limit of the first level: shorter than the 20 s of one request of the agent.
const LIMIT: &str = "12s";

/// A cluster of one node.
struct Cluster {
    pacemaker: Process,
    corosync: Process,
    dir: TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        std::fs::remove_file(AGENT).ok();
    }
}

/// Runs a tool of Pacemaker; returns whether it succeeded, and its output.
async fn tool(program: &str, arguments: &[&str]) -> (bool, String) {
    let run = tokio::process::Command::new(format!("/usr/sbin/{program}"))
        .args(arguments)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, run).await.unwrap();
    let output = output.unwrap_or_else(|error| {
        panic!("{program}: {error}; hack/setup brings the packages corosync and pacemaker")
    });
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

impl Cluster {
    async fn start(program: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        let config = dir.path().join("corosync.conf");
        std::fs::write(&config, COROSYNC).unwrap();
        symlink(program, AGENT).unwrap_or_else(|error| panic!("{AGENT}: {error}"));
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let config = config.display().to_string();
        let command = words(&["/usr/sbin/corosync", "-f", "-c", &config]);
        let corosync = Process::start("corosync", &command, &[], dir.path()).unwrap();
        let log = dir
            .path()
            .join("pacemaker-detail.log")
            .display()
            .to_string();
        let env = [("PCMK_logfile".to_owned(), log)];
        let command = words(&["/usr/sbin/pacemakerd"]);
        let pacemaker = Process::start("pacemaker", &command, &env, dir.path()).unwrap();
        let cluster = Self {
            pacemaker,
            corosync,
            dir,
        };
        cluster.wait_for("Online: [ node-1 ]").await;
        cluster
    }

    /// Waits for a text in the state of the cluster.
    async fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        loop {
            let (_, state) = tool("crm_mon", &["-1"]).await;
            if state.contains(text) {
                return;
            }
            let logs = [self.corosync.log_tail(), self.pacemaker.log_tail()];
            assert!(
                begun.elapsed() < PATIENCE,
                "{text}: {state}\n{}",
                logs.join("\n")
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The devices `bmc` and `outlets` for node-2, which is the host n1, in this order.
    async fn configure(&self, socket: &Path) {
        let device = |id: &str, more: &[(&str, &str)]| {
            let socket = socket.display().to_string();
            let common = [("socket", socket.as_str()), ("pcmk_host_map", "node-2:n1")];
            let pairs = common.iter().chain(more).enumerate();
            let pairs = pairs.map(|(n, (name, value))| {
                format!("<nvpair id='{id}-{n}' name='{name}' value='{value}'/>")
            });
            let pairs: String = pairs.collect();
            format!(
                "<primitive id='{id}' class='stonith' type='fence_rackhand'>\
                 <instance_attributes id='{id}-i'>{pairs}</instance_attributes></primitive>"
            )
        };
        let limits = [
            ("pcmk_off_timeout", LIMIT),
            ("pcmk_reboot_timeout", LIMIT),
            ("pcmk_off_retries", "1"),
            ("pcmk_reboot_retries", "1"),
        ];
        let text = format!(
            "<configuration><crm_config><cluster_property_set id='o'>\
             <nvpair id='o1' name='stonith-enabled' value='true'/>\
             <nvpair id='o2' name='no-quorum-policy' value='ignore'/>\
             </cluster_property_set></crm_config><nodes/><resources>{}{}</resources><constraints/>\
             <fencing-topology><fencing-level id='l1' target='node-2' index='1' devices='bmc'/>\
             <fencing-level id='l2' target='node-2' index='2' devices='outlets'/></fencing-topology>\
             </configuration>",
            device("bmc", &limits),
            device("outlets", &[("device", "outlets")]),
        );
        let file = self.dir.path().join("cib.xml");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let replace = ["--replace", "--scope", "configuration", "--xml-file", &file];
        let (is_done, said) = tool("cibadmin", &replace).await;
        assert!(is_done, "{said}");
        // Their monitor succeeds.
        for id in ["bmc", "outlets"] {
            self.wait_for(&format!("{id}\t(stonith:fence_rackhand):\t Started node-1"))
                .await;
        }
    }

    fn stop(mut self) {
        self.pacemaker.stop(PATIENCE).unwrap();
        self.corosync.stop(PATIENCE).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_pacemaker_goes_to_the_outlets_and_the_killed_level_switches_nothing() {
    let (site, pdu) = Site::with_outlet().await;
    let program: PathBuf = site.program.clone();
    let cluster = Cluster::start(&program).await;
    cluster.configure(&site.socket()).await;
    // While the BMC answers, the first level does it.
    let (is_done, said) = tool("stonith_admin", &["--fence", "node-2", "--timeout", "150"]).await;
    assert!(is_done, "{said}");
    assert_eq!(site.host.counters().received(ResetType::ForceOff), 1);
    let (is_done, said) = tool(
        "stonith_admin",
        &["--unfence", "node-2", "--timeout", "150"],
    )
    .await;
    assert!(is_done, "{said}");
    assert_eq!(site.host.view().power, PowerState::On);
    // Then the BMC hangs: Pacemaker kills the first level at its time limit.
    let rule = Rule::always(Action::Hang);
    let fault = site.host.inject(rule.on("GET", "/redfish/v1/Systems/*"));
    let (is_done, said) = tool("stonith_admin", &["--fence", "node-2", "--timeout", "150"]).await;
    assert!(is_done, "{said}");
    assert!(!pdu.is_on(1), "the second level has cut the outlet");
    // The host is repaired by hand, while nobody remembers the first level.
    let on = site.operator(&["pdu", "on", "n1"]).await;
    assert!(on.contains("confirmed"), "{on}");
    site.host.clear_fault(fault);
    let on = site.operator(&["power", "on", "n1"]).await;
    assert!(on.contains("confirmed"), "{on}");
    let listed = site.operator(&["operations", "list", "--host", "n1"]).await;
    assert!(listed.contains("caller-gone"), "{listed}");
    assert_eq!(
        site.host.counters().received(ResetType::ForceOff),
        1,
        "{listed}"
    );
    assert!(pdu.is_on(1));
    cluster.stop();
    site.ends().await;
}

const COROSYNC: &str = "\
totem {
  version: 2
  cluster_name: rackhand
  transport: udpu
  crypto_cipher: none
  crypto_hash: none
}
nodelist {
  node {
    ring0_addr: 127.0.0.1
    nodeid: 1
    name: node-1
  }
}
quorum {
  provider: corosync_votequorum
  expected_votes: 1
}
logging {
  to_stderr: yes
  to_syslog: no
}
";
