use super::*;

const UUID: &str = "4c4c4544-0042-3310-8051-b4c04f4e4d32";
const OTHER_UUID: &str = "4c4c4544-0042-3310-8051-b4c04f4e4d33";
const PROVIDER: &str = "metal3://metal3/host-7/worker-7";

fn mk_host() -> HostIdentity {
    HostIdentity {
        node: Some("worker-7".into()),
        node_uuid: UUID.into(),
        names: ["host-7".to_owned()].into(),
        system_uuids: BTreeSet::new(),
        provider_ids: [PROVIDER.to_owned()].into(),
        bare_metal_host: Some(("metal3/host-7".into(), "b7".into())),
    }
}

fn mk_node(name: &str) -> NodeIdentity {
    NodeIdentity {
        name: name.into(),
        ..NodeIdentity::default()
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

#[test]
fn f14_node_runs_on_host_by_uuid_provider_id_label_or_name() {
    let host = mk_host();
    let with = |change: fn(&mut NodeIdentity)| {
        let mut node = mk_node("random-5f3a");
        change(&mut node);
        host.shared_with(&node)
    };
    type Case = (fn(&mut NodeIdentity), Option<&'static str>);
    let cases: [Case; 16] = [
        (|_| {}, None),
        (|n| n.system_uuid = UUID.into(), Some("the system UUID")),
        (
            |n| n.system_uuid = "{44454C4C-4200-1033-8051-B4C04F4E4D32}".into(),
            Some("the system UUID"),
        ),
        (|n| n.system_uuid = OTHER_UUID.into(), None),
        (
            |n| n.system_uuid = "03000200-0400-0500-0006-000700080009".into(),
            None,
        ),
        (|n| n.provider_id = PROVIDER.into(), Some("the providerID")),
        (
            |n| n.provider_id = "metal3://b7".into(),
            Some("the providerID"),
        ),
        (
            |n| n.provider_id = "metal3://metal3/host-7/later".into(),
            Some("the providerID"),
        ),
        (|n| n.provider_id = "metal3://metal3/host-70/x".into(), None),
        (|n| n.provider_id = "k3s://worker-7".into(), None),
        (|n| n.host_label = "b7".into(), Some("the label")),
        (|n| n.host_label = "b8".into(), None),
        (|n| n.name = "host-7".into(), Some("the name")),
        (|n| n.name = "worker-7.example.org".into(), Some("the name")),
        (|n| n.name = "worker-70.example.org".into(), None),
        (|n| n.name = "worker-7".into(), None),
    ];
    for (i, (change, expected)) in cases.into_iter().enumerate() {
        let shares = with(change);
        let mut node = mk_node("random-5f3a");
        change(&mut node);
        let is_found = !node.keys().is_disjoint(&host.keys());
        assert!(is_found || shares.is_none(), "the index finds it, case {i}");
        match expected {
            None => assert_eq!(shares, None, "case {i}"),
            Some(text) => assert!(shares.unwrap().starts_with(text), "case {i}"),
        }
    }
}

#[test]
fn f14_name_does_not_count_against_the_uuids_of_both_kubelets() {
    let mut host = mk_host();
    for name in ["worker-7.example.org", "host-7"] {
        let mut node = mk_node(name);
        node.system_uuid = OTHER_UUID.into();
        assert_eq!(host.shared_with(&node), None, "{name}");
    }
    // The GUID of some BMCs is not the SMBIOS UUID, so it contradicts nothing.
    host.node_uuid.clear();
    host.system_uuids.insert(UUID.into());
    let mut node = mk_node("host-7");
    node.system_uuid = OTHER_UUID.into();
    assert!(host.shared_with(&node).is_some());
    node.system_uuid = UUID.into();
    node.name = "any".into();
    assert!(host.shared_with(&node).is_some(), "the UUID of the BMC");
}

#[test]
fn f14_names_that_are_addresses_have_no_domain() {
    let mut host = mk_host();
    host.node = Some("10.0.0.7".into());
    host.node_uuid.clear();
    assert_eq!(host.shared_with(&mk_node("10.0.0.8")), None);
}

#[test]
fn f14_empty_fields_identify_nothing() {
    let host = HostIdentity {
        bare_metal_host: Some((String::new(), String::new())),
        ..HostIdentity::default()
    };
    assert_eq!(host.shared_with(&mk_node("n")), None);
    let mut node = mk_node("n");
    node.provider_id = "metal3://".into();
    assert_eq!(host.shared_with(&node), None);
}

#[test]
fn f14_node_named_as_that_of_another_bmc_does_not_count() {
    let node = NodeIdentity {
        system_uuid: UUID.into(),
        ..mk_node("worker-8")
    };
    for (named, counts) in [
        (NamedHost::None, true),
        (NamedHost::This, true),
        (NamedHost::Other, false),
    ] {
        let found = OtherNode::of(&mk_host(), &node, named, NodeLife::Ready);
        assert_eq!(found.is_some(), counts, "{named:?}");
    }
}

#[test]
fn f14_renamed_node_of_another_board_with_the_same_uuid_is_told_by_provider_id_or_domain() {
    let with = |name: &str, provider: &str| NodeIdentity {
        system_uuid: UUID.into(),
        provider_id: provider.into(),
        ..mk_node(name)
    };
    let elsewhere = [with("worker-8", "metal3://metal3/host-8/worker-8")];
    let host = mk_host();
    for (node, expected) in [
        (with("random", "metal3://metal3/host-8/worker-8"), true),
        (with("worker-8.example.org", ""), true),
        (with("random", ""), false),
        (with("random", "k3s://random"), false),
        // It has more in common with this host.
        (with("worker-8.example.org", PROVIDER), false),
    ] {
        assert_eq!(
            host.is_renamed_elsewhere(&node, &elsewhere),
            expected,
            "{node:?}"
        );
    }
    // A UUID that no other board has names this one.
    let mut alone = with("worker-8", "metal3://metal3/host-8/worker-8");
    alone.system_uuid = OTHER_UUID.into();
    let node = with("random", "metal3://metal3/host-8/worker-8");
    assert!(!host.is_renamed_elsewhere(&node, [&alone]));
}

#[test]
fn f14_text_of_a_kubelet_is_cut_and_cleaned_in_messages() {
    let node = NodeIdentity {
        provider_id: format!("k3s://\u{1b}[2J{}", "x".repeat(5000)),
        ..mk_node("host-7")
    };
    let found = OtherNode::of(&mk_host(), &node, NamedHost::None, NodeLife::Ready).unwrap();
    assert!(found.provider_id.len() <= LONGEST_TEXT && !found.provider_id.contains('\u{1b}'));
}

#[test]
fn f14_lease_is_renewed_if_two_reads_differ_and_quiet_after_the_interval_and_2_s() {
    let mut leases = LeaseRenewals::default();
    let mut look =
        |renewed: &str, now| leases.observe("n", renewed, Duration::from_secs(40), at(now));
    let undecided = NodeLife::Undecided { until: at(12) };
    assert_eq!(look("09:00:00", 0), undecided);
    assert_eq!(look("09:00:00", 11), undecided);
    assert_eq!(look("09:00:00", 12), NodeLife::Silent);
    assert_eq!(look("09:00:10", 13), NodeLife::Renewing);
    assert_eq!(look("09:00:10", 24), NodeLife::Renewing);
    assert_eq!(look("09:00:10", 25), NodeLife::Silent);
    // A clock that was set back begins anew.
    let later = NodeLife::Undecided { until: at(17) };
    assert_eq!(look("09:00:10", 5), later);
}

#[test]
fn f14_nodes_are_compared_live_before_the_off_and_the_taint() {
    let state = |step: Step| State {
        step,
        ..State::new(at(0))
    };
    let not_joined = WorkloadView::NotJoined;
    let comparison = |s: &State| node_comparison(Some(s), (None, false), &not_joined, at(1));
    assert_eq!(
        node_comparison(None, (None, false), &not_joined, at(1)),
        NodeComparison::Indexed
    );
    for step in [Step::Holding, Step::PoweringOff, Step::Tainting] {
        assert_eq!(comparison(&state(step)), NodeComparison::Live, "{step:?}");
    }
    for step in [Step::Pending, Step::Retrying, Step::Booting] {
        assert_eq!(
            comparison(&state(step)),
            NodeComparison::Indexed,
            "{step:?}"
        );
    }
    // Not in each reading of a running operation, nor once the taint may be set.
    let running = Some(OperationView::Running);
    let off = state(Step::PoweringOff);
    let while_running = node_comparison(Some(&off), (running.as_ref(), false), &not_joined, at(1));
    assert_eq!(while_running, NodeComparison::None);
    for step in [Step::PoweringOff, Step::Tainting] {
        let mut s = state(step);
        s.attempt.taint = Some(TaintOwner::Us);
        assert_eq!(comparison(&s), NodeComparison::None, "{step:?}");
    }
    assert_eq!(comparison(&state(Step::Draining)), NodeComparison::None);
}
