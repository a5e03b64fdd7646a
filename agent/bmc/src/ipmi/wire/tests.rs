use proptest::{array::uniform16, collection::vec, prelude::*};

use super::*;

const TYPES: [PayloadType; 7] = [
    PayloadType::Ipmi,
    PayloadType::OpenRequest,
    PayloadType::OpenResponse,
    PayloadType::Rakp1,
    PayloadType::Rakp2,
    PayloadType::Rakp3,
    PayloadType::Rakp4,
];

fn handshake(suite: Suite, random: [u8; 16], user: Vec<u8>) -> Handshake {
    Handshake {
        suite,
        console: 0x1122_3344,
        managed: 0x5566_7788,
        console_random: random,
        managed_random: [7; 16],
        guid: [9; 16],
        role: 0x13,
        user,
    }
}

fn keys(suite: Suite) -> SessionKeys {
    handshake(suite, [1; 16], b"admin".to_vec())
        .integrity_key(b"secret")
        .session_keys()
}

fn suite() -> impl Strategy<Value = Suite> {
    prop_oneof![Just(Suite::Cipher3), Just(Suite::Cipher17)]
}

#[test]
fn get_device_id_is_encoded_as_specified() {
    let request = Request {
        net_fn: 0x06,
        lun: 0,
        sequence: 1,
        command: 0x01,
        data: Vec::new(),
    };
    assert_eq!(request.encode(), [0x20, 0x18, 0xc8, 0x81, 0x04, 0x01, 0x7a]);
}

#[test]
fn response_matches_only_its_own_request() {
    let request = Request {
        net_fn: 0,
        lun: 0,
        sequence: 5,
        command: 1,
        data: Vec::new(),
    };
    let answer = request.answer(0, vec![1, 2, 3]);
    assert!(answer.answers(&request));
    for other in [
        Request {
            sequence: 6,
            ..request.clone()
        },
        Request {
            command: 2,
            ..request.clone()
        },
        Request {
            net_fn: 6,
            ..request
        },
    ] {
        assert!(!answer.answers(&other), "{other:?}");
    }
}

#[test]
fn wrong_password_fails_every_authentication_code() {
    for suite in Suite::ALL {
        let hand = handshake(suite, [3; 16], b"root".to_vec());
        let code = hand.rakp2_code(b"good");
        assert_eq!(code.len(), suite.code_length());
        assert!(hand.is_rakp2_code(b"good", &code));
        assert!(!hand.is_rakp2_code(b"bad", &code));
        assert!(!hand.is_rakp2_code(b"good", &[]));
        assert!(!hand.is_rakp2_code(b"good", code.get(..4).unwrap_or_default()));
        let three = hand.rakp3_code(b"good");
        assert!(hand.is_rakp3_code(b"good", &three) && !hand.is_rakp3_code(b"bad", &three));
        let (good, bad) = (hand.integrity_key(b"good"), hand.integrity_key(b"bad"));
        let four = hand.rakp4_code(&good);
        assert_eq!(four.len(), suite.integrity_length());
        assert!(hand.is_rakp4_code(&good, &four) && !hand.is_rakp4_code(&bad, &four));
    }
}

#[test]
fn debug_output_contains_no_keys() {
    let key = handshake(Suite::Cipher17, [1; 16], Vec::new()).integrity_key(b"s");
    assert_eq!(format!("{key:?}"), "SessionIntegrityKey { .. }");
    let keys = format!("{:?}", key.session_keys());
    assert_eq!(keys, "SessionKeys { suite: Cipher17, .. }");
}

#[test]
fn error_response_may_end_after_its_status() {
    let status = RakpStatus::INVALID_AUTHENTICATION;
    let open = OpenResponse::decode(&[7, 4]).map(|open| (open.tag, open.console, open.result));
    assert_eq!(open, Ok((7, 0, Err(status))));
    let two = Rakp2::decode(&[7, 4, 0]).map(|two| (two.tag, two.console, two.result));
    assert_eq!(two, Ok((7, 0, Err(status))));
    let four = Rakp4::decode(&[7, 4]).map(|four| (four.tag, four.console, four.result));
    assert_eq!(four, Ok((7, 0, Err(status))));
    assert_eq!(OpenResponse::decode(&[7, 0]), Err(WireError::Short));
}

#[test]
fn common_status_codes_include_advice() {
    for (status, word) in [
        (RakpStatus::UNAUTHORIZED_NAME, "check the user name"),
        (RakpStatus::NO_CIPHER_SUITE, "suite 17 or 3"),
        (RakpStatus::UNAUTHORIZED_ROLE, "privilegelevel=OPERATOR"),
        (RakpStatus::NO_RESOURCES, "wait a minute"),
    ] {
        assert!(status.to_string().contains(word), "{status}");
    }
    assert!(CompletionCode::PRIVILEGE.to_string().contains("OPERATOR"));
}

proptest! {
    #[test]
    fn decoding_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..200), rmcp: bool, suite in suite()) {
        let mut packet = if rmcp { vec![6, 0, 0xff, 7, 6] } else { Vec::new() };
        packet.extend(&bytes);
        let _ = Frame::decode(&packet);
        let _ = keys(suite).unseal(&packet);
        let _ = Request::decode(&bytes);
        let _ = Response::decode(&bytes);
        let _ = OpenRequest::decode(&bytes);
        let _ = OpenResponse::decode(&bytes);
        let _ = Rakp1::decode(&bytes);
        let _ = Rakp2::decode(&bytes);
        let _ = Rakp3::decode(&bytes);
        let _ = Rakp4::decode(&bytes);
        for byte in &bytes {
            let _ = RakpStatus::of(*byte).map(|status| (status.kind(), status.to_string()));
            let _ = CompletionCode::of(*byte).map(|code| (code.kind(), code.to_string()));
        }
    }

    #[test]
    fn sealed_packets_round_trip(
        suite in suite(), payload in vec(any::<u8>(), 0..80), session: u32, sequence: u32, iv: [u8; 16]
    ) {
        let keys = keys(suite);
        let packet = keys.seal(PayloadType::Ipmi, session, sequence, &payload, iv);
        prop_assert_eq!((packet.len() - 4 - suite.integrity_length()) % 4, 0);
        let payload_type = PayloadType::Ipmi;
        let whole = Unsealed { payload_type, session, sequence, payload };
        prop_assert_eq!(keys.unseal(&packet), Ok(whole));
    }

    #[test]
    fn changed_bit_is_detected(
        suite in suite(), payload in vec(any::<u8>(), 0..40), at: prop::sample::Index, bit in 0..8_u8
    ) {
        let keys = keys(suite);
        let packet = keys.seal(PayloadType::Ipmi, 1, 2, &payload, [5; 16]);
        let good = keys.unseal(&packet);
        let mut bad = packet.clone();
        // Byte 1 of RMCP is reserved, and no integrity code covers it.
        let index = at.index(packet.len());
        prop_assume!(index != 1);
        if let Some(byte) = bad.get_mut(index) {
            *byte ^= 1 << bit;
        }
        prop_assert!(good.is_ok());
        prop_assert!(keys.unseal(&bad).is_err());
    }

    #[test]
    fn truncated_packet_is_detected(suite in suite(), payload in vec(any::<u8>(), 0..40)) {
        let keys = keys(suite);
        let packet = keys.seal(PayloadType::Ipmi, 1, 2, &payload, [5; 16]);
        for end in 0..packet.len() {
            prop_assert!(keys.unseal(packet.get(..end).unwrap_or_default()).is_err());
        }
    }

    #[test]
    fn messages_round_trip(
        net_fn in 0..32_u8, lun in 0..4_u8, sequence in 0..64_u8, command: u8, completion: u8,
        data in vec(any::<u8>(), 0..60)
    ) {
        let request = Request { net_fn: net_fn * 2, lun, sequence, command, data: data.clone() };
        let read = Request::decode(&request.encode());
        prop_assert_eq!(read.as_ref(), Ok(&request));
        let response = request.answer(completion, data);
        let read = Response::decode(&response.encode());
        prop_assert_eq!(read.as_ref(), Ok(&response));
        prop_assert!(response.answers(&request));
    }

    #[test]
    fn session_setup_messages_round_trip(
        tag: u8, privilege in 0..5_u8, ids: (u32, u32), suite in suite(), status in 1..=255_u8,
        random in uniform16(any::<u8>()), user in vec(any::<u8>(), 0..=16), code in vec(any::<u8>(), 1..33)
    ) {
        let (console, managed) = ids;
        let algorithms = suite.algorithms();
        let open = OpenRequest { tag, privilege, console, algorithms };
        prop_assert_eq!(OpenRequest::decode(&open.encode()), Ok(open));
        let no = RakpStatus::of(status).ok_or_else(|| TestCaseError::fail("not 0"))?;
        for result in [Ok(Opened { privilege, managed, algorithms }), Err(no)] {
            let open = OpenResponse { tag, console, result };
            prop_assert_eq!(OpenResponse::decode(&open.encode()), Ok(open));
        }
        let one = Rakp1 { tag, managed, random, role: privilege | 0x10, user };
        prop_assert_eq!(Rakp1::decode(&one.encode()), Ok(one));
        let body = Rakp2Body { random, guid: random, code: code.clone() };
        for result in [Ok(body), Err(no)] {
            let two = Rakp2 { tag, console, result };
            prop_assert_eq!(Rakp2::decode(&two.encode()), Ok(two));
        }
        for result in [Ok(code), Err(no)] {
            let three = Rakp3 { tag, managed, result: result.clone() };
            prop_assert_eq!(Rakp3::decode(&three.encode()), Ok(three));
            let four = Rakp4 { tag, console, result };
            prop_assert_eq!(Rakp4::decode(&four.encode()), Ok(four));
        }
    }

    #[test]
    fn frames_round_trip(kind in prop::sample::select(TYPES.to_vec()), payload in vec(any::<u8>(), 0..60)) {
        let packet = plain(kind, &payload);
        let Ok(Frame::V20 { payload_type, payload: read, session: 0, encrypted: false, .. }) =
            Frame::decode(&packet)
        else {
            return Err(TestCaseError::fail("another frame"));
        };
        prop_assert_eq!((payload_type, read), (kind, payload.as_slice()));
        let packet = v15(&payload);
        prop_assert_eq!(Frame::decode(&packet), Ok(Frame::V15 { payload: &payload }));
    }
}
