use jiff::SignedDuration;

use super::{Role, *};
use crate::fleet::roles::Roles;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000_000).unwrap()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(24 * days)
}

/// The statuses of the rows; each that asks for something says what.
fn statuses(rows: &[Row]) -> Vec<Status> {
    for row in rows {
        let asks = matches!(row.status, Status::Failed | Status::Warning);
        assert_eq!(asks, !row.remedy.is_empty(), "{row:?}");
        assert!(!row.target.is_empty() && !row.message.is_empty(), "{row:?}");
    }
    rows.iter().map(|row| row.status).collect()
}

fn one(row: Row) -> Status {
    statuses(&[row])[0]
}

#[test]
fn a_leader_is_needed_once_rackhand_is_installed() {
    let leader = |holder| LeaderFacts {
        lease: "rackhand-system/rackhand-controller".into(),
        holder,
        duration: SignedDuration::from_secs(15),
    };
    let held = |age| {
        Ok(Some((
            "controller-0".to_owned(),
            SignedDuration::from_secs(age),
        )))
    };
    assert_eq!(one(cluster::leader(&leader(held(3)), true)), Status::Ok);
    assert_eq!(
        one(cluster::leader(&leader(held(16)), true)),
        Status::Failed
    );
    assert_eq!(
        one(cluster::leader(&leader(Ok(None)), true)),
        Status::Failed
    );
    assert_eq!(
        one(cluster::leader(&leader(Ok(None)), false)),
        Status::Skipped
    );
    let unread = leader(Err("forbidden".into()));
    assert_eq!(one(cluster::leader(&unread, false)), Status::Failed);
}

#[test]
fn the_version_of_a_cluster_decides_about_the_taint() {
    let of = |major: &str, minor: &str| {
        let facts = ClusterFacts {
            name: "metal3/a".into(),
            version: Ok((major.into(), minor.into())),
            nodes: None,
        };
        statuses(&cluster::cluster(&facts))
    };
    assert_eq!(of("1", "28"), [Status::Ok]);
    assert_eq!(of("1", "31+"), [Status::Ok]);
    assert_eq!(of("2", "0"), [Status::Ok]);
    assert_eq!(of("1", "27"), [Status::Warning]);
    assert_eq!(of("1", ""), [Status::Warning]);
    let unreachable = ClusterFacts {
        name: "metal3/a".into(),
        version: Err("connection refused".into()),
        nodes: Some(Err("connection refused".into())),
    };
    assert_eq!(statuses(&cluster::cluster(&unreachable)), [Status::Failed]);
}

#[test]
fn each_node_needs_a_lease() {
    let of = |nodes| {
        let facts = ClusterFacts {
            name: "metal3/a".into(),
            version: Ok(("1".into(), "33".into())),
            nodes: Some(nodes),
        };
        statuses(&cluster::cluster(&facts))[1]
    };
    let nodes = |without_lease| {
        Ok(NodesFacts {
            count: 3,
            without_lease,
            roles: Vec::new(),
        })
    };
    assert_eq!(of(nodes(Ok(Vec::new()))), Status::Ok);
    assert_eq!(of(nodes(Ok(vec!["n1".into()]))), Status::Warning);
    assert_eq!(of(nodes(Err("forbidden".into()))), Status::Skipped);
    assert_eq!(of(Err("forbidden".into())), Status::Failed);
}

#[test]
fn f6_control_plane_that_can_spare_no_member_is_known_before_one_fails() {
    let plane = Roles {
        etcd: false,
        control_plane: true,
    };
    let etcd = Roles {
        etcd: true,
        control_plane: false,
    };
    let of = |roles: Vec<Roles>| {
        let nodes = NodesFacts {
            count: 9,
            without_lease: Ok(Vec::new()),
            roles,
        };
        let rows = cluster::cluster(&ClusterFacts {
            name: "metal3/a".into(),
            version: Ok(("1".into(), "33".into())),
            nodes: Some(Ok(nodes)),
        });
        statuses(&rows).get(2).copied()
    };
    assert_eq!(of(Vec::new()), None, "a provider runs the control plane");
    assert_eq!(of(vec![plane]), Some(Status::Warning));
    assert_eq!(of(vec![plane; 2]), Some(Status::Warning));
    assert_eq!(of(vec![plane; 3]), Some(Status::Ok));
    let split = [vec![plane; 3], vec![etcd; 2]].concat();
    assert_eq!(of(split), Some(Status::Warning), "two members of etcd");
    let split = [vec![plane; 1], vec![etcd; 3]].concat();
    assert_eq!(of(split), Some(Status::Ok));
}

fn kind(own: bool, served: Option<&str>) -> KindFacts {
    KindFacts {
        kind: "MachineHealthCheck",
        group: "cluster.x-k8s.io",
        own,
        readable: &["v1beta1", "v1beta2"],
        served: Ok(served.map(str::to_owned)),
    }
}

#[test]
fn a_kind_is_served_in_a_version_that_is_read() {
    let of = |facts: KindFacts| statuses(&cluster::kinds(&[facts]))[0];
    assert_eq!(of(kind(false, Some("v1beta2"))), Status::Ok);
    assert_eq!(of(kind(false, Some("v1"))), Status::Failed);
    assert_eq!(of(kind(false, None)), Status::Skipped);
    assert_eq!(of(kind(true, None)), Status::Failed);
    let unknown = KindFacts {
        served: Err("timeout".into()),
        ..kind(false, None)
    };
    assert_eq!(of(unknown), Status::Failed);
}

#[test]
fn without_any_kind_of_health_check_nothing_detects_failures() {
    let rows = cluster::kinds(&[kind(false, None)]);
    assert_eq!(statuses(&rows), [Status::Skipped, Status::Warning]);
    assert_eq!(cluster::kinds(&[kind(false, Some("v1beta1"))]).len(), 1);
}

#[test]
fn f12_kind_that_cannot_be_listed_or_watched_is_named() {
    let of = |trial: WatchTrial| {
        let facts = WatchFacts {
            kind: "Node".into(),
            cluster: Some("metal3/a".into()),
            trial,
        };
        let rows = watches::watches(&[facts]);
        assert_eq!(rows.len(), 1);
        (statuses(&rows)[0], rows[0].target.clone())
    };
    let node = || "Node of metal3/a".to_owned();
    assert_eq!(of(WatchTrial::Watched), (Status::Ok, "all".to_owned()));
    assert_eq!(
        of(WatchTrial::NotListed("500".into())),
        (Status::Failed, node())
    );
    assert_eq!(
        of(WatchTrial::NotWatched("500".into())),
        (Status::Failed, node())
    );
    assert_eq!(
        of(WatchTrial::Forbidden("watch")),
        (Status::Warning, node())
    );
}

#[test]
fn f15_words_of_persons_need_the_policy_or_are_ignored() {
    use crate::remediation::WordsOfPersons::{Accepted, Ignored};
    let of = |words, policy: &PersonsPolicy| one(persons::words(words, policy, true));
    let missing = [
        PersonsPolicy::NotSupported,
        PersonsPolicy::Missing("binding"),
        PersonsPolicy::Differs("policy"),
    ];
    for policy in &missing {
        assert_eq!(of(Accepted, policy), Status::Warning, "{policy:?}");
        assert_eq!(of(Ignored, policy), Status::Ok, "{policy:?}");
    }
    assert_eq!(of(Accepted, &PersonsPolicy::InEffect), Status::Ok);
    let unknown = PersonsPolicy::Unknown("forbidden".into());
    assert_eq!(of(Accepted, &unknown), Status::Skipped);
    let row = persons::words(Accepted, &PersonsPolicy::NotSupported, true);
    assert!(row.remedy.contains("--words-of-persons=ignored"), "{row:?}");
    let before = persons::words(Accepted, &PersonsPolicy::NotSupported, false);
    assert_eq!(one(before), Status::Skipped);
}

fn rights(role: Role, granted: Result<bool, String>) -> RightsFacts {
    let right = RIGHTS.iter().find(|right| right.role == role).unwrap();
    RightsFacts {
        account: "system:serviceaccount:rackhand-system:rackhand-controller".into(),
        rights: vec![RightFacts {
            right: *right,
            namespace: Some("metal3".into()),
            granted,
        }],
        skipped: None,
    }
}

#[test]
fn a_right_that_is_needed_and_missing_fails() {
    let none = Facts::default();
    let of = |facts: &RightsFacts, all: &Facts| statuses(&cluster::rights(facts, all, true))[0];
    assert_eq!(of(&rights(Role::Controller, Ok(true)), &none), Status::Ok);
    assert_eq!(
        of(&rights(Role::Controller, Ok(false)), &none),
        Status::Failed
    );
    let unknown = rights(Role::Controller, Err("timeout".into()));
    assert_eq!(of(&unknown, &none), Status::Warning);
    // Rights for Nodes are needed only where their checks are evaluated.
    let nodes = rights(Role::Nodes, Ok(false));
    assert_eq!(of(&nodes, &none), Status::Ok);
    let evaluating = Facts {
        checks: vec![check(CheckKind::Medik8s)],
        ..Facts::default()
    };
    assert_eq!(of(&nodes, &evaluating), Status::Failed);
    let before = cluster::rights(&nodes, &evaluating, false);
    assert_eq!(statuses(&before), [Status::Skipped]);
    let skipped = RightsFacts {
        skipped: Some("forbidden".into()),
        ..rights(Role::Controller, Ok(true))
    };
    assert_eq!(of(&skipped, &none), Status::Skipped);
}

#[test]
fn the_remedy_for_secrets_is_the_binding_in_their_namespace() {
    let rows = cluster::rights(&rights(Role::Secrets, Ok(false)), &Facts::default(), true);
    let expected = "create rolebinding rackhand-secrets --namespace metal3 --clusterrole \
                    rackhand-secrets --serviceaccount rackhand-system:rackhand-controller";
    assert!(rows[0].remedy.contains(expected), "{rows:?}");
}

fn check(kind: CheckKind) -> CheckFacts {
    CheckFacts {
        kind,
        name: "metal3/workers".into(),
        ours: true,
        idle: None,
        kept_off: false,
        remediations: vec!["PowerRemediation".into()],
        unreadable: None,
    }
}

fn managers(found: &[Manager]) -> ManagerFacts {
    let found = found
        .iter()
        .map(|m| (*m, "ns/manager".to_owned(), "image:v1.2.3".to_owned()));
    ManagerFacts {
        found: found.collect(),
        unknown: None,
    }
}

#[test]
fn planned_work_that_would_wait_for_openshifts_own_controller_is_said() {
    let warned = |kind, manager, change: fn(&mut CheckFacts)| {
        let mut check = check(kind);
        (check.ours, check.remediations) = (false, Vec::new());
        change(&mut check);
        let rows = evaluation::checks(&[check], &managers(&[manager]));
        rows.iter().any(|row| row.check == "planned-work")
    };
    let (openshift, manager) = (CheckKind::OpenShift, Manager::OpenShift);
    assert!(warned(openshift, manager, |_| {}));
    assert!(!warned(openshift, manager, |check| check.kept_off = true));
    assert!(!warned(openshift, manager, |check| check.ours = true));
    assert!(!warned(openshift, manager, |check| {
        check.remediations = vec!["PowerRemediation".into()];
    }));
    assert!(!warned(CheckKind::ClusterApi, Manager::ClusterApi, |_| {}));
}

#[test]
fn exactly_one_controller_evaluates_a_check() {
    let unknown = ManagerFacts {
        unknown: Some("forbidden".into()),
        ..ManagerFacts::default()
    };
    for (kind, manager) in [
        (CheckKind::ClusterApi, Manager::ClusterApi),
        (CheckKind::OpenShift, Manager::OpenShift),
        (CheckKind::Medik8s, Manager::Medik8s),
    ] {
        let runs = managers(&[manager]);
        for (ours, kept_off, facts, expected) in [
            (true, false, &runs, Status::Failed),
            (true, true, &runs, Status::Ok),
            (false, false, &runs, Status::Ok),
            (false, true, &runs, Status::Failed),
            (true, false, &managers(&[]), Status::Ok),
            (false, false, &managers(&[]), Status::Failed),
            (true, false, &unknown, Status::Warning),
            (true, true, &unknown, Status::Ok),
            (false, false, &unknown, Status::Skipped),
        ] {
            let check = CheckFacts {
                ours,
                kept_off,
                ..check(kind)
            };
            let mut rows = evaluation::checks(&[check], facts);
            rows.retain(|row| row.check == "health-checks");
            let found = statuses(&rows);
            assert_eq!(found, [expected], "{kind:?} {ours} {kept_off} {facts:?}");
        }
    }
    let idle = CheckFacts {
        idle: Some("dry run".into()),
        ..check(CheckKind::ClusterApi)
    };
    let rows = evaluation::checks(&[idle], &managers(&[]));
    assert_eq!(statuses(&rows), [Status::Warning]);
    assert_eq!(
        statuses(&evaluation::checks(&[], &managers(&[]))),
        [Status::Warning]
    );
    let broken = CheckFacts {
        unreadable: Some("maxUnhealthy: x".into()),
        ..check(CheckKind::ClusterApi)
    };
    let rows = evaluation::checks(&[broken], &managers(&[]));
    assert_eq!(statuses(&rows), [Status::Failed]);
}

#[test]
fn metal3_remediations_are_carried_out_by_one_controller() {
    let of_metal3 = CheckFacts {
        remediations: vec!["Metal3Remediation".into()],
        ..check(CheckKind::ClusterApi)
    };
    let alone = evaluation::checks(std::slice::from_ref(&of_metal3), &managers(&[]));
    assert_eq!(statuses(&alone), [Status::Ok]);
    let both = evaluation::checks(&[of_metal3], &managers(&[Manager::Capm3]));
    assert_eq!(statuses(&both), [Status::Ok, Status::Failed]);
}

#[test]
fn other_controllers_are_listed_with_their_versions() {
    let found = |manager, image: &str| ManagerFacts {
        found: vec![(manager, "ns/d".into(), image.into())],
        unknown: None,
    };
    let bmo = |image| {
        statuses(&evaluation::managers(&found(
            Manager::BaremetalOperator,
            image,
        )))
    };
    assert_eq!(
        bmo("quay.io/metal3-io/baremetal-operator:v0.13.2"),
        [Status::Warning]
    );
    assert_eq!(
        bmo("quay.io/metal3-io/baremetal-operator:v0.14.0-beta.0"),
        [Status::Ok]
    );
    assert_eq!(bmo("registry:5000/baremetal-operator"), [Status::Ok]);
    assert_eq!(
        bmo("baremetal-operator:v0.13.0@sha256:00"),
        [Status::Warning]
    );
    let capm3 = evaluation::managers(&found(Manager::Capm3, "capm3:v0.13.0"));
    assert_eq!(statuses(&capm3), [Status::Ok]);
    let unknown = ManagerFacts {
        unknown: Some("forbidden".into()),
        ..ManagerFacts::default()
    };
    assert_eq!(statuses(&evaluation::managers(&unknown)), [Status::Skipped]);
}

#[test]
fn certificates_are_renewed_a_month_before_they_end() {
    let of = |end: Timestamp| statuses(&racks::own_certificate(Some(&Ok(end)), now()))[0];
    assert_eq!(of(days(31)), Status::Ok);
    assert_eq!(of(days(29)), Status::Warning);
    assert_eq!(of(days(-1)), Status::Failed);
    let none = racks::own_certificate(Some(&Err("no such file".into())), now());
    assert_eq!(statuses(&none), [Status::Skipped]);
}

#[test]
fn an_agent_is_reached_from_here_and_by_the_leader() {
    let agent = |probe, connected| AgentFacts {
        name: "rack-a".into(),
        rack: "rack-a".into(),
        endpoint: "agent:7443".into(),
        connected,
        probe,
    };
    let answers = |end| {
        Some(Ok(AgentProbe {
            not_after: end,
            hosts: 4,
        }))
    };
    let no = Some((false, "refused".to_owned()));
    let yes = Some((true, String::new()));
    let of = |probe, connected| statuses(&racks::agents(&[agent(probe, connected)], now()));
    assert_eq!(of(answers(days(90)), yes.clone()), [Status::Ok, Status::Ok]);
    assert_eq!(of(answers(days(3)), None), [Status::Ok, Status::Warning]);
    let by_leader = of(answers(days(90)), no.clone());
    assert_eq!(by_leader, [Status::Ok, Status::Ok, Status::Failed]);
    assert_eq!(
        of(Some(Err("refused".into())), yes.clone()),
        [Status::Failed]
    );
    assert_eq!(of(None, yes), [Status::Ok]);
    assert_eq!(of(None, no), [Status::Failed]);
    assert_eq!(of(None, None), [Status::Skipped]);
    assert_eq!(statuses(&racks::agents(&[], now())), [Status::Failed]);
}

#[test]
fn each_node_has_a_host_of_its_own() {
    let target = |name: &str, checked, host: Result<&str, &str>| TargetFacts {
        name: name.into(),
        checked,
        host: host.map(str::to_owned).map_err(str::to_owned),
        is_bound: true,
        ignored: Vec::new(),
        node: None,
        serial: String::new(),
    };
    let of = |all: &[TargetFacts]| statuses(&racks::targets(all, &["r", "s"].into()));
    assert_eq!(
        of(&[target("a", true, Ok("r/1")), target("b", true, Ok("r/2"))]),
        [Status::Ok]
    );
    assert_eq!(
        of(&[target("a", true, Ok("r/1")), target("b", true, Ok("r/1"))]),
        [Status::Failed]
    );
    assert_eq!(of(&[target("a", true, Err("none"))]), [Status::Failed]);
    assert_eq!(of(&[target("a", false, Err("none"))]), [Status::Skipped]);
    assert!(of(&[]).is_empty());
    let unbound = TargetFacts {
        is_bound: false,
        ..target("a", true, Ok("r/1"))
    };
    assert_eq!(
        of(std::slice::from_ref(&unbound)),
        [Status::Ok, Status::Warning]
    );
    let one_rack = racks::targets(std::slice::from_ref(&unbound), &["r"].into());
    assert_eq!(statuses(&one_rack), [Status::Ok]);
    let ignored = TargetFacts {
        ignored: vec!["host x in the inventory of rack s does not count".into()],
        ..target("a", true, Ok("r/1"))
    };
    assert_eq!(of(&[ignored]), [Status::Ok, Status::Warning]);
}

#[test]
fn what_agents_find_at_bmcs_is_reported_where_it_is_wrong() {
    let found = |check: &str, status| HostCheck {
        check: check.into(),
        status,
        found: "something".into(),
        advice: String::new(),
    };
    let host = |checks| HostFacts {
        name: "r/1".into(),
        checks,
        identities: Vec::new(),
        no_system_uuid: false,
    };
    let of = |checks| statuses(&racks::hosts(&[host(checks)], &[]));
    let fine = vec![found("name", Status::Ok), found("credentials", Status::Ok)];
    assert_eq!(of(Ok(fine.clone())), [Status::Ok]);
    let mut wrong = fine;
    wrong.push(found("privilege", Status::Failed));
    wrong.push(found("clock", Status::Warning));
    assert_eq!(of(Ok(wrong)), [Status::Failed, Status::Warning]);
    assert_eq!(of(Ok(vec![found("name", Status::Ok)])), [Status::Skipped]);
    assert_eq!(of(Err("no agent".into())), [Status::Skipped]);
}

#[test]
fn f14_preflight_compares_each_bmc_with_its_node() {
    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
    let target = |node: &str, uuid: &str| TargetFacts {
        name: format!("Machine {node}"),
        checked: true,
        host: Ok(format!("r/{node}")),
        node: Some(NodeIdentity {
            name: node.into(),
            system_uuid: uuid.into(),
        }),
        serial: String::new(),
        is_bound: true,
        ignored: Vec::new(),
    };
    let warns = HostCheck {
        check: "identity".into(),
        status: Status::Warning,
        found: "the inventory has nothing to compare it with".into(),
        advice: "write it into the inventory".into(),
    };
    let host = |node: &str, uuids: &[&str]| HostFacts {
        name: format!("r/{node}"),
        checks: Ok(vec![
            HostCheck {
                check: "credentials".into(),
                status: Status::Ok,
                ..warns.clone()
            },
            warns.clone(),
        ]),
        identities: uuids
            .iter()
            .map(|uuid| ReportedIdentity {
                bmc: format!("bmc of {node}"),
                system_uuid: (*uuid).into(),
                serial: String::new(),
            })
            .collect(),
        no_system_uuid: false,
    };
    let targets = [target("node-1", A), target("node-2", B)];
    let of = |hosts: &[HostFacts]| identity::identities(&targets, hosts);
    let agree = [host("node-1", &[A]), host("node-2", &[B, B])];
    assert_eq!(statuses(&of(&agree)), [Status::Ok]);
    // The agent knows no Nodes, so its warning is not repeated.
    assert_eq!(statuses(&racks::hosts(&agree, &targets)), [Status::Ok]);
    assert_eq!(
        statuses(&racks::hosts(&agree, &[])),
        [Status::Warning, Status::Warning]
    );
    let swapped = of(&[host("node-1", &[B]), host("node-2", &[A])]);
    assert_eq!(statuses(&swapped), [Status::Failed, Status::Failed]);
    assert!(
        swapped[0]
            .message
            .contains("the BMC of node-1 is that of node-2"),
        "{}",
        swapped[0].message
    );
    // The second of two drivers leads to another host.
    let half = of(&[host("node-1", &[A, B]), host("node-2", &[B])]);
    assert_eq!(statuses(&half), [Status::Ok, Status::Failed]);
    let silent = of(&[host("node-1", &[""])]);
    assert_eq!(statuses(&silent), [Status::Warning]);
    assert!(silent[0].message.contains("nothing to compare"));
    let declared = HostFacts {
        no_system_uuid: true,
        ..host("node-1", &[""])
    };
    assert_eq!(statuses(&of(&[declared])), [Status::Skipped]);
    assert!(
        of(&[host("node-9", &[A])]).is_empty(),
        "no Node has this host"
    );
}

#[test]
fn clocks_may_differ_by_what_the_measurement_is_inexact() {
    let clock = |ahead: i64, exact: i64| ClockFacts {
        name: "API server".into(),
        judges: true,
        ahead: Ok((
            SignedDuration::from_secs(ahead),
            SignedDuration::from_secs(exact),
        )),
    };
    let of = |facts: ClockFacts| statuses(&cluster::clocks(&[facts]))[0];
    assert_eq!(of(clock(0, 1)), Status::Ok);
    assert_eq!(of(clock(-6, 1)), Status::Ok);
    assert_eq!(of(clock(7, 1)), Status::Warning);
    assert_eq!(of(clock(-70, 1)), Status::Failed);
    assert_eq!(of(clock(30, 40)), Status::Ok);
    let unknown = ClockFacts {
        ahead: Err("no host answers".into()),
        ..clock(0, 0)
    };
    assert_eq!(of(unknown), Status::Skipped);
}

#[test]
fn a_hold_that_the_webhook_refuses_is_a_failure() {
    let row = |trial| {
        let tried = ("metal/host-7".to_owned(), trial);
        evaluation::hold(Some(&tried)).unwrap()
    };
    assert_eq!(evaluation::hold(None), None);
    assert_eq!(one(row(HoldTrial::Accepted)), Status::Ok);
    assert_eq!(one(row(HoldTrial::Forbidden)), Status::Skipped);
    let refused = row(HoldTrial::Refused("failed calling webhook".into()));
    assert!(refused.message.contains("failed calling webhook"));
    assert_eq!(one(refused), Status::Failed);
}

#[test]
fn nothing_installed_is_reported_with_what_to_do_first() {
    let facts = Facts {
        kinds: vec![kind(true, None)],
        leader: LeaderFacts {
            lease: "rackhand-system/rackhand-controller".into(),
            ..LeaderFacts::default()
        },
        rights: RightsFacts {
            account: "a".into(),
            ..RightsFacts::default()
        },
        ..Facts::default()
    };
    let report = evaluate(&facts, now());
    statuses(&report.rows);
    let of = |check: &str| {
        let rows = report.rows.iter().filter(|row| row.check == check);
        rows.map(|row| row.status).collect::<Vec<_>>()
    };
    assert_eq!(of("leader"), [Status::Skipped]);
    assert_eq!(of("rights"), [Status::Skipped]);
    assert_eq!(of("kinds")[0], Status::Failed);
    assert_eq!(report.count(Status::Failed), 2);
}
