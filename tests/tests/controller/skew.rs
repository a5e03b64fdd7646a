//! Agents of other versions, on a real control plane.

use anyhow::{Result, ensure};
use kube::Api;
use rackhand_api::kinds::host_history::HostHistory;
use rackhand_tests::{
    pki::CertSpec,
    skew::{Contract, ContractProxy},
    stage::{HostLink, LONG, RackSpec, Scenarios, Stage, StageConfig, wait_until},
};

const OLD: &str = "old";
const FROZEN: &str = "frozen";

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_other_versions_are_used_or_must_be_upgraded() {
    let dir = tempfile::tempdir().unwrap();
    let racks = [FROZEN, OLD].map(|name| RackSpec::new(name, 1, HostLink::Inventory));
    let stage = Stage::start(dir.path(), StageConfig::steady(racks.into(), &[]))
        .await
        .unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    let frozen = agent_of(stage, FROZEN, Contract::v0_1()?).await?;
    let _old = agent_of(stage, OLD, Contract::without_clock()?).await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    let mut all = Scenarios::new();
    all.add("an_agent_of_version_0_1_is_used", used(stage, &frozen));
    all.add("f6_an_agent_without_a_clock_is_not", refused(stage));
    all.run().await
}

/// Another version in front of the agent of a rack.
async fn agent_of(stage: &Stage, rack: &str, contract: Contract) -> Result<ContractProxy> {
    let server = CertSpec::peer(
        format!("proxy-{rack}"),
        format!("spiffe://rackhand/rack/{rack}"),
    );
    let client = CertSpec::peer(format!("to-{rack}"), "spiffe://rackhand/controller");
    let (server, client) = (stage.issue(&server)?, stage.issue(&client)?);
    let upstream = stage.agent_endpoint(rack)?;
    let proxy = ContractProxy::start(contract, rack, &upstream, (&server, &client)).await?;
    stage.apply_rack_agent(rack, proxy.address()).await?;
    Ok(proxy)
}

async fn used(stage: &Stage, agent: &ContractProxy) -> Result<()> {
    stage.wait_connected(FROZEN, "Connected").await?;
    ensure!(agent.calls("ListHosts") > 0, "hosts are listed");
    ensure!(stage.host("frozen-1")?.hang(), "up");
    stage
        .wait_remediation("frozen-1", "it is requested", |_| true)
        .await?;
    stage.wait_back("frozen-1").await?;
    stage.one_cycle("frozen-1")?;
    // It cannot collect evidence, which delays nothing.
    wait_until("the history names what is missing", LONG, || async {
        let client = stage.plane().client().await?;
        let objects: Api<HostHistory> = Api::all(client);
        let found = objects.get_opt("frozen.frozen-1").await?;
        let all = found
            .and_then(|h| h.status)
            .unwrap_or_default()
            .remediations;
        let mut missing = all
            .iter()
            .flat_map(|r| &r.evidence)
            .flat_map(|e| &e.missing);
        let told = missing.any(|why| why.contains("too old to collect evidence"));
        Ok(if told {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        })
    })
    .await
}

async fn refused(stage: &Stage) -> Result<()> {
    stage.wait_connected(OLD, "UpgradeRequired").await?;
    ensure!(stage.host("old-1")?.hang(), "up");
    let seen = stage.wait_blocked("old-1", "AgentUnreachable").await?;
    ensure!(
        seen.message.contains("upgrade this agent"),
        "{}",
        seen.message
    );
    stage.untouched("old-1")?;
    let upgraded = agent_of(stage, OLD, Contract::today()?).await?;
    stage.wait_back("old-1").await?;
    // An agent that answers a claim with its hosts is asked only once in each interval.
    let calls = ["ClaimTerm", "ListHosts"].map(|method| upgraded.calls(method));
    ensure!(calls[0] > 0 && calls[1] == 0, "calls: {calls:?}");
    stage.one_cycle("old-1")
}
