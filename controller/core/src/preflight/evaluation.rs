//! Rules about who evaluates health checks and who carries out remediations.

use super::{CheckFacts, CheckKind, HoldTrial, Manager, ManagerFacts, Row};
use crate::maintenance::{ForeignCheck, refused_by_check};

/// Before this minor version baremetal-operator removes the reboot annotations of others.
const BMO_KEEPS_ANNOTATIONS: (u32, u32) = (0, 14);

impl Manager {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterApi => "Cluster API's manager",
            Self::Capm3 => "CAPM3's manager",
            Self::OpenShift => "OpenShift's machine-healthcheck-controller",
            Self::Medik8s => "medik8s' node-healthcheck-operator",
            Self::BaremetalOperator => "baremetal-operator",
        }
    }
}

impl CheckKind {
    fn label(self) -> &'static str {
        match self {
            Self::ClusterApi | Self::OpenShift => "MachineHealthCheck",
            Self::Medik8s => "NodeHealthCheck",
        }
    }

    fn manager(self) -> Manager {
        match self {
            Self::ClusterApi => Manager::ClusterApi,
            Self::OpenShift => Manager::OpenShift,
            Self::Medik8s => Manager::Medik8s,
        }
    }

    /// How the controller of its project is kept off one check.
    fn keep_off(self, name: &str) -> String {
        let annotate = |what: &str| {
            let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
            let group = match self {
                Self::OpenShift => "machine.openshift.io",
                Self::ClusterApi | Self::Medik8s => "cluster.x-k8s.io",
            };
            format!(
                "kubectl --namespace {namespace} annotate machinehealthchecks.{group} {name} {what}"
            )
        };
        match self {
            Self::ClusterApi | Self::OpenShift => format!(
                "let one of them evaluate it: {} for Rackhand, or {} for {}",
                annotate("cluster.x-k8s.io/paused="),
                annotate("rackhand.dev/evaluate-"),
                self.manager().name()
            ),
            Self::Medik8s => format!(
                "let one of them evaluate it: kubectl annotate nodehealthcheck {name} \
                 rackhand.dev/evaluate- for medik8s, or uninstall the operator"
            ),
        }
    }
}

pub(super) fn managers(facts: &ManagerFacts) -> Vec<Row> {
    let check = "controllers";
    let mut rows = Vec::new();
    if let Some(why) = &facts.unknown {
        let message = format!(
            "Deployments cannot be listed, so it is not known which other controllers run: {why}"
        );
        rows.push(Row::skipped(check, "other projects", message));
    }
    for (manager, deployment, image) in &facts.found {
        let version = image_version(image);
        let text = match version {
            Some((major, minor)) => format!("{} v{major}.{minor} runs", manager.name()),
            None => format!("{} runs ({image})", manager.name()),
        };
        rows.push(match (manager, version) {
            (Manager::BaremetalOperator, Some(version)) if version < BMO_KEEPS_ANNOTATIONS => {
                Row::warning(
                    check,
                    deployment,
                    format!("{text}; before v0.14 it removes reboot annotations while it inspects or provisions"),
                    "upgrade baremetal-operator to v0.14; until then a remediation may have to set its hold again",
                )
            }
            _ => Row::ok(check, deployment, text),
        });
    }
    rows
}

/// Whether a BareMetalHost can be held and released: baremetal-operator's webhook is called for each change.
pub(super) fn hold(trial: Option<&(String, HoldTrial)>) -> Option<Row> {
    let check = "holds";
    let (name, trial) = trial?;
    let target = format!("BareMetalHost {name}");
    Some(match trial {
        HoldTrial::Accepted => Row::ok(check, target, "a hold would be accepted (dry run)"),
        HoldTrial::Forbidden => Row::skipped(
            check,
            target,
            "whoever runs this command may not patch BareMetalHosts, so no hold was tried",
        ),
        HoldTrial::Refused(why) => Row::failed(
            check,
            target,
            format!("a hold would be refused, so that no host can be fenced or released: {why}"),
            "start baremetal-operator, whose webhook is called for each change of a BareMetalHost, or correct \
             its ValidatingWebhookConfiguration",
        ),
    })
}

/// Major and minor version in the tag of an image.
fn image_version(image: &str) -> Option<(u32, u32)> {
    let image = image.split('@').next()?;
    let (_, tag) = image
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))?;
    let mut parts = tag.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn checks(all: &[CheckFacts], managers: &ManagerFacts) -> Vec<Row> {
    if all.is_empty() {
        return vec![Row::warning(
            "health-checks",
            "all",
            "there is no health check",
            "create a MachineHealthCheck or NodeHealthCheck: without one a remediation begins only when \
             somebody creates it",
        )];
    }
    all.iter()
        .flat_map(|check| evaluated(check, managers))
        .collect()
}

/// Whether a HostMaintenance of a host that this check selects would wait, see
/// [`crate::maintenance::refused_by_check`].
fn planned_work(facts: &CheckFacts, theirs: Option<bool>, target: &str) -> Option<Row> {
    let ours = ["PowerRemediation", "Metal3Remediation"];
    let check = ForeignCheck {
        name: target.to_owned(),
        paused: theirs == Some(false),
        uses_our_template: facts
            .remediations
            .iter()
            .any(|kind| ours.contains(&kind.as_str())),
        evaluated_by_us: facts.ours,
    };
    let is_openshift = facts.kind == CheckKind::OpenShift;
    let refused = is_openshift && refused_by_check(std::slice::from_ref(&check)).is_some();
    refused.then(|| {
        Row::warning(
            "planned-work",
            target,
            "a HostMaintenance of a host that it selects waits: OpenShift's controller knows no mark for one Machine",
            "before planned work, give it a template of Rackhand, or pause it with cluster.x-k8s.io/paused \
             (docs/planned-work.md)",
        )
    })
}

/// Who evaluates a check, and who carries out what it requests.
fn evaluated(facts: &CheckFacts, managers: &ManagerFacts) -> Vec<Row> {
    let check = "health-checks";
    let target = format!("{} {}", facts.kind.label(), facts.name);
    if let Some(why) = &facts.unreadable {
        let remedy = "mend the health check; `explain` shows how it is read";
        return vec![Row::failed(
            check,
            target,
            format!("it cannot be read: {why}"),
            remedy,
        )];
    }
    let manager = facts.kind.manager();
    let theirs = match managers.runs(manager) {
        Some(runs) => Some(runs && !facts.kept_off),
        None if facts.kept_off => Some(false),
        None => None,
    };
    let row = match (facts.ours, theirs) {
        (true, Some(true)) => Row::failed(
            check,
            &target,
            format!("Rackhand and {} both evaluate it", manager.name()),
            facts.kind.keep_off(&facts.name),
        ),
        (true, None) => Row::warning(
            check,
            &target,
            format!(
                "Rackhand evaluates it; it is not known whether {} does so as well",
                manager.name()
            ),
            "run this command with the right to list Deployments",
        ),
        (true, Some(false)) => match &facts.idle {
            Some(why) => Row::warning(
                check,
                &target,
                format!("only Rackhand evaluates it, and does not act: {why}"),
                "remove the annotation when remediation is wanted",
            ),
            None => Row::ok(check, &target, "Rackhand evaluates it"),
        },
        (false, Some(false)) => Row::failed(
            check,
            &target,
            "nobody evaluates it",
            format!(
                "annotate it with rackhand.dev/evaluate=true, or remove what keeps {} off",
                manager.name()
            ),
        ),
        (false, Some(true)) => Row::ok(check, &target, format!("{} evaluates it", manager.name())),
        (false, None) => Row::skipped(
            check,
            &target,
            format!(
                "Rackhand does not evaluate it; it is not known whether {} does",
                manager.name()
            ),
        ),
    };
    let of_capm3 = facts
        .remediations
        .iter()
        .any(|kind| kind == "Metal3Remediation");
    let mut rows = vec![row];
    rows.extend(planned_work(facts, theirs, &target));
    if of_capm3 && managers.runs(Manager::Capm3) == Some(true) {
        rows.push(Row::failed(
            "remediators",
            target,
            "it requests Metal3Remediations, which CAPM3's manager and Rackhand would both carry out",
            "refer to a PowerRemediationTemplate in the health check (docs/migration.md)",
        ));
    }
    rows
}
