//! The system behind the BMC must be the expected one.

use super::*;

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
