//! An engine with a failing journal.

use std::{path::Path, sync::Arc};

use rackhand_agent_core::ledger::Term;
use rackhand_bmc::{Bmc, BmcError, ErrorKind};
use tempfile::TempDir;
use tonic::Code;

use super::Engine;
use crate::{
    config::Config,
    driver::{BmcSpec, Driver},
    journal::storage_faults::{Fault, journal_on_a_disk},
    metrics::Metrics,
};

#[derive(Debug)]
struct NoHardware;

impl Driver for NoHardware {
    fn connect(&self, _: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        Err(BmcError {
            kind: ErrorKind::Unreachable,
            bmc: String::new(),
            message: "none".into(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })
    }
}

#[tokio::test]
async fn failed_journal_makes_the_agent_unready_until_it_recovers() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    let text = "rack = 'r1'\nsocket = 's'\nstate = 's'\nallowed_bmc_networks = ['10.0.0.0/24']\n";
    let config = Config::parse(Path::new("/x/agent.toml"), text, None).unwrap();
    let engine = Engine::start(
        config,
        journal,
        Arc::new(NoHardware),
        Arc::new(Metrics::new()),
    );
    let claim = async |number| {
        let asked = Term {
            number,
            holder: "pod".into(),
            standby: false,
            sequence: 0,
        };
        engine.terms.claim("prod".into(), asked).await
    };
    assert_eq!(claim(3).await.unwrap(), Ok(3));
    assert_eq!(engine.not_ready(), None);

    disk.set(Fault::Full);
    // The leader gets an error for a known term, too: no command would be accepted.
    for term in [4, 3] {
        let refused = claim(term).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains("journal"), "{refused}");
    }
    let why = engine.not_ready().unwrap();
    assert!(
        why.starts_with("the journal cannot be written, so no command is accepted: "),
        "{why}"
    );
    assert!(!engine.journal_status.state().writable);
    assert!(!engine.journal_status.lost().is_cancelled());

    disk.set(Fault::None);
    while engine.not_ready().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(engine.journal_status.state().writable);
    assert_eq!(claim(4).await.unwrap(), Ok(4));
}
