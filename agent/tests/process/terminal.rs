//! Texts of others on the terminal of an operator.

use crate::kit::{Altered, Daemon, Redfish, Site, run};

/// Clears the screen of a terminal.
const ESCAPE: &str = "\u{1b}[2J";
/// The model of the BMC in the kit; as long as the escape.
const MODEL: &str = "Test";

/// The driver of the agent omits hidden characters, but the program behind the socket may be another one.
#[test]
fn escapes_in_the_text_of_a_bmc_are_shown_and_not_interpreted() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let altered = Altered::start(&site.dir.path().join("agent.sock"), MODEL, ESCAPE);
    let socket = altered.socket.display().to_string();
    let status = ["power", "status", "node-1", "--socket", &socket];
    for output in ["table", "wide", "json", "yaml"] {
        let ran = run(&site, &[&status[..], &["-o", output]].concat());
        assert_eq!(ran.code, 0, "{output}: {ran:?}");
        assert!(!ran.out.contains('\u{1b}'), "{output}: {ran:?}");
        if matches!(output, "table" | "wide") {
            assert!(ran.out.contains("Rackhand \\u001b[2J"), "{output}: {ran:?}");
        }
    }
    // On standard error too.
    let elsewhere = format!("/nowhere/{ESCAPE}");
    let ran = run(
        &site,
        &["power", "status", "node-1", "--socket", &elsewhere],
    );
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("/nowhere/\\u001b[2J"), "{ran:?}");
    assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    assert_eq!(daemon.stop(), 0);
}
