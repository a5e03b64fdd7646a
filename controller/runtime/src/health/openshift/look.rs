//! One look at a check: its fleet, as it is known now, and what follows.
//!
//! Must never judge: the plan and the step of a mark are `rackhand_core::health`'s.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::{
        BARE_METAL_HOST_ANNOTATION, DRY_RUN_ANNOTATION, OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION,
        OPENSHIFT_MACHINE_ROLE_LABEL,
    },
    views::{MachineView, Meta, OpenShiftHealthCheckView},
};
use rackhand_core::health::{
    Claim, ExternalStep, IntOrPercent, NodeView, OpenShiftCheck, OpenShiftMachine, OpenShiftPlan,
    OpenShiftStrategy, OpenShiftTarget, RequestView, Tally, Verdict, acting, external_step,
    plan_openshift,
};

use super::{
    super::{Context, facts, others::Others, queue::Item, shared::Shared, source::Source},
    act::Act,
    external::{self, Mark},
};
use crate::{
    index::{Entry, Index},
    object::{Key, Kind},
};

/// The phase of a Machine that can never work.
const FAILED: &str = "Failed";
const MASTER: &str = "master";

/// What a check says.
pub(super) struct Spec {
    pub(super) object: Arc<DynamicObject>,
    pub(super) view: Arc<OpenShiftHealthCheckView>,
    pub(super) rules: OpenShiftCheck,
    pub(super) source: Source,
    pub(super) dry_run: bool,
}

/// A check, read.
pub(super) enum Read {
    /// It is going, or not ours.
    NotOurs,
    /// Nothing at all is done about it, its status included.
    Paused,
    /// It does not read: why.
    Invalid(String),
    /// It is evaluated.
    Spec(Spec),
}

/// What follows from a look.
pub(super) struct Look {
    pub(super) plan: OpenShiftPlan,
    pub(super) acts: BTreeMap<Arc<str>, Act>,
    /// The Machines that do not read: they are left out.
    pub(super) unread: Vec<(Key, String)>,
}

// === impl Spec ===

impl Spec {
    pub(super) fn read(
        context: &Context,
        key: &Key,
        entry: &Entry<OpenShiftHealthCheckView>,
    ) -> Read {
        let meta = Meta::of(&entry.object);
        if !context.mine.evaluates(&meta) || meta.is_deleting() {
            return Read::NotOurs;
        }
        if context.mine.paused(&meta) {
            return Read::Paused;
        }
        let view = match &entry.view {
            Ok(view) => view.clone(),
            Err(error) => return Read::Invalid(error.to_string()),
        };
        let rules = rules(&view);
        let source = match rules.strategy {
            OpenShiftStrategy::Template => {
                Source::of(&key.namespace, view.remediation_template.as_ref())
            }
            // Until the request of a mark is gone its Machine counts (F10).
            OpenShiftStrategy::ExternalBaremetal => Source::Index(Kind::PowerRemediation),
            OpenShiftStrategy::Delete => Source::Nowhere,
        };
        Read::Spec(Self {
            object: entry.object.clone(),
            rules,
            source,
            dry_run: meta.is_annotated_true(DRY_RUN_ANNOTATION),
            view,
        })
    }

    /// What this check brings forward for one of its Machines.
    fn claim(
        &self,
        context: &Context,
        others: &Others,
        name: &Key,
        machine: &MachineView,
    ) -> Claim {
        let uid = &machine.meta.uid;
        let request = self.source.request(context, others, name, uid);
        claim(&self.view, &self.rules, self.dry_run, &request, machine)
    }

    /// Looks at the fleet. `creating`: Machines whose request may have been made.
    pub(super) fn look(
        &self,
        context: &Context,
        others: &Others,
        creating: &BTreeSet<Item>,
        key: &Key,
        now: Timestamp,
    ) -> Look {
        let index = &context.index;
        let away = facts::unreachable(index, &Key::local());
        let (mut fleet, mut marks, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (name, entry) in index.openshift_machines(&key.namespace) {
            let view = match entry.view {
                Ok(view) => view,
                Err(error) => {
                    unread.push((name, error.to_string()));
                    continue;
                }
            };
            if !self.view.selector.matches(&view.meta.labels) {
                continue;
            }
            let facts = machine(&view);
            let mut request = self.source.request(context, others, &name, &facts.uid);
            let item = Item::new(key, &name.name.as_str().into());
            if request == RequestView::None && creating.contains(&item) {
                request = RequestView::Open;
            }
            if self.rules.strategy == OpenShiftStrategy::ExternalBaremetal {
                marks.push((
                    item.machine,
                    external::mark(index, &name, &facts.uid),
                    view.clone(),
                ));
            }
            fleet.push(OpenShiftTarget {
                node: node(index, &view, away.as_deref()),
                machine: facts,
                request,
            });
        }
        let plan = plan_openshift(&self.rules, &fleet, now);
        let mut acts = BTreeMap::new();
        for (name, mark, view) in marks {
            let verdict = plan.verdicts.get(&*name);
            let step = mark_step(&view, &mark, verdict, reprovisionable(index, &view));
            if step != ExternalStep::Nothing {
                acts.insert(name, Act::Mark(step, view.meta.uid.clone(), mark.request));
            }
        }
        for action in &plan.actions {
            acts.insert(action.machine().into(), Act::Plan(action.clone()));
        }
        Look { plan, acts, unread }
    }
}

/// Which of several checks acts for each Machine that they select.
pub(super) fn share(context: &Context, others: &Others, specs: &[(Key, Spec)]) -> Shared {
    let mut claims: BTreeMap<Key, Vec<(&Key, Claim)>> = BTreeMap::new();
    for (check, spec) in specs.iter().filter(|_| specs.len() > 1) {
        for (name, entry) in context.index.openshift_machines(&check.namespace) {
            let view = entry.view.ok();
            if let Some(view) = view.filter(|v| spec.view.selector.matches(&v.meta.labels)) {
                let claim = spec.claim(context, others, &name, &view);
                claims.entry(name).or_default().push((check, claim));
            }
        }
    }
    let mut shared = Shared::default();
    for (machine, claims) in claims {
        let (checks, claims): (Vec<&Key>, Vec<Claim>) = claims.into_iter().unzip();
        let acts = acting(&claims).and_then(|place| checks.get(place).map(|key| (*key).clone()));
        shared.set(&machine, checks.into_iter().cloned().collect(), acts);
    }
    shared
}

/// What a check brings forward for one of its Machines.
pub(super) fn claim(
    check: &OpenShiftHealthCheckView,
    rules: &OpenShiftCheck,
    dry_run: bool,
    request: &RequestView,
    machine: &MachineView,
) -> Claim {
    let marked = rules.strategy == OpenShiftStrategy::ExternalBaremetal
        && machine
            .meta
            .has_annotation(OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION);
    Claim {
        created: check.meta.created,
        name: check.meta.name.clone(),
        able: !dry_run,
        requested: marked || matches!(request, RequestView::Open | RequestView::Deleting),
    }
}

/// The next step of the mark of a Machine.
pub(super) fn mark_step(
    view: &MachineView,
    mark: &Mark,
    verdict: Option<&Verdict>,
    reprovisionable: bool,
) -> ExternalStep {
    let healthy = verdict == Some(&Verdict::Healthy);
    match external_step(&machine(view), &mark.carried(healthy), reprovisionable) {
        // Somebody else's request is not ours to withdraw, and one that is going goes by itself.
        ExternalStep::Withdraw if !mark.is_withdrawable() => ExternalStep::Nothing,
        step => step,
    }
}

/// Whether the host of a Machine can be given another system.
fn reprovisionable(index: &Index, view: &MachineView) -> bool {
    let named = view.meta.annotations.get(BARE_METAL_HOST_ANNOTATION);
    let host = named.and_then(|name| index.host(&Key::parse(name)));
    host.and_then(|entry| entry.view.ok())
        .is_some_and(|host| !host.externally_provisioned)
}

pub(super) fn rules(view: &OpenShiftHealthCheckView) -> OpenShiftCheck {
    let startup = view
        .node_startup_timeout
        .unwrap_or(facts::DEFAULT_STARTUP_TIMEOUT);
    OpenShiftCheck {
        startup_timeout: (!startup.is_zero()).then_some(startup),
        node_conditions: view.node_checks.iter().map(facts::rule).collect(),
        max_unhealthy: match view.max_unhealthy {
            Ok(Some(limit)) => Some(facts::int_or_percent(limit)),
            Ok(None) => Some(IntOrPercent::Percent(100)),
            Err(_) => None,
        },
        strategy: match (&view.remediation_template, view.external_baremetal) {
            (Some(_), _) => OpenShiftStrategy::Template,
            (None, true) => OpenShiftStrategy::ExternalBaremetal,
            (None, false) => OpenShiftStrategy::Delete,
        },
        paused: false,
    }
}

pub(super) fn machine(view: &MachineView) -> OpenShiftMachine {
    let meta = &view.meta;
    let words = [&view.failure_reason, &view.failure_message];
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let why = if words.is_empty() {
        format!("phase {FAILED}")
    } else {
        words.join(": ")
    };
    OpenShiftMachine {
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        failed: (view.phase.as_deref() == Some(FAILED)).then_some(why),
        last_updated: view.last_updated,
        deleting: meta.is_deleting(),
        controlled: meta.owners.iter().any(|owner| owner.controller),
        master: meta
            .labels
            .get(OPENSHIFT_MACHINE_ROLE_LABEL)
            .map(String::as_str)
            == Some(MASTER),
        external_remediation: meta.has_annotation(OPENSHIFT_EXTERNAL_REMEDIATION_ANNOTATION),
    }
}

fn node(index: &Index, view: &MachineView, away: Option<&str>) -> NodeView {
    match (away, &view.node_name) {
        (Some(why), name) => NodeView::Unreachable {
            why: why.into(),
            joined: name.is_some(),
        },
        (None, name) => facts::node(index, &Key::local(), name.as_deref()),
    }
}

// === impl Look ===

impl Look {
    /// The Machines, counted as for checks of Cluster API.
    pub(super) fn tally(&self) -> Tally {
        let unhealthy = self.plan.verdicts.values();
        let unhealthy = unhealthy.filter(|v| matches!(v, Verdict::Unhealthy { .. }));
        Tally {
            expected: self.plan.expected,
            healthy: self.plan.healthy,
            unhealthy: u32::try_from(unhealthy.count()).unwrap_or(u32::MAX),
            not_healthy: self.plan.expected.saturating_sub(self.plan.healthy),
        }
    }

    /// How many Machines are unhealthy by each first cause.
    pub(super) fn causes(&self) -> BTreeMap<&'static str, u32> {
        let labels = rackhand_core::health::Cause::LABELS;
        let mut causes: BTreeMap<&'static str, u32> = labels.into_iter().map(|l| (l, 0)).collect();
        for verdict in self.plan.verdicts.values() {
            if let Verdict::Unhealthy { causes: found } = verdict
                && let Some(count) = found.first().and_then(|c| causes.get_mut(c.label()))
            {
                *count = count.saturating_add(1);
            }
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn check(annotations: &Value, spec: &Value) -> OpenShiftCheck {
        let object = object(json!({
            "metadata": { "name": "c", "annotations": annotations }, "spec": spec,
        }));
        rules(&OpenShiftHealthCheckView::from_dynamic(&object).unwrap())
    }

    #[test]
    fn what_a_check_leaves_out_is_openshifts_default() {
        let plain = check(&json!({}), &json!({ "selector": {} }));
        assert_eq!(plain.startup_timeout, Some(Duration::from_secs(600)));
        assert_eq!(plain.max_unhealthy, Some(IntOrPercent::Percent(100)));
        assert_eq!(plain.strategy, OpenShiftStrategy::Delete);
        let spec = json!({ "nodeStartupTimeout": "0", "maxUnhealthy": "3", "selector": {} });
        let never = check(&json!({}), &spec);
        assert_eq!((never.startup_timeout, never.max_unhealthy), (None, None));
        let external = json!({ "machine.openshift.io/remediation-strategy": "external-baremetal" });
        assert_eq!(
            check(&external, &json!({})).strategy,
            OpenShiftStrategy::ExternalBaremetal
        );
        let template = json!({ "remediationTemplate": {
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate", "name": "t",
        }});
        assert_eq!(
            check(&external, &template).strategy,
            OpenShiftStrategy::Template,
            "a template counts more"
        );
    }

    #[test]
    fn a_machine_is_read_as_openshift_writes_it() {
        let read = |value: Value| machine(&MachineView::from_dynamic(&object(value)).unwrap());
        let plain = read(json!({ "metadata": { "name": "m", "uid": "u" } }));
        assert!(plain.failed.is_none() && !plain.controlled && !plain.master);
        let owner = |controller: bool| json!([{ "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "s", "uid": "x", "controller": controller }]);
        let full = read(json!({
            "metadata": {
                "name": "m", "uid": "u", "ownerReferences": owner(true),
                "labels": { "machine.openshift.io/cluster-api-machine-role": "master" },
                "annotations": { "host.metal3.io/external-remediation": "" },
            },
            "status": { "phase": "Failed", "errorReason": "CreateError", "errorMessage": "no host" },
        }));
        assert_eq!(full.failed.as_deref(), Some("CreateError: no host"));
        assert!(full.controlled && full.master && full.external_remediation);
        let owned = read(json!({ "metadata": { "name": "m", "ownerReferences": owner(false) } }));
        assert!(!owned.controlled);
        // Only the phase makes it failed.
        let running = json!({ "phase": "Running", "errorReason": "UpdateError" });
        let running = read(json!({ "metadata": { "name": "m" }, "status": running }));
        assert_eq!(running.failed, None);
    }
}
