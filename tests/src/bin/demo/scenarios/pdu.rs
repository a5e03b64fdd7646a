//! The BMC is dead, and two PDUs feed the host: its outlets are cut instead.

use anyhow::{Context as _, Result, ensure};
use rackhand_proto::v1::{OperationInfo, Outcome, OutcomeCode, PowerDevice};
use rackhand_tests::{pdu, rack::PowerState};

use crate::story::{Rule, Story};

pub(super) const ABOUT: &str = "\
A host hangs, and its BMC is dead as well, so that nothing can switch it off by the BMC. Two PDUs feed it, and \
the agent's inventory names the outlet of each. Rackhand tries the BMC first. When that has ended without a \
proof, it cuts both outlets, reads that both are off, and only then lets Kubernetes start the database pod on \
another host. The outlets are on again before anything else is done.";

pub(super) async fn run(mut story: Story<'_>) -> Result<()> {
    let (stage, host, victim) = (story.stage, story.host()?, story.victim.clone());
    let pod = story.pod.clone();
    let pdus = stage.config().pdus.clone().context("no PDU")?;
    let mut outlet = 0;
    for rack in stage.racks() {
        for (place, (name, sim)) in (1..).zip(rack.hosts()) {
            pdus.connect(place, sim, *name == victim);
            if *name == victim {
                outlet = place;
            }
        }
    }
    story.begin("The host hangs");
    host.bmc_dead().await?;
    ensure!(host.hang(), "{victim} was not up");
    story
        .line(
            "fault",
            &format!("{victim} hangs: its kubelet is dead, but {pod} still runs; its BMC is dead"),
        )
        .await;
    story
        .during(stage.wait_warning(&victim, "OutletsOffRunning"))
        .await?;
    story.why(
        Rule::F2,
        "the remediation says which outlets are cut, and why, before the first one is. A controller that takes \
         over knows what to switch on again.",
    );
    let drained = stage.wait_remediation(&victim, "drained", |seen| seen.step == "PoweringOn");
    story.during(drained).await?;
    story.why(
        Rule::F1,
        "both outlets were read off, without current, twice and 2 s apart. One outlet, or a PDU that does not \
         answer, would have proven nothing.",
    );
    story
        .see(&format!("kubectl get pod {pod} -o wide --no-headers"))
        .await?;
    story.back().await?;
    story.why(
        Rule::F9,
        "the outlets are on again, and the host has booted by itself when it got power. Its BMC is still dead: \
         the node decides whether the host is back.",
    );
    story.check_power("in all", &victim, &[pdu::CAUSE], &[pdu::CAUSE]);
    story.check_tainted_once(&victim, false).await;
    let order = bmc_first(&stage.operations("rack-a").await?);
    story.check(
        "the outlets were cut after a power-off by the BMC had failed",
        order,
    );
    let on = pdus.are_on(outlet) == [true, true] && host.real_power() == PowerState::On;
    story.check(
        &format!("both outlets of {victim} are on, and it has power"),
        if on {
            Ok(())
        } else {
            Err(anyhow::anyhow!("they are {:?}", pdus.are_on(outlet)))
        },
    );
    story.check_nothing_left(&victim).await;
    story.check_others(&[&victim]);
    story.verdict()
}

/// Whether each power-off by the outlets was begun after one by the BMC had ended without a confirmation.
fn bmc_first(operations: &[OperationInfo]) -> Result<()> {
    let offs = || operations.iter().filter(|op| op.action == "off");
    let failed = offs().filter_map(|op| {
        let is_failed = |o: &Outcome| o.code() != OutcomeCode::Confirmed;
        let is_of_bmc = op.device() != PowerDevice::Outlets;
        let at = op.ended.as_ref()?;
        (is_of_bmc && op.outcome.as_ref().is_some_and(is_failed)).then_some((at.seconds, at.nanos))
    });
    let failed = failed.min().context("no power-off by the BMC failed")?;
    let mut cut = offs()
        .filter(|op| op.device() == PowerDevice::Outlets)
        .peekable();
    ensure!(cut.peek().is_some(), "no outlet was cut");
    ensure!(
        cut.all(|op| op
            .begun
            .as_ref()
            .is_some_and(|at| (at.seconds, at.nanos) >= failed)),
        "an outlet was cut before that"
    );
    Ok(())
}
