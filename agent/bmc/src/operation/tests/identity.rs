//! The system behind the BMC must be the expected one.

use super::*;
use crate::{Accepted, PowerReading};

const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
/// The canned GUID of a BMC that knows none.
const CANNED: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

/// A reading of a system that names itself by UUID and serial number; `-`: it does not.
fn of(state: PowerState, (uuid, serial): (&str, &str)) -> Result<Observation, CallFailure> {
    named(state, (uuid, serial), "1")
}

/// The same of a resource with this `Id`.
fn named(
    state: PowerState,
    (uuid, serial): (&str, &str),
    id: &str,
) -> Result<Observation, CallFailure> {
    let known = |text: &str| (text != "-").then(|| text.to_owned());
    let identity = SystemIdentity {
        system_uuid: known(uuid),
        serial: known(serial),
        resource: crate::ResourceName {
            id: known(id),
            ..crate::ResourceName::default()
        },
        ..SystemIdentity::default()
    };
    seen(state).map(|seen| Observation { identity, ..seen })
}

#[test]
fn f5_another_system_in_the_middle_of_an_operation_never_confirms() {
    // What was read first, what was read later, and whether that is another system.
    for (first, later, is_other) in [
        ((A, "-"), (B, "-"), true),
        ((A, "S1"), ("-", "S2"), true),
        (("-", "S1"), (A, "S2"), true),
        ((A, "S1"), (A, "S2"), true),
        ((A, "-"), (CANNED, "-"), false),
        ((A, "-"), ("-", "-"), false),
        ((A, "-"), ("-", "S1"), false),
    ] {
        for goal in [off().goal, Goal::On] {
            let goes_to = goal.state().unwrap();
            let from = if goes_to == Off { On } else { Off };
            let asked = OperationRequest { goal, ..off() };
            let moved = Cell::new(false);
            let world = (
                |_| match moved.get() {
                    false => of(from, first),
                    true => of(goes_to, later),
                },
                |_, _| {
                    moved.set(true);
                    Ok(())
                },
            );
            let ran = run(asked, world);
            assert_eq!(ran.sends.len(), 1);
            let is_mismatch = matches!(ran.outcome(), Outcome::IdentityMismatch(_));
            assert_eq!(is_mismatch, is_other, "{first:?} {later:?}: {ran:?}");
            assert_ne!(ran.outcome().is_done(), is_other, "{ran:?}");
        }
    }
}

#[test]
fn f5_off_is_not_confirmed_by_documents_that_do_not_name_the_system() {
    // What was read before the command, and what afterwards, with the `Id` of the resource.
    for (first, later, id, is_confirmed) in [
        ((A, "S1"), (A, "S1"), "1", true),
        ((A, "S1"), ("-", "-"), "1", true),
        ((A, "S1"), ("-", "-"), "-", false),
        ((A, "S1"), (CANNED, "-"), "-", false),
        ((A, "S1"), ("-", "-"), "2", false),
        (("-", "-"), ("-", "-"), "1", true),
        (("-", "-"), ("-", "-"), "-", false),
        (("-", "-"), (A, "S1"), "1", false),
    ] {
        let mut op = Operation::new(off());
        op.read(s(0), s(0), of(On, first));
        assert_eq!(op.next(s(0)), Next::Send(PowerCommand::Off));
        op.sending(s(0));
        op.answered(s(0), &Accepted::taken("ForceOff", "204"));
        for at in [1, 3, 5] {
            op.read(s(at), s(at), named(Off, later, id));
        }
        let confirmed = matches!(op.next(s(5)), Next::Done(Outcome::Confirmed { .. }));
        assert_eq!(confirmed, is_confirmed, "{first:?} {later:?} {id}: {op:?}");
    }
}

#[test]
fn f5_system_that_leaves_its_identity_out_at_times_is_still_compared_with_the_first() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), of(On, (A, "-")));
    op.read(s(1), s(1), of(On, ("-", "-")));
    op.read(s(2), s(2), of(Off, (B, "-")));
    assert!(matches!(
        op.next(s(2)),
        Next::Done(Outcome::IdentityMismatch(_))
    ));
}

#[test]
fn f5_identity_by_another_protocol_is_that_of_another_notation() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), of(On, (A, "-")));
    let by_ipmi = |state, uuid| {
        of(state, (uuid, "-")).map(|seen| Observation {
            source: PowerSource::Ipmi,
            ..seen
        })
    };
    op.read(s(1), s(1), by_ipmi(On, B));
    assert_eq!(op.next(s(1)), Next::Send(PowerCommand::Off));
    op.read(s(2), s(2), by_ipmi(Off, A));
    assert!(matches!(
        op.next(s(2)),
        Next::Done(Outcome::IdentityMismatch(_))
    ));
}

#[test]
fn f1_observation_of_another_system_from_before_the_operation_proves_nothing() {
    for (before, is_proven) in [(A, true), (B, false), (CANNED, false)] {
        let mut observed = PowerObservation::default();
        let reading = PowerReading {
            state: On,
            raw: "On".into(),
            source: PowerSource::Redfish,
            identity: of(On, (before, "-")).unwrap().identity,
            at: jiff::Timestamp::UNIX_EPOCH,
            bmc: "redfish://192.0.2.1".into(),
            connection: None,
            identify_led: None,
        };
        observed.read(s(100), &reading, 1);
        let mut op = Operation::new(off());
        op.watched(observed.since(s(104)));
        op.read(s(1), s(1), of(Off, (A, "-")));
        op.sending(s(1));
        op.answered(
            s(1),
            &Accepted::already_there("ForceOff", "409: already off"),
        );
        op.read(s(2), s(2), of(Off, (A, "-")));
        op.read(s(4), s(4), of(Off, (A, "-")));
        let is_confirmed = matches!(op.next(s(4)), Next::Done(Outcome::Confirmed { .. }));
        assert_eq!(is_confirmed, is_proven, "{before}: {op:?}");
    }
}

fn observed(reading: Result<Observation, CallFailure>) -> PowerReading {
    let reading = reading.unwrap();
    PowerReading {
        state: reading.state,
        raw: format!("{:?}", reading.state),
        source: reading.source,
        identity: reading.identity,
        at: jiff::Timestamp::UNIX_EPOCH,
        bmc: "redfish://192.0.2.1".into(),
        connection: None,
        identify_led: None,
    }
}

/// UUID, serial number and `Id` of a system.
type Named<'a> = (&'a str, &'a str, &'a str);

/// A power-off after these readings of an observation, and their times, at second 1000.
fn after_observation(
    before: &[(u64, Option<Named<'_>>)],
    expected: Expected,
    (uuid, serial, id): Named<'_>,
) -> (&'static str, u32) {
    let mut seen = PowerObservation::default();
    for (number, (at, reading)) in (1..).zip(before) {
        match *reading {
            Some((uuid, serial, id)) => {
                seen.read(s(*at), &observed(named(On, (uuid, serial), id)), number);
            }
            None => seen.interrupt(s(*at)),
        }
    }
    let mut op = Operation::new(OperationRequest { expected, ..off() });
    op.watched(seen.since(s(1000)));
    op.read(s(1), s(1), named(On, (uuid, serial), id));
    if op.next(s(1)) == Next::Send(PowerCommand::Off) {
        op.sending(s(1));
        op.answered(s(1), &Accepted::taken("ForceOff", "204"));
    }
    for at in [2, 4] {
        op.read(s(at), s(at), named(Off, (uuid, serial), id));
    }
    let word = match op.next(s(4)) {
        Next::Done(Outcome::Confirmed { .. }) => "confirmed",
        Next::Done(Outcome::IdentityMismatch(_)) => "mismatch",
        _ => "open",
    };
    (word, op.sends())
}

#[test]
fn f5_another_system_than_was_observed_before_the_operation_is_not_commanded() {
    let bare = ("-", "-", "-");
    let (host, sister, other) = ((A, "S1", "1"), (A, "S2", "1"), (B, "S2", "1"));
    let at = |at: u64, named| (at, Some(named));
    for (before, now, expected) in [
        (&[at(996, host)][..], host, ("confirmed", 1)),
        (&[at(996, host)], other, ("mismatch", 0)),
        (&[at(996, host)], sister, ("mismatch", 0)),
        // The observation has seen the other one too.
        (&[at(990, host), at(998, other)], other, ("mismatch", 0)),
        (&[at(990, host), at(998, sister)], sister, ("mismatch", 0)),
        (
            &[at(900, host), (950, None), at(998, sister)],
            sister,
            ("mismatch", 0),
        ),
        (
            &[at(900, host), at(950, other), at(998, host)],
            host,
            ("confirmed", 1),
        ),
        (&[at(990, host), at(998, sister)], host, ("confirmed", 1)),
        // Documents that name nothing, where earlier ones did.
        (&[at(996, host)], bare, ("open", 0)),
        (&[at(990, host), at(998, bare)], bare, ("open", 0)),
        (
            &[at(990, ("-", "-", "1")), at(998, bare)],
            bare,
            ("open", 0),
        ),
        (&[at(996, host)], ("-", "-", "1"), ("confirmed", 1)),
        (&[at(996, bare)], bare, ("confirmed", 1)),
        // A new mainboard, after an interruption.
        (
            &[at(900, (B, "S1", "1")), (950, None), at(998, host)],
            host,
            ("confirmed", 1),
        ),
        // What was there long ago has been replaced.
        (
            &[at(200, other), (210, None), at(700, host), at(998, host)],
            host,
            ("confirmed", 1),
        ),
        (&[at(200, other), (210, None)], host, ("confirmed", 1)),
    ] {
        let found = after_observation(before, Expected::default(), now);
        assert_eq!(found, expected, "{before:?} {now:?}");
    }
}

#[test]
fn f5_what_the_caller_says_goes_before_what_was_observed() {
    let text = |text: &str| (text != "-").then(|| text.to_owned());
    let said = |uuid, serial| Expected {
        system_uuid: text(uuid),
        serial: text(serial),
        ..Expected::default()
    };
    let earlier = |uuid, serial| Expected {
        earlier: Some(of(On, (uuid, serial)).unwrap().identity),
        ..Expected::default()
    };
    for (expected, now, word) in [
        (said(B, "-"), (B, "-", "1"), "confirmed"),
        // Another host was there for a while.
        (said(B, "-"), (B, "S2", "1"), "confirmed"),
        (said("-", "S2"), (B, "S2", "1"), "confirmed"),
        (said("-", "S2"), (A, "S2", "1"), "confirmed"),
        (earlier(A, "S2"), (A, "S2", "1"), "confirmed"),
        // A UUID that two boards have says nothing about their serial numbers.
        (said(A, "-"), (A, "S2", "1"), "mismatch"),
        (earlier(A, "-"), (A, "S2", "1"), "mismatch"),
        (said(A, "-"), (B, "S1", "1"), "mismatch"),
    ] {
        let before = [(900, Some((A, "S1", "1"))), (950, None)];
        let (found, _) = after_observation(&before, expected.clone(), now);
        assert_eq!(found, word, "{expected:?} {now:?}");
    }
}

#[test]
fn f5_document_that_names_nothing_is_not_the_system_of_earlier_operations() {
    let earlier = of(On, (A, "S1")).unwrap().identity;
    let expected = Expected {
        earlier: Some(earlier),
        ..Expected::default()
    };
    for (now, is_confirmed) in [(("-", "-", "-"), false), (("-", "-", "1"), true)] {
        let (found, sends) = after_observation(&[], expected.clone(), now);
        assert_eq!(found == "confirmed", is_confirmed, "{now:?}");
        assert_eq!(sends, u32::from(is_confirmed), "{now:?}");
    }
}

#[test]
fn f5_dell_with_a_new_mainboard_is_the_host_that_its_uuid_names() {
    let board = |vendor: &str, uuid: &str, serial| SystemIdentity {
        vendor: Some(vendor.to_owned()),
        ..of(On, (uuid, serial)).unwrap().identity
    };
    for (vendor, uuid, is_it) in [
        ("Dell Inc.", A, true),
        ("Dell Inc.", B, false),
        ("Dell Inc.", "-", false),
        ("HPE", A, false),
    ] {
        for stated in [Some(A.to_owned()), None] {
            let expected = Expected {
                system_uuid: stated,
                earlier: Some(board(vendor, A, "CNFCP0079P00AZ")),
                ..Expected::default()
            };
            let found = board(vendor, uuid, "CNFCP0079P00BB");
            let mismatch = expected.mismatch_at(PowerSource::Redfish, &found);
            assert_eq!(mismatch.is_none(), is_it, "{vendor} {uuid} {expected:?}");
        }
    }
}

#[test]
fn f5_sister_board_with_the_stated_uuid_is_not_the_system_of_earlier_operations() {
    let text = |text: &str| (text != "-").then(|| text.to_owned());
    let said = |uuid, serial| Expected {
        system_uuid: text(uuid),
        serial: text(serial),
        earlier: Some(of(On, (A, "S1")).unwrap().identity),
        ..Expected::default()
    };
    let ended = |source, expected: &Expected, serial| {
        let mut op = Operation::new(OperationRequest {
            expected: expected.clone(),
            ..off()
        });
        let seen = of(On, (A, serial)).map(|seen| Observation { source, ..seen });
        op.read(s(0), s(0), seen);
        op.next(s(0))
    };
    for (expected, serial, is_it) in [
        (said(A, "-"), "S1", true),
        (said(A, "-"), "-", true),
        (said(A, "-"), "To be filled by O.E.M.", true),
        (said(A, "-"), "S2", false),
        // Who states the serial number says that the host was replaced.
        (said(A, "S2"), "S2", true),
        (said(A, "S9"), "S2", false),
        (
            Expected {
                inventory_serial: text("S2"),
                ..said(A, "S9")
            },
            "S2",
            true,
        ),
    ] {
        let next = ended(PowerSource::Redfish, &expected, serial);
        let is_refused = matches!(next, Next::Done(Outcome::IdentityMismatch(_)));
        assert_eq!(is_refused, !is_it, "{expected:?} {serial}: {next:?}");
    }
    // IPMI may have the serial number of a board where Redfish has that of the host.
    let next = ended(PowerSource::Ipmi, &said(A, "-"), "board-1");
    assert_eq!(next, Next::Send(PowerCommand::Off));
}

#[test]
fn f5_serial_numbers_of_two_protocols_are_not_compared() {
    let by =
        |source, serial, state| of(state, (A, serial)).map(|seen| Observation { source, ..seen });
    let mut op = Operation::new(off());
    op.read(s(0), s(0), by(PowerSource::Redfish, "S1", On));
    op.read(s(1), s(1), by(PowerSource::Ipmi, "board-1", On));
    assert_eq!(op.next(s(1)), Next::Send(PowerCommand::Off));
    op.read(s(2), s(2), by(PowerSource::Ipmi, "board-2", Off));
    let ended = op.next(s(2));
    assert!(
        matches!(ended, Next::Done(Outcome::IdentityMismatch(_))),
        "{ended:?}"
    );
}

#[test]
fn f5_identity_mismatch_sends_no_command() {
    let expected = Expected {
        system_uuid: Some("4c4c4544-0042-3510-8054-c2c04f4e4e32".into()),
        ..Expected::default()
    };
    for state in [On, Off, PoweringOff, Unknown] {
        for goal in [off().goal, Goal::On] {
            let asked = OperationRequest {
                goal,
                expected: expected.clone(),
                ..off()
            };
            let world = (
                |_| {
                    Ok(Observation {
                        state,
                        source: PowerSource::Redfish,
                        identity: SystemIdentity {
                            system_uuid: Some("4c4c4544-0042-3510-8054-c2c04f4e4e33".into()),
                            ..SystemIdentity::default()
                        },
                        connection: None,
                    })
                },
                |_, _| Ok(()),
            );
            let ran = run(asked, world);
            assert!(ran.sends.is_empty());
            assert_eq!(
                ran.outcome().to_string(),
                "the BMC manages another system: system UUID \
                 4c4c4544-0042-3510-8054-c2c04f4e4e33, expected \
                 4c4c4544-0042-3510-8054-c2c04f4e4e32; check the BMC address of this host"
            );
        }
    }
}

#[test]
fn f5_uuid_matches_in_either_byte_order() {
    let wire = "00112233-4455-6677-8899-AABBCCDDEEFF";
    for written in [
        "00112233-4455-6677-8899-aabbccddeeff",
        "33221100-5544-7766-8899-aabbccddeeff",
        "00112233445566778899aabbccddeeff",
    ] {
        let expected = Expected {
            system_uuid: Some(written.into()),
            serial: Some("not compared once the UUID agrees".into()),
            ..Expected::default()
        };
        let found = SystemIdentity {
            system_uuid: Some(wire.into()),
            serial: Some("S1".into()),
            ..SystemIdentity::default()
        };
        assert_eq!(expected.mismatch(&found), None);
    }
}

#[test]
fn f5_serial_is_compared_without_a_uuid() {
    let expected = Expected {
        serial: Some("ABC123 ".into()),
        ..Expected::default()
    };
    let found = |serial: Option<&str>| SystemIdentity {
        serial: serial.map(str::to_owned),
        ..SystemIdentity::default()
    };
    assert_eq!(expected.mismatch(&found(Some("abc123"))), None);
    assert_eq!(expected.mismatch(&found(None)), None);
    assert_eq!(
        expected.mismatch(&found(Some("ABC124"))).unwrap().what,
        "serial number"
    );
}
