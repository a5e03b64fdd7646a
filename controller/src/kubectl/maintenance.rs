//! Planned work on hosts: begins it, ends it, lists it.

use std::{fmt, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::{authentication::v1::SelfSubjectReview, core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use rackhand_api::kinds::host_maintenance::{
    HostMaintenance, HostMaintenanceSpec, MaintenanceEviction,
};
use rackhand_core::{
    maintenance::MaintenanceTarget,
    remediation::EvictionPolicy,
    values::{duration::ago, time::whole_second},
};

use super::{
    Output, namespace, objects,
    table::{named, table},
};

use crate::{
    error_text::one_line,
    explain::maintenance::{is_of, path},
};

/// Longest name of an object.
const LONGEST_NAME: usize = 253;

/// Planned work on hosts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Maintenance {
    /// Empties hosts, switches them off and keeps them off until their maintenance ends.
    ///
    /// One object is created for each host. How many are off at once is decided by the budgets of the PowerPolicies.
    Start(Box<Start>),
    /// Ends maintenances: their hosts come back.
    End(End),
    /// Lists the maintenances with their phase.
    List {
        /// Namespace; by default all.
        #[arg(short, long)]
        namespace: Option<String>,
        /// Output format.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
}

/// What is begun.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("target").required(true).args(["node", "machine", "host", "selector"]))]
pub(crate) struct Start {
    /// Node of the cluster in which the controller runs; may be given several times.
    #[arg(long)]
    node: Vec<String>,
    /// Machine in the namespace; may be given several times.
    #[arg(long)]
    machine: Vec<String>,
    /// Host of an agent's inventory, as RACK/HOST; may be given several times.
    #[arg(long, value_name = "RACK/HOST")]
    host: Vec<String>,
    /// Labels of Nodes of the cluster in which the controller runs.
    #[arg(short = 'l', long)]
    selector: Option<String>,
    /// What the work is, for people.
    #[arg(long)]
    reason: String,
    /// How long it lasts, from the time at which the host can be worked on, such as 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = crate::args::seconds, conflicts_with = "until", allow_hyphen_values = true)]
    lasts: Option<Duration>,
    /// When it ends, such as 2026-12-01T06:00:00Z.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Leaves the host on: its Node is only cordoned and emptied.
    #[arg(long)]
    keep_on: bool,
    /// Lights the locator LED while the host can be worked on.
    #[arg(long)]
    led: bool,
    /// How long the pods may take to leave.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = crate::args::seconds, allow_hyphen_values = true)]
    eviction: Duration,
    /// What happens when they have not left by then.
    #[arg(long, value_enum, default_value = "wait")]
    when_not_finished: WhenNotFinished,
    /// Namespace of the objects; by default that of the kubeconfig's context.
    #[arg(short, long)]
    namespace: Option<String>,
}

/// Which maintenances are ended.
#[derive(Debug, Clone, Args)]
pub(crate) struct End {
    /// Names of the objects.
    #[arg(required = true)]
    names: Vec<String>,
    /// Namespace of the objects; by default that of the kubeconfig's context.
    #[arg(short, long)]
    namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WhenNotFinished {
    /// Nothing is switched before they have left.
    Wait,
    /// The maintenance fails, and the Node is uncordoned.
    Abort,
    /// The host is switched off all the same, whatever their PodDisruptionBudgets say.
    Proceed,
}

/// Runs one command.
///
/// # Errors
/// The cluster cannot be read or written, no host is selected, or an object of that name exists.
pub(super) async fn run(command: Maintenance, client: &Client) -> anyhow::Result<()> {
    match command {
        Maintenance::Start(start) => begin(*start, client).await,
        Maintenance::End(end) => finish(&end, client).await,
        Maintenance::List { namespace, output } => {
            let objects: Api<HostMaintenance> = match &namespace {
                Some(namespace) => Api::namespaced(client.clone(), namespace),
                None => Api::all(client.clone()),
            };
            let listed = objects.list(&ListParams::default()).await;
            let items = listed.context("HostMaintenances")?.items;
            match output {
                Output::Table => out!("{}", Listed(&items, Timestamp::now())),
                Output::Json => outln!("{}", serde_json::to_string_pretty(&items)?),
            }
            Ok(())
        }
    }
}

async fn begin(start: Start, client: &Client) -> anyhow::Result<()> {
    let mut targets: Vec<MaintenanceTarget> = Vec::new();
    targets.extend(start.node.iter().cloned().map(MaintenanceTarget::Node));
    targets.extend(
        start
            .machine
            .iter()
            .cloned()
            .map(MaintenanceTarget::Machine),
    );
    for host in &start.host {
        targets.push(MaintenanceTarget::of(None, None, Some(host))?);
    }
    if let Some(selector) = &start.selector {
        ensure!(
            !selector.trim().is_empty(),
            "nothing is created: --selector is empty, which would select every Node"
        );
        let nodes: Api<Node> = Api::all(client.clone());
        let listed = nodes.list(&ListParams::default().labels(selector)).await;
        let listed = listed.with_context(|| format!("Nodes with {selector}"))?;
        let names = listed.iter().map(ResourceExt::name_any);
        targets.extend(names.map(MaintenanceTarget::Node));
    }
    if let Some(selector) = &start.selector {
        ensure!(!targets.is_empty(), "no Node has the labels {selector}");
    }
    if let Some(until) = start.until {
        ensure!(
            until > Timestamp::now(),
            "nothing is created: --until {} is in the past",
            whole_second(until)
        );
    }
    let namespace = namespace(client, start.namespace.clone());
    let objects: Api<HostMaintenance> = Api::namespaced(client.clone(), &namespace);
    let by = who(client).await;
    let mut wanted = Vec::new();
    for target in targets {
        ensure_exists(client, &namespace, &target).await?;
        let object = HostMaintenance::new(&name_of(&target), spec(&start, &target, by.clone())?);
        wanted.push((target, object));
    }
    // All of them could be created, or none is.
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for (_, object) in &wanted {
        create(&objects, &namespace, object, &dry)
            .await
            .context("nothing is created")?;
    }
    // Who may create objects and not list them is told by the status alone.
    let existing = unfinished(client).await.unwrap_or_default();
    for (target, object) in &wanted {
        create(&objects, &namespace, object, &PostParams::default()).await?;
        let name = object.name_any();
        outln!("HostMaintenance {namespace}/{name} of {target} is created");
        let same: Vec<String> = of_target(&existing, target).map(path).collect();
        if !same.is_empty() {
            outln!(
                "  not over yet, and of {target} as well: HostMaintenance {}; of one host, one goes at a time",
                same.join(", ")
            );
        }
    }
    outln!("Watch them: kubectl get hostmaintenances --namespace {namespace} --watch");
    Ok(())
}

async fn create(
    objects: &Api<HostMaintenance>,
    namespace: &str,
    object: &HostMaintenance,
    params: &PostParams,
) -> anyhow::Result<()> {
    let name = object.name_any();
    match objects.create(params, object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => bail!(
            "HostMaintenance {namespace}/{name} exists already: end it first (kubectl rackhand maintenance end {name} \
             --namespace {namespace})"
        ),
        Err(error) => {
            Err(error).with_context(|| format!("HostMaintenance {namespace}/{name} is not created"))
        }
    }
}

/// # Errors
/// What a maintenance would be about does not exist. What the caller may not read is left to the controller.
async fn ensure_exists(
    client: &Client,
    namespace: &str,
    target: &MaintenanceTarget,
) -> anyhow::Result<()> {
    let found = match target {
        MaintenanceTarget::Node(name) => {
            let nodes: Api<Node> = Api::all(client.clone());
            nodes.get_opt(name).await.map(|node| node.is_some())
        }
        MaintenanceTarget::Machine(name) => {
            let kinds = [objects::MACHINE, objects::OPENSHIFT_MACHINE];
            return match objects::exists(client, &kinds, namespace, name).await {
                Ok(false) => bail!(
                    "nothing is created: there is no Machine {name} in namespace {namespace}; name another with \
                     --namespace"
                ),
                found => tolerate(found.map(drop)),
            };
        }
        MaintenanceTarget::Host { rack, .. } => {
            let agents = objects::list(client, objects::RACK_AGENT).await;
            return match agents {
                Ok(agents)
                    if !agents
                        .iter()
                        .any(|a| a.data["spec"]["rack"] == rack.as_str()) =>
                {
                    bail!(
                        "nothing is created: no RackAgent serves rack {rack}; --host is RACK/HOST"
                    )
                }
                found => tolerate(found.map(drop)),
            };
        }
    };
    match found {
        Ok(false) => bail!(
            "nothing is created: there is no {target} in this cluster; a Node of another cluster is named by its Machine \
             (--machine)"
        ),
        found => tolerate(found.map(drop).with_context(|| target.to_string())),
    }
}

/// Ignores that the caller may not read something.
fn tolerate(done: anyhow::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if is_forbidden(&error) => Ok(()),
        done => done,
    }
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if status.code == 403)
}

/// The name of the caller, as the API server knows it; `None` if it does not say.
async fn who(client: &Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let asked = reviews.create(&PostParams::default(), &review).await;
    asked.ok()?.status?.user_info?.username
}

/// The name of the object for a target: a second one for the same host has the same name.
fn name_of(target: &MaintenanceTarget) -> String {
    let name = match target {
        MaintenanceTarget::Node(name) | MaintenanceTarget::Machine(name) => name.clone(),
        MaintenanceTarget::Host { rack, host } => format!("{rack}.{host}"),
    };
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    let name = name.to_lowercase();
    let name = name.chars().map(|c| if allowed(c) { c } else { '-' });
    name.take(LONGEST_NAME).collect()
}

fn spec(
    start: &Start,
    target: &MaintenanceTarget,
    requested_by: Option<String>,
) -> anyhow::Result<HostMaintenanceSpec> {
    let (mut node, mut machine, mut host) = (None, None, None);
    match target {
        MaintenanceTarget::Node(name) => node = Some(name.clone()),
        MaintenanceTarget::Machine(name) => machine = Some(name.clone()),
        MaintenanceTarget::Host { rack, host: of } => host = Some(format!("{rack}/{of}")),
    }
    let whole = |time: Duration| i32::try_from(time.as_secs()).context("that time is too long");
    // The default is that of the schema.
    let defaults: HostMaintenanceSpec =
        serde_json::from_value(serde_json::json!({ "reason": "" }))?;
    Ok(HostMaintenanceSpec {
        node,
        machine,
        host,
        reason: start.reason.clone(),
        requested_by,
        until: start.until,
        duration_seconds: start.lasts.map(whole).transpose()?,
        power_off: !start.keep_on,
        locator_led: start.led,
        eviction: MaintenanceEviction {
            seconds: whole(start.eviction)?,
            when_not_finished: match start.when_not_finished {
                WhenNotFinished::Wait => EvictionPolicy::Wait,
                WhenNotFinished::Abort => EvictionPolicy::Abort,
                WhenNotFinished::Proceed => EvictionPolicy::Proceed,
            },
        },
        ..defaults
    })
}

async fn finish(end: &End, client: &Client) -> anyhow::Result<()> {
    let namespace = namespace(client, end.namespace.clone());
    let objects: Api<HostMaintenance> = Api::namespaced(client.clone(), &namespace);
    let mut failed = Vec::new();
    for name in &end.names {
        match objects.delete(name, &DeleteParams::default()).await {
            Ok(deleted) if deleted.is_left() => {
                outln!("HostMaintenance {namespace}/{name} ends: its host comes back");
            }
            Ok(_) => outln!("HostMaintenance {namespace}/{name} is gone"),
            Err(kube::Error::Api(status)) if status.code == 404 && status.details.is_some() => {
                let existing = unfinished(client).await.unwrap_or_default();
                failed.push(none_of_name(&existing, &namespace, name));
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                failed.push(one_line(
                    &error.context(format!("HostMaintenance {namespace}/{name}")),
                ));
            }
        }
    }
    // One that fails keeps no other host off.
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// The maintenances of all namespaces that are not over.
async fn unfinished(client: &Client) -> kube::Result<Vec<HostMaintenance>> {
    let all: Api<HostMaintenance> = Api::all(client.clone());
    let mut items = all.list(&ListParams::default()).await?.items;
    items.retain(|one| {
        !one.status
            .as_ref()
            .is_some_and(|status| status.phase.is_over())
    });
    Ok(items)
}

/// Those of a host that is named in this way, by what they were resolved to.
fn of_target<'a>(
    existing: &'a [HostMaintenance],
    target: &MaintenanceTarget,
) -> impl Iterator<Item = &'a HostMaintenance> {
    let name = match target {
        MaintenanceTarget::Node(name) | MaintenanceTarget::Machine(name) => name.clone(),
        MaintenanceTarget::Host { rack, host } => format!("{rack}/{host}"),
    };
    existing.iter().filter(move |one| is_of(one, &name))
}

/// That no object has this name; a maintenance may be named after its Node, its Machine or its host.
fn none_of_name(existing: &[HostMaintenance], namespace: &str, name: &str) -> String {
    let none = format!("there is no HostMaintenance {namespace}/{name}");
    let meant: Vec<String> = existing
        .iter()
        .filter(|one| is_of(one, name) || one.name_any() == name)
        .map(|one| {
            format!(
                "kubectl rackhand maintenance end {} --namespace {}",
                one.name_any(),
                one.namespace().unwrap_or_default()
            )
        })
        .collect();
    match meant.is_empty() {
        true => none,
        false => format!("{none}; that of {name} ends by: {}", meant.join(", or ")),
    }
}

/// A table of maintenances.
struct Listed<'a>(&'a [HostMaintenance], Timestamp);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "MAINTENANCE",
            "HOST",
            "PHASE",
            "SINCE",
            "ENDS",
            "BY",
            "FOR",
            "MESSAGE",
        ];
        let rows: Vec<[String; 8]> = self.0.iter().map(|one| row(one, self.1)).collect();
        table(f, "maintenances", head, &rows)
    }
}

fn row(object: &HostMaintenance, now: Timestamp) -> [String; 8] {
    let (spec, status) = (&object.spec, object.status.clone().unwrap_or_default());
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let ends_already = status.ending.is_some() || object.metadata.deletion_timestamp.is_some();
    let end = match (
        status.phase.is_over(),
        status.ends_at,
        spec.duration_seconds,
    ) {
        (true, ..) => status.ended_at.map(|at| whole_second(at).to_string()),
        _ if ends_already => Some("now".into()),
        (_, Some(at), _) => Some(whole_second(at).to_string()),
        (_, None, Some(seconds)) => Some(format!("{seconds} s after it is parked")),
        (_, None, None) => None,
    };
    let created = object.creation_timestamp().map(|at| at.0);
    let since = status.parked_since.or(created);
    let host = status.node_name.or(status.host);
    let target = spec
        .node
        .clone()
        .or(spec.machine.clone())
        .or(spec.host.clone());
    [
        named(&object.namespace().unwrap_or_default(), &object.name_any()),
        or_dash(host.or(target)),
        format!("{:?}", status.phase),
        or_dash(since.map(|at| ago(now, at))),
        or_dash(end),
        or_dash(spec.requested_by.clone()),
        spec.reason.clone(),
        status.message.unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Maintenance,
    }

    fn start(args: &[&str]) -> Result<Start, String> {
        let all = ["x", "start"].iter().chain(args);
        match Cli::try_parse_from(all) {
            Ok(Cli {
                command: Maintenance::Start(start),
            }) => Ok(*start),
            Ok(_) => Err("another command".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn one_kind_of_target_and_a_reason_are_needed() {
        assert!(start(&["--reason", "DIMM"]).is_err());
        assert!(start(&["--node", "n1"]).is_err());
        assert!(start(&["--node", "n1", "--machine", "m1", "--reason", "DIMM"]).is_err());
        assert!(start(&["--node", "n1", "--node", "n2", "--reason", "DIMM"]).is_ok());
    }

    #[test]
    fn time_that_is_none_is_named_with_its_option() {
        let all = |args: &[&str]| start(&[&["--node", "n1", "--reason", "DIMM"], args].concat());
        for (option, value) in [
            ("--for", "-3h"),
            ("--for", "2 hours"),
            ("--eviction", "-1m"),
            ("--until", "-1h"),
        ] {
            let told = all(&[option, value]).unwrap_err();
            assert!(told.contains(option) && told.contains(value), "{told}");
            assert!(!told.contains("unexpected argument"), "{told}");
        }
        let told = all(&["--for", "-3h"]).unwrap_err();
        assert!(told.contains("is not like 20s, 10m or 1h"), "{told}");
    }

    #[test]
    fn spec_says_what_was_asked_for() {
        let args = [
            "--host",
            "r1/h1",
            "--reason",
            "fan",
            "--for",
            "2h",
            "--led",
            "--keep-on",
        ];
        let start = start(&args).unwrap();
        let target = MaintenanceTarget::of(None, None, Some("r1/h1")).unwrap();
        let spec = spec(&start, &target, Some("eva".into())).unwrap();
        assert_eq!(spec.host.as_deref(), Some("r1/h1"));
        assert_eq!(spec.duration_seconds, Some(7200));
        assert!(spec.locator_led && !spec.power_off);
        assert_eq!(spec.requested_by.as_deref(), Some("eva"));
        assert_eq!(spec.soft_off_seconds, 60, "the default of the schema");
        assert_eq!(spec.eviction.when_not_finished, EvictionPolicy::Wait);
    }

    #[test]
    fn name_is_that_of_the_target_so_that_a_host_has_one_maintenance() {
        let of = |text: &str| name_of(&MaintenanceTarget::of(None, None, Some(text)).unwrap());
        assert_eq!(of("Rack_A/h1"), "rack-a.h1");
        assert_eq!(name_of(&MaintenanceTarget::Node("node-7".into())), "node-7");
    }

    #[test]
    fn table_shows_phase_and_who_asked() {
        let object: HostMaintenance = serde_json::from_value(serde_json::json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": { "name": "m", "namespace": "ns" },
            "spec": { "node": "n1", "reason": "DIMM", "requestedBy": "eva" },
            "status": { "phase": "Parked", "nodeName": "n1", "message": "work on it",
                        "parkedSince": "2026-03-01T10:00:00Z" },
        }))
        .unwrap();
        let now: Timestamp = "2026-03-01T11:00:00Z".parse().unwrap();
        let shown = Listed(std::slice::from_ref(&object), now).to_string();
        for part in ["ns/m", "n1", "Parked", "eva", "DIMM", "work on it"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
        assert!(Listed(&[], now).to_string().contains("no maintenances"));
    }

    fn of_machine() -> HostMaintenance {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": { "name": "m1", "namespace": "ns" },
            "spec": { "machine": "m1", "reason": "DIMM" },
            "status": { "phase": "Pending", "nodeName": "n1", "host": "r/h", "machine": "ns/m1",
                        "endsAt": "2026-03-01T12:00:00.123456789Z" },
        }))
        .unwrap()
    }

    #[test]
    fn times_have_whole_seconds() {
        let now = Timestamp::UNIX_EPOCH;
        let shown = Listed(&[of_machine()], now).to_string();
        assert!(shown.contains("2026-03-01T12:00:00Z"), "{shown}");
    }

    #[test]
    fn end_is_shown_as_far_as_it_is_known() {
        let shown = |change: fn(&mut HostMaintenance)| {
            let mut object = of_machine();
            object.status.as_mut().unwrap().ends_at = None;
            change(&mut object);
            Listed(&[object], Timestamp::UNIX_EPOCH).to_string()
        };
        let lasts = shown(|object| object.spec.duration_seconds = Some(7200));
        assert!(lasts.contains("7200 s after it is parked"), "{lasts}");
        let ends = shown(|object| {
            let status = object.status.as_mut().unwrap();
            status.ending = Some(rackhand_core::maintenance::MaintenanceReason::Deleted);
        });
        assert!(ends.contains(" now "), "{ends}");
    }

    #[test]
    fn maintenance_is_known_by_each_name_of_its_host() {
        let existing = [of_machine()];
        for target in [
            MaintenanceTarget::of(Some("n1"), None, None),
            MaintenanceTarget::of(None, Some("m1"), None),
            MaintenanceTarget::of(None, None, Some("r/h")),
        ] {
            let target = target.unwrap();
            assert_eq!(of_target(&existing, &target).count(), 1, "{target}");
        }
        let other = MaintenanceTarget::Node("n2".into());
        assert_eq!(of_target(&existing, &other).count(), 0);
        let told = none_of_name(&existing, "default", "n1");
        assert!(told.contains("maintenance end m1 --namespace ns"), "{told}");
        let none = none_of_name(&existing, "ns", "n2");
        assert_eq!(none, "there is no HostMaintenance ns/n2");
    }
}
