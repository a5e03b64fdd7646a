//! Arbitrary packets: no panic, no power change without a complete and signed command, and
//! deterministic responses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::client::{ADMIN, log_in, operator};
use super::*;

/// Packet prefixes after which random bytes reach deep into the parser.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![6, 0, 0xff, 7]),
        Just(vec![6, 0, 0xff, 6, 0, 0, 0x11, 0xbe]),
        Just(vec![6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (0..0x16_u8).prop_map(|kind| vec![6, 0, 0xff, 7, 6, kind, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]
}

/// Any command with any data, well-formed.
fn commands() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let net_fn = prop::sample::select(vec![0x00_u8, 0x04, 0x06, 0x0a, 0x0c, 0x2c, 0x30]);
    (net_fn, 0..0x60_u8, vec(any::<u8>(), 0..20))
}

proptest! {
    #[test]
    fn arbitrary_packets_neither_panic_nor_switch_power(
        packets in vec((heads(), vec(any::<u8>(), 0..120)), 1..20), mut seconds in 0..100_u32
    ) {
        let mut now = Instant::now();
        let mut bmc = bmc(now);
        for (head, tail) in packets {
            bmc.receive(&[head, tail].concat(), now);
            seconds = seconds.wrapping_mul(31) % 100;
            now += SECOND * seconds;
        }
        prop_assert_eq!(bmc.power_counts(now), PowerCounts::default());
        prop_assert_eq!(bmc.sessions(now), 0);
    }

    #[test]
    fn arbitrary_commands_are_answered_once(commands in vec(commands(), 1..20)) {
        let now = Instant::now();
        let mut bmc = bmc(now);
        let mut client = log_in(&mut bmc, &ADMIN, now).expect("a session");
        client.ask(&mut bmc, SET_PRIVILEGE, &[4], now).expect("administrator");
        for (net_fn, command, data) in commands {
            let command = Command::new(net_fn, command);
            // Commands that end the session or lower its privilege.
            if net_fn == 0x06 && [0x02, 0x3b, 0x3c].contains(&command.command) {
                continue;
            }
            let packet = client.packet(command, &data);
            let out = bmc.receive(&packet, now);
            prop_assert!(out.is_some());
            prop_assert_eq!(client.read(&out.unwrap_or_default()).command, command.command);
        }
    }

    #[test]
    fn corrupt_chassis_control_switches_nothing(at: prop::sample::Index, bit in 0..8_u8, cut: bool) {
        let now = Instant::now();
        let mut bmc = bmc(now);
        let mut client = operator(&mut bmc, now);
        let mut packet = client.packet(Command::CHASSIS_CONTROL, &[0]);
        let at = at.index(packet.len());
        // Byte 1 of RMCP is reserved, and no integrity code covers it.
        prop_assume!(at != 1);
        if cut {
            packet.truncate(at);
        } else {
            packet[at] ^= 1 << bit;
        }
        bmc.receive(&packet, now);
        prop_assert_eq!(bmc.power_counts(now), PowerCounts::default());
    }

    #[test]
    fn same_seed_and_packets_give_the_same_responses(seed: u64, commands in vec(commands(), 0..10)) {
        let now = Instant::now();
        let run = || {
            let change = |config: &mut IpmiConfig| config.seed = seed;
            let mut bmc = bmc_with(change, StandaloneHost::instant(true), now);
            let mut client = operator(&mut bmc, now);
            let answers: Vec<_> = commands.iter().map(|(net_fn, command, data)| {
                let packet = client.packet(Command::new(*net_fn, *command), data);
                bmc.receive(&packet, now)
            }).collect();
            (answers, bmc.counters().clone())
        };
        prop_assert_eq!(run(), run());
    }
}
