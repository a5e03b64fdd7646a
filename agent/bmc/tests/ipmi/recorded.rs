//! Recorded runs of ipmitool against third-party servers, one datagram per line: `>` to the BMC,
//! `<` from it. Codes, keys and packets of this crate must match them.

use super::wire::{
    Frame, Handshake, OpenRequest, OpenResponse, PayloadType, Rakp1, Rakp2, Rakp3, Rakp4, Request,
    Response, SessionKeys, Suite,
};

struct Recorded {
    text: &'static str,
    suite: Suite,
    kg: &'static [u8],
    /// Chassis Control or Chassis Status, the command of the run.
    command: u8,
}

const PASSWORD: &[u8] = b"secret";

const RUNS: [Recorded; 4] = [
    Recorded {
        text: include_str!("recorded/ipmi_sim-3.txt"),
        suite: Suite::Cipher3,
        kg: PASSWORD,
        command: 1,
    },
    Recorded {
        text: include_str!("recorded/ipmi_sim-3-kg.txt"),
        suite: Suite::Cipher3,
        kg: b"a-bmc-key",
        command: 1,
    },
    Recorded {
        text: include_str!("recorded/goipmi-3.txt"),
        suite: Suite::Cipher3,
        kg: PASSWORD,
        command: 2,
    },
    Recorded {
        text: include_str!("recorded/goipmi-17.txt"),
        suite: Suite::Cipher17,
        kg: PASSWORD,
        command: 2,
    },
];

fn packets(text: &str) -> Vec<(bool, Vec<u8>)> {
    let bytes = |digits: &str| {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
        pairs.map(|pair| byte(pair).expect("hexadecimal")).collect()
    };
    let line = |line: &str| {
        let (to, digits) = line.split_once(' ').expect("two words");
        (to == ">", bytes(digits))
    };
    text.lines().map(line).collect()
}

/// The handshake of a run.
struct Shaken {
    open: OpenRequest,
    opened: OpenResponse,
    one: Rakp1,
    two: Rakp2,
    three: Rakp3,
    four: Rakp4,
}

fn shaken(packets: &[(bool, Vec<u8>)]) -> Shaken {
    let find = |wanted: PayloadType| {
        let payload = |(_, packet): &(bool, Vec<u8>)| match Frame::decode(packet) {
            Ok(Frame::V20 {
                payload_type,
                payload,
                ..
            }) if payload_type == wanted => Some(payload.to_vec()),
            _ => None,
        };
        packets
            .iter()
            .find_map(payload)
            .expect("a message of each kind")
    };
    Shaken {
        open: OpenRequest::decode(&find(PayloadType::OpenRequest)).expect("open"),
        opened: OpenResponse::decode(&find(PayloadType::OpenResponse)).expect("opened"),
        one: Rakp1::decode(&find(PayloadType::Rakp1)).expect("1"),
        two: Rakp2::decode(&find(PayloadType::Rakp2)).expect("2"),
        three: Rakp3::decode(&find(PayloadType::Rakp3)).expect("3"),
        four: Rakp4::decode(&find(PayloadType::Rakp4)).expect("4"),
    }
}

/// Checks the codes of the handshake; returns the session keys and both session ids.
fn keys(run: &Recorded, packets: &[(bool, Vec<u8>)]) -> (SessionKeys, u32, u32) {
    let shaken = shaken(packets);
    assert_eq!(shaken.open.algorithms, run.suite.algorithms());
    let opened = shaken.opened.result.expect("agreed");
    assert_eq!(opened.algorithms, run.suite.algorithms());
    let body = shaken.two.result.expect("a known user");
    let hand = Handshake {
        suite: run.suite,
        console: shaken.open.console,
        managed: opened.managed,
        console_random: shaken.one.random,
        managed_random: body.random,
        guid: body.guid,
        role: shaken.one.role,
        user: shaken.one.user,
    };
    assert_eq!(hand.rakp2_code(PASSWORD).to_vec(), body.code);
    let code = shaken.three.result.expect("going on");
    assert_eq!(hand.rakp3_code(PASSWORD).to_vec(), code);
    let key = hand.integrity_key(run.kg);
    assert_eq!(hand.rakp4_code(&key), shaken.four.result.expect("agreed"));
    (key.session_keys(), hand.console, hand.managed)
}

#[test]
fn authentication_codes_match_the_recording() {
    for run in &RUNS {
        keys(run, &packets(run.text));
    }
}

#[test]
fn encoded_packets_match_the_recording() {
    for run in &RUNS {
        let packets = packets(run.text);
        let (keys, console, managed) = keys(run, &packets);
        let mut commands = Vec::new();
        for (is_request, packet) in &packets {
            let Ok(Frame::V20 {
                payload_type: PayloadType::Ipmi,
                encrypted: true,
                session,
                sequence,
                payload,
                ..
            }) = Frame::decode(packet)
            else {
                continue;
            };
            let unsealed = keys.unseal(packet).expect("our keys");
            assert_eq!(session, if *is_request { managed } else { console });
            let iv = *payload.first_chunk().expect("a vector");
            let again = keys.seal(PayloadType::Ipmi, session, sequence, &unsealed.payload, iv);
            assert_eq!(&again, packet);
            if *is_request {
                let request = Request::decode(&unsealed.payload).expect("request");
                assert_eq!(request.encode(), unsealed.payload);
                commands.push((request.net_fn, request.command));
            } else {
                let response = Response::decode(&unsealed.payload).expect("response");
                let asked = commands.last().copied().expect("after its request");
                assert_eq!((response.net_fn, response.command), (asked.0 | 1, asked.1));
            }
        }
        assert!(commands.contains(&(0, run.command)), "{commands:?}");
        assert_eq!(commands.last(), Some(&(6, 0x3c)));
    }
}

#[test]
fn setup_messages_match_those_of_ipmitool() {
    for run in &RUNS {
        let packets = packets(run.text);
        let shaken = shaken(&packets);
        let written = [
            (PayloadType::OpenRequest, shaken.open.encode()),
            (PayloadType::Rakp1, shaken.one.encode()),
            (PayloadType::Rakp3, shaken.three.encode()),
        ];
        for (wanted, bytes) in written {
            let is_there = packets.iter().any(|(_, packet)| {
                matches!(
                    Frame::decode(packet),
                    Ok(Frame::V20 { payload_type, payload, .. })
                        if payload_type == wanted && payload == bytes
                )
            });
            assert!(is_there, "{wanted:?}");
        }
    }
}
