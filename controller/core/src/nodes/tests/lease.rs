use super::*;

fn held(holder: &str, renewed: i64) -> HeldLease {
    HeldLease {
        holder: Some(holder.into()),
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
