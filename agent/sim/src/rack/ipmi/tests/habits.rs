//! Habits of real BMCs, each seen in the packets of a simulated one.

use rackhand_bmc::ipmi::wire::{OpenResponse, PayloadType, Rakp1, plain};

use super::client::{opening, payload, *};
use super::*;
use crate::rack::ipmi::config::CANNED_GUID;

const BOOT_OPTIONS: Command = Command::new(0x00, 0x09);
const SYSTEM_GUID: Command = Command::new(0x06, 0x37);

fn openbmc(now: Instant) -> Bmc {
    let host = StandaloneHost::instant(true);
    Bmc::new(IpmiConfig::openbmc(), Box::new(host), now)
}

/// The payload of RAKP message 2 for a user that does not exist.
fn refusal(bmc: &mut Bmc, now: Instant) -> Vec<u8> {
    let opened = bmc.receive(&opening(&ADMIN), now).expect("an answer");
    let opened = OpenResponse::decode(payload(&opened)).expect("open session response");
    let rakp1 = Rakp1 {
        tag: 2,
        managed: opened.result.expect("a session").managed,
        random: [5; 16],
        role: 0x14,
        user: b"nobody".to_vec(),
    };
    let packet = plain(PayloadType::Rakp1, &rakp1.encode());
    let packet = bmc.receive(&packet, now).expect("an answer");
    payload(&packet).to_vec()
}

#[test]
fn openbmc_refuses_a_login_with_tag_and_console_zero() {
    let now = Instant::now();
    let refused = refusal(&mut openbmc(now), now);
    assert_eq!(refused[..2], [0, 0x0d]);
    assert_eq!((refused.len(), &refused[2..]), (40, &[0; 38][..]));
    let standard = refusal(&mut bmc(now), now);
    assert_eq!(standard[..2], [2, 0x0d]);
    assert_ne!(standard[4..8], [0; 4]);
}

#[test]
fn openbmc_pads_an_aligned_payload_with_a_whole_block() {
    let now = Instant::now();
    let mut lengths = Vec::new();
    for mut bmc in [openbmc(now), bmc(now)] {
        let mut client = operator(&mut bmc, now);
        // The message of its answer has 15 bytes, and the length of the padding makes it 16.
        let packet = client.packet(BOOT_OPTIONS, &[5, 0, 0]);
        let packet = bmc.receive(&packet, now).expect("an answer");
        lengths.push(payload(&packet).len());
    }
    assert_eq!(lengths, [16 + 32, 16 + 16]);
}

#[test]
fn openbmc_without_a_uuid_reports_the_canned_guid() {
    let now = Instant::now();
    let mut bmc = openbmc(now);
    let mut client = log_in(&mut bmc, &ADMIN, now).expect("a session");
    let guid = client.ask(&mut bmc, SYSTEM_GUID, &[], now);
    assert_eq!(guid, Ok((1..=16).collect()));
    assert_eq!(CANNED_GUID.to_vec(), (1..=16).collect::<Vec<u8>>());
}

#[test]
fn bmc_that_lost_the_power_state_refuses_by_what_it_believes() {
    let now = Instant::now();
    for (already, refusal) in [(None, Ok(())), (Some(0xd5), Err(0xd5))] {
        let host = StandaloneHost::instant(true);
        let mut bmc = bmc_with(|config| config.already = already, host, now);
        let mut client = operator(&mut bmc, now);
        bmc.forget_power();
        assert!(!client.is_on(&mut bmc, now));
        assert_eq!(client.control(&mut bmc, 0, now), refusal, "already off");
        assert_eq!(client.control(&mut bmc, 3, now), Err(0xd5), "a reset");
        assert_eq!(bmc.power_counts(now), PowerCounts::default());
        assert!(!client.is_on(&mut bmc, now), "nothing was carried out");
        // It carries out a power-on, and learns that the host is on.
        assert_eq!(client.control(&mut bmc, 1, now), Ok(()));
        assert!(client.is_on(&mut bmc, now));
        assert_eq!(client.control(&mut bmc, 0, now), Ok(()));
        assert_eq!(bmc.power_counts(now).offs, 1);
        assert_eq!(client.control(&mut bmc, 0, now), refusal, "off again");
    }
}
