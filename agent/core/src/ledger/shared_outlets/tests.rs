//! Table tests of shared outlets.

use super::{
    super::{
        Action, Authority, Device, Ledger, Lifetime, RecordedOutcome, Refused, Release,
        StartAnswer, StartRequest, finish, sending_shared_on,
    },
    *,
};
use crate::host_key::HostKey;

type Test = Ledger<&'static str>;

fn ann() -> Authority {
    Authority::Operator { name: "ann".into() }
}

/// The key of the BMC of a host, by its address.
fn key(host: &str) -> String {
    let number: u32 = host.bytes().map(u32::from).sum();
    format!("10.0.0.{number}")
}

fn at(key: &str) -> Host {
    Host {
        keys: HostKeys::new([HostKey::parse(key)]),
        ..Host::default()
    }
}

fn sibling(host: &str, named: bool) -> Sibling {
    Sibling {
        key: key(host),
        host: host.into(),
        at: at(&key(host)),
        named,
    }
}

fn request(id: &str, host: &str, action: Action, owner: &str) -> StartRequest {
    StartRequest {
        id: id.into(),
        key: key(host),
        host: host.into(),
        at: at(&key(host)),
        action,
        device: Device::Bmc,
        owner: owner.into(),
        authority: ann(),
        force: false,
        detail: String::new(),
        lifetime: Lifetime::default(),
        now: 1,
    }
}

fn accept(ledger: &mut Test, request: StartRequest) -> StartAnswer<&'static str> {
    let Ok((answer, changes)) = request.decide(ledger);
    ledger.apply(changes);
    answer
}

fn start(ledger: &mut Test, request: StartRequest) {
    let answer = accept(ledger, request);
    assert!(matches!(answer, StartAnswer::Started { .. }), "{answer:?}");
}

fn end(ledger: &mut Test, id: &str) {
    let Ok(change) = finish(ledger, id, 2, RecordedOutcome::Reported("done"));
    ledger.apply(change);
}

/// A power-off of `a` by its outlets, which also feed `b`.
fn cut(force: bool) -> (Test, Reservation) {
    let mut ledger = Test::default();
    let off = StartRequest {
        device: Device::Outlets,
        force,
        ..request("cut", "a", Action::Off { hold: true }, "r1")
    };
    start(&mut ledger, off);
    let reservation = Reservation {
        operation: "cut".into(),
        siblings: vec![sibling("b", false)],
        now: 1,
    };
    (ledger, reservation)
}

fn reserve(ledger: &mut Test, reservation: &Reservation) -> Reserved {
    let Ok((reserved, changes)) = reservation.decide(ledger);
    ledger.apply(changes);
    reserved
}

#[test]
fn f8_sibling_loses_power_only_if_it_is_off_or_named() {
    let on = SiblingPower::NotOff("on".into());
    let unread = SiblingPower::Unread("no answer".into());
    for (power, named, is_cut, allowed) in [
        (SiblingPower::Off, false, false, true),
        (on.clone(), false, false, false),
        (on.clone(), false, true, false),
        (on, true, false, true),
        (unread.clone(), false, false, false),
        (unread.clone(), true, false, true),
        (unread, false, true, true),
    ] {
        let siblings = [(sibling("b", named), power)];
        let checked = check_siblings("a", &siblings, is_cut);
        assert_eq!(checked.is_ok(), allowed, "{siblings:?} {is_cut}");
    }
}

#[test]
fn f9_silence_of_a_sibling_is_explained_only_by_an_accepted_power_off_that_still_holds() {
    let mut cut = PowerCut::default();
    assert!(!cut.is_accepted(), "nothing was sent");
    cut.failed();
    assert!(!cut.is_accepted(), "the first command failed");
    cut.accepted();
    cut.read(false);
    assert!(cut.is_accepted(), "a PDU may report the change late");
    cut.failed();
    assert!(!cut.is_accepted(), "the PDU may have started again");
    cut.accepted();
    cut.read(true);
    cut.read(false);
    assert!(!cut.is_accepted(), "the outlets were switched on again");
    cut.accepted();
    assert!(cut.is_accepted());
}

#[test]
fn refusal_names_each_sibling_and_what_to_do() {
    let siblings = [
        (sibling("b", false), SiblingPower::NotOff("on".into())),
        (sibling("c", false), SiblingPower::Off),
        (
            sibling("d", false),
            SiblingPower::Unread("no answer within 5s".into()),
        ),
    ];
    let refused = check_siblings("a", &siblings, false).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("host b (on), host d (not known to be off: no answer within 5s)"),
        "{text}"
    );
    assert!(text.ends_with("pdu off a --with-siblings b,d"), "{text}");
}

#[test]
fn reserved_sibling_is_not_switched_on_before_the_outlets_are() {
    let (mut ledger, reservation) = cut(false);
    assert_eq!(reserve(&mut ledger, &reservation), Ok(vec![key("b")]));
    // A second power-off of the same operation finds it reserved.
    assert_eq!(reserve(&mut ledger, &reservation), Ok(Vec::new()));
    for (action, owner) in [
        (Action::On, "operator ann"),
        (Action::Cycle, "r1"),
        (Action::Off { hold: true }, "r2"),
    ] {
        let StartAnswer::Refused(Refused::Held(hold)) =
            accept(&mut ledger, request("x", "b", action, owner))
        else {
            panic!("{action:?} of {owner} was started");
        };
        let text = Refused::Held(hold).to_string();
        assert!(text.contains("pdu on a switches them on"), "{text}");
    }
    let Ok(changes) = sending_shared_on(&ledger, "cut", &at(&key("a")).keys, 2);
    ledger.apply(changes);
    assert_eq!(
        ledger.holds.keys().collect::<Vec<_>>(),
        [&key("a")],
        "the hold on the host itself stays"
    );
    start(&mut ledger, request("x", "b", Action::On, "operator ann"));
}

#[test]
fn reservation_that_was_refused_later_leaves_no_hold() {
    let (mut ledger, reservation) = cut(false);
    let keys = reserve(&mut ledger, &reservation).unwrap();
    ledger.apply(release_reserved(&keys));
    assert!(!ledger.holds.contains_key(&key("b")));
    start(&mut ledger, request("x", "b", Action::On, "operator ann"));
}

#[test]
fn f9_release_of_the_host_releases_its_siblings() {
    let (mut ledger, reservation) = cut(false);
    reserve(&mut ledger, &reservation).unwrap();
    end(&mut ledger, "cut");
    let release = Release {
        id: "release".into(),
        key: key("a"),
        at: at(&key("a")),
        authority: ann(),
        owner: "r1".into(),
        force: false,
        now: 3,
    };
    let Ok((released, changes)) = release.decide(&ledger);
    ledger.apply(changes);
    assert!(released.is_ok());
    assert!(ledger.holds.is_empty(), "{:?}", ledger.holds);
}

#[test]
fn sibling_with_an_operation_or_a_hold_of_another_owner_is_not_reserved() {
    let (mut ledger, reservation) = cut(false);
    start(&mut ledger, request("on", "b", Action::On, "operator ann"));
    let refused = reserve(&mut ledger, &reservation).unwrap_err();
    assert!(
        matches!(refused, SharedOutletsRefused::Busy { .. }),
        "{refused}"
    );
    assert!(!ledger.holds.contains_key(&key("b")));
    end(&mut ledger, "on");

    start(
        &mut ledger,
        request("off", "b", Action::Off { hold: true }, "r2"),
    );
    end(&mut ledger, "off");
    let refused = reserve(&mut ledger, &reservation).unwrap_err();
    assert!(
        matches!(refused, SharedOutletsRefused::Held { .. }),
        "{refused}"
    );
    assert_eq!(ledger.holds[&key("b")].owner, "r2");
}

#[test]
fn hold_of_the_same_outlets_is_no_obstacle_for_another_owner() {
    let (mut ledger, reservation) = cut(false);
    reserve(&mut ledger, &reservation).unwrap();
    end(&mut ledger, "cut");
    let by_hand = StartRequest {
        device: Device::Outlets,
        ..request("again", "a", Action::Off { hold: false }, "operator ann")
    };
    start(&mut ledger, by_hand);
    let again = Reservation {
        operation: "again".into(),
        ..reservation
    };
    assert_eq!(reserve(&mut ledger, &again), Ok(Vec::new()));
}

#[test]
fn force_keeps_the_hold_of_the_other_owner() {
    let (mut ledger, reservation) = cut(true);
    start(
        &mut ledger,
        request("off", "b", Action::Off { hold: true }, "r2"),
    );
    end(&mut ledger, "off");
    assert_eq!(reserve(&mut ledger, &reservation), Ok(Vec::new()));
    assert_eq!(ledger.holds[&key("b")].owner, "r2");
}
