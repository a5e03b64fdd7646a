//! Watches that are lost while a check is evaluated.

use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::*;
use crate::store::metrics::render;

const MINUTE: Duration = Duration::from_secs(60);
const API_OF_OPENSHIFT: &str = "/apis/machine.openshift.io";

impl Fixture {
    /// Applies what watches report until `holds`. Returns the virtual time that it took. The timers of the engine
    /// are those of the real clock, and do not run.
    async fn run_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let began = Instant::now();
        loop {
            let CheckEngine {
                dialect,
                parts,
                events,
            } = &mut self.engine;
            dialect.apply(parts, self.inbox.drain());
            while let Ok(event) = events.try_recv() {
                dialect.handle_event(parts, event);
            }
            dialect.evaluate(parts);
            if holds(self) {
                return began.elapsed();
            }
            assert!(began.elapsed() < 5 * MINUTE, "{what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn set_outages(&self, outage: Outage, paths: &[&str]) {
        let mut told = self.server.0.lock();
        told.outages = paths.iter().map(|p| ((*p).to_owned(), outage)).collect();
    }

    /// Reason and message of the condition `Disabled`, as evaluated last.
    fn disabled(&self) -> Option<(String, String)> {
        let check = self.engine.dialect.checks.get(&Key::new("", "c"))?;
        let (flag, reason, message) = check.memory.disabled.clone()?;
        flag.on.then_some((reason, message))
    }

    /// Whether the last evaluation has found this Node unhealthy.
    fn is_unhealthy(&self, node: &str) -> bool {
        let check = self.engine.dialect.checks.get(&Key::new("", "c"));
        check.is_some_and(|check| check.memory.nodes.contains_key(node))
    }

    fn is_lost(&self, watch: &str) -> bool {
        self.index.lost_watches().iter().any(|(of, _)| of == watch)
    }
}

/// The MachineHealthCheck that handles terminating Nodes only, so that it conflicts with no check of Nodes.
fn terminating() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": { "name": "m", "namespace": "ns", "uid": "m", "resourceVersion": "1" },
        "spec": { "unhealthyConditions": [{ "type": "Terminating" }] },
    })
}

#[tokio::test(start_paused = true)]
async fn f12_machine_health_checks_of_openshift_that_are_lost_disable_checks_within_a_minute() {
    let denied: &[&str] = &["/apis/machine.openshift.io/v1beta1/machinehealthchecks"];
    let not_ready: &[&str] = &[API_OF_OPENSHIFT, "/apis", "/readyz"];
    for (outage, paths, served, told) in [
        (Outage::Denied, denied, true, "no"),
        (
            Outage::NotServed,
            &[API_OF_OPENSHIFT][..],
            false,
            "serves no version",
        ),
        (Outage::NotReady, not_ready, true, ""),
    ] {
        let mut rig = Fixture::new(&[("a", "True")]).await;
        {
            let mut told = rig.server.0.lock();
            told.openshift = true;
            let at = format!("{OPENSHIFT_CHECKS_OF_NS}/m");
            told.objects.insert(at, terminating());
        }
        rig.put_check("c", &json!({}));
        rig.settle().await;
        assert_eq!(rig.disabled(), None, "{outage:?}");
        assert!(rig.engine.dialect.openshift.spares_terminating());

        rig.server.0.lock().openshift = served;
        rig.set_outages(outage, paths);
        let what = format!("{outage:?}: the check counts as free of conflicts");
        let took = rig.run_until(&what, |rig| rig.disabled().is_some()).await;
        assert!(took <= MINUTE, "{outage:?}: {took:?}");
        let (reason, message) = rig.disabled().unwrap();
        assert_eq!(reason, "ConflictingMachineHealthCheckDetected");
        let what = format!("{outage:?}: {told}");
        rig.run_until(&what, |rig| {
            rig.disabled()
                .is_some_and(|(_, message)| message.contains(told))
        })
        .await;
        assert!(message.contains("are unknown"), "{message}");
        assert!(rig.is_lost("OpenShiftMachineHealthCheck"), "{outage:?}");

        rig.server.0.lock().openshift = true;
        rig.set_outages(outage, &[]);
        let what = format!("{outage:?}: it is watched again");
        rig.run_until(&what, |rig| rig.disabled().is_none()).await;
        assert!(!rig.is_lost("OpenShiftMachineHealthCheck"), "{outage:?}");
        assert!(rig.engine.dialect.openshift.spares_terminating());
    }
}

#[tokio::test(start_paused = true)]
async fn f12_lost_watches_of_templates_leases_and_remediations_are_reported_within_a_minute() {
    let mut rig = Fixture::with_check(&[("a", "True")]).await;
    let mut registry = Registry::default();
    rig.index.register_metrics(&mut registry);
    rig.settle().await;
    assert_eq!(rig.index.lost_watches(), []);
    let watches = [
        ("Lease", "Lease in medik8s-leases"),
        ("XRemediation", "XRemediation in ns"),
        ("XRemediationTemplate", "XRemediationTemplate in ns"),
    ];
    let value = |kind: &str, value: u8| {
        let line = format!("rackhand_watches_lost{{kind=\"{kind}\"}} {value}");
        render(&registry).lines().any(|told| told == line)
    };
    rig.set_outages(Outage::Denied, &[LEASES, "/apis/x.y/v1/namespaces"]);
    let all = |rig: &Fixture| watches.iter().all(|(_, watch)| rig.is_lost(watch));
    let took = rig.run_until("all are lost", all).await;
    assert!(took <= MINUTE, "{took:?}");
    for (kind, _) in watches {
        assert!(value(kind, 1), "{kind}: {}", render(&registry));
    }
    // A Node fails meanwhile. Whether a remediation of it exists is unknown.
    rig.put_node("a", "False");
    let began = Instant::now();
    rig.run_until("time passes", |_| began.elapsed() > MINUTE)
        .await;
    assert!(!rig.is_unhealthy("a"), "it was evaluated");

    rig.set_outages(Outage::Denied, &[]);
    rig.run_until("nothing is lost", |rig| rig.index.lost_watches().is_empty())
        .await;
    for (kind, _) in watches {
        assert!(value(kind, 0), "{kind}: {}", render(&registry));
    }
    rig.run_until("it is evaluated", |rig| rig.is_unhealthy("a"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn f12_loss_of_a_kind_is_withdrawn_once_no_check_names_it() {
    let mut rig = Fixture::with_check(&[("a", "True")]).await;
    rig.settle().await;
    rig.set_outages(Outage::Denied, &["/apis/x.y/v1/namespaces"]);
    let lost = ["XRemediation in ns", "XRemediationTemplate in ns"];
    rig.run_until("both are lost", |rig| {
        lost.iter().all(|watch| rig.is_lost(watch))
    })
    .await;
    rig.index.delete(Kind::NodeHealthCheck, &Key::new("", "c"));
    rig.run_until("neither is watched", |rig| {
        rig.index.lost_watches().is_empty()
    })
    .await;
}
