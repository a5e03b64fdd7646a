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
fn a_lease_is_taken_only_from_nobody_or_from_one_whose_time_is_over() {
    let step = |lease: Option<&HeldLease>, now| lease_step(lease, "me", at(now));
    let taken = LeaseStep::Taken {
        holder: "other".into(),
    };
    let over = LeaseStep::Take { transitions: 4 };
    assert_eq!(step(None, 0), LeaseStep::Create);
    assert_eq!(step(Some(&held("me", 0)), 9999), LeaseStep::Renew);
    assert_eq!(
        step(Some(&held("other", 0)), 60),
        taken,
        "its last moment counts"
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
    let mut scene = Fixture::new(check(), vec![good("x"), bad("n")]);
    let plan = scene.look(at(301));
    let anew = |a: &Action| matches!(a, Action::Create { anew: true, .. });
    assert!(plan.actions.iter().any(anew));
    scene.requests.push(request("n", "t", at(301)));
    scene.outside.leases.insert("n".into(), ours(301, 301));
    assert!(!renews(&scene.look(at(302))));
    scene
}

#[test]
fn a_lease_is_renewed_by_what_it_says_now() {
    let mut scene = begun();
    let plan = scene.look(at(630));
    assert!(!renews(&plan));
    assert_eq!(plan.wake_at, Some(at(631)));
    assert!(renews(&scene.look(at(631))), "half of its time is over");
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
        scene.outside.leases.insert("n".into(), changed.clone());
        assert!(renews(&scene.look(at(430))), "{changed:?}");
    }
    scene.outside.leases.clear();
    assert!(renews(&scene.look(at(430))), "it is gone");
}

#[test]
fn a_lease_that_somebody_else_took_is_theirs_until_its_time_is_over() {
    let mut scene = begun();
    scene.outside.leases.insert("n".into(), held("other", 400));
    let plan = scene.look(at(460));
    assert!(!renews(&plan));
    assert!(plan.wake_at.unwrap() <= at(461), "{:?}", plan.wake_at);
    assert!(renews(&scene.look(at(461))));
}

#[test]
fn a_remediation_times_out_by_when_its_lease_says_it_was_acquired() {
    let mut scene = begun();
    scene.outside.leases.insert("n".into(), ours(-1500, 400));
    let plan = scene.look(at(302));
    assert_eq!(told_to_stop(&plan), ["n-t"], "1800 s after -1500");
    let release = Action::ReleaseLease { node: "n".into() };
    assert!(plan.actions.contains(&release));

    // In the future it says nothing, and nor does that of somebody else.
    for lease in [ours(9999, 302), held("other", 302)] {
        let mut scene = begun();
        scene.outside.leases.insert("n".into(), lease);
        assert!(told_to_stop(&scene.look(at(303))).is_empty());
    }
}

#[test]
fn a_step_of_several_times_out_by_its_lease_too_and_the_steps_before_it_count() {
    let mut scene = Fixture::new(escalating(), vec![good("x"), bad("n")]);
    scene.requests.push(request("n", "a", at(301)));
    scene.outside.leases.insert("n".into(), ours(121, 301));
    assert!(told_to_stop(&scene.look(at(301))).is_empty());
    assert_eq!(told_to_stop(&scene.look(at(302))), ["n-a"], "3 x 60 s");
    scene.requests[0].timed_out = Some(at(302));
    scene.requests.push(request("n", "b", at(303)));
    // 60 s of the first, and 3 x 120 s.
    assert!(told_to_stop(&scene.look(at(400))).is_empty());
    scene.outside.leases.insert("n".into(), ours(-100, 301));
    assert_eq!(told_to_stop(&scene.look(at(401))), ["n-b"]);
}
