use super::*;

fn held(holder: &str, renewed: i64) -> HeldLease {
    HeldLease {
        holder: Some(holder.into()),
        acquired: Some(at(0)),
        renewed: Some(at(renewed)),
        duration: MINUTE,
        transitions: 3,
    }
}

#[test]
fn lease_is_taken_only_if_free_or_expired() {
    let step = |lease: Option<&HeldLease>, now| lease_step(lease, "me", at(now));
    let taken = LeaseStep::Taken {
        holder: "other".into(),
        until: at(60),
    };
    let over = LeaseStep::Take { transitions: 4 };
    assert_eq!(step(None, 0), LeaseStep::Create);
    assert_eq!(step(Some(&held("me", 0)), 9999), LeaseStep::Renew);
    assert_eq!(
        step(Some(&held("other", 0)), 60),
        taken,
        "the last moment counts"
    );
    assert_eq!(step(Some(&held("other", 0)), 61), over);
    assert_eq!(
        step(Some(&held("other", 5)), 0),
        over,
        "renewed in the future"
    );
    let never = HeldLease {
        renewed: None,
        ..held("other", 0)
    };
    assert_eq!(step(Some(&never), 0), over);
    let nobodys = HeldLease {
        holder: Some(String::new()),
        ..held("other", 0)
    };
    assert_eq!(step(Some(&nobodys), 0), LeaseStep::Take { transitions: 3 });
}

/// A Lease of the check itself.
fn ours(acquired: i64, renewed: i64) -> HeldLease {
    HeldLease {
        holder: Some(lease_holder("check")),
        acquired: Some(at(acquired)),
        renewed: Some(at(renewed)),
        duration: Duration::from_secs(660),
        transitions: 0,
    }
}

fn renews(plan: &Plan) -> bool {
    let renews = |a: &Action| matches!(a, Action::RenewLease { .. });
    plan.actions.iter().any(renews)
}

/// A remediation that was begun at 301.
fn begun() -> Fixture {
    let mut fixture = Fixture::new(check(), vec![good("x"), bad("n")]);
    let plan = fixture.decide(at(301));
    let anew = |a: &Action| matches!(a, Action::Create { anew: true, .. });
    assert!(plan.actions.iter().any(anew));
    fixture.remediations.push(remediation("n", "t", at(301)));
    fixture.outside.leases.insert("n".into(), ours(301, 301));
    assert!(!renews(&fixture.decide(at(302))));
    fixture
}

#[test]
fn lease_renewal_follows_the_observed_lease() {
    let mut fixture = begun();
    let plan = fixture.decide(at(630));
    assert!(!renews(&plan));
    assert_eq!(plan.wake_at, Some(at(631)));
    assert!(
        renews(&fixture.decide(at(631))),
        "half of the duration has passed"
    );
    for changed in [
        ours(301, 100),
        ours(301, 9999),
        HeldLease {
            duration: MINUTE,
            ..ours(301, 302)
        },
        HeldLease {
            renewed: None,
            ..ours(301, 302)
        },
    ] {
        fixture.outside.leases.insert("n".into(), changed.clone());
        assert!(renews(&fixture.decide(at(430))), "{changed:?}");
    }
    fixture.outside.leases.clear();
    assert!(renews(&fixture.decide(at(430))), "the Lease is gone");
}

#[test]
fn lease_of_another_holder_is_kept_until_it_expires() {
    let mut fixture = begun();
    fixture
        .outside
        .leases
        .insert("n".into(), held("other", 400));
    let plan = fixture.decide(at(460));
    assert!(!renews(&plan));
    assert!(plan.wake_at.unwrap() <= at(461), "{:?}", plan.wake_at);
    assert!(renews(&fixture.decide(at(461))));
}

#[test]
fn remediation_times_out_by_the_acquire_time_of_its_lease() {
    let mut fixture = begun();
    fixture.outside.leases.insert("n".into(), ours(-1500, 400));
    let plan = fixture.decide(at(302));
    assert_eq!(timeouts(&plan), ["n-t"], "1800 s after -1500");
    let release = Action::ReleaseLease { node: "n".into() };
    assert!(plan.actions.contains(&release));

    // An acquire time in the future is ignored, and so is the Lease of another holder.
    for lease in [ours(9999, 302), held("other", 302)] {
        let mut fixture = begun();
        fixture.outside.leases.insert("n".into(), lease);
        assert!(timeouts(&fixture.decide(at(303))).is_empty());
    }
}

#[test]
fn step_times_out_by_its_lease_including_earlier_steps() {
    let mut fixture = Fixture::new(escalating(), vec![good("x"), bad("n")]);
    fixture.remediations.push(remediation("n", "a", at(301)));
    fixture.outside.leases.insert("n".into(), ours(121, 301));
    assert!(timeouts(&fixture.decide(at(301))).is_empty());
    assert_eq!(timeouts(&fixture.decide(at(302))), ["n-a"], "3 x 60 s");
    fixture.remediations[0].timed_out = Some(at(302));
    fixture.remediations.push(remediation("n", "b", at(303)));
    // 60 s of the first, and 3 x 120 s.
    assert!(timeouts(&fixture.decide(at(400))).is_empty());
    fixture.outside.leases.insert("n".into(), ours(-100, 301));
    assert_eq!(timeouts(&fixture.decide(at(401))), ["n-b"]);
}
