//! Thousands of runs over a network that drops, repeats, delays, reorders and corrupts datagrams.

use std::time::Duration;

use super::world::{Faults, LIMIT, Seed, World, control, status};
use crate::{ErrorKind, ipmi::session::Exchange};

/// One lifetime of a client: calls of every kind, some dropped before they end, external power
/// changes, and a BMC that restarts.
fn live(number: u64, faults: Faults) {
    let mut plan = Seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::admin();
    world.seed = Seed(plan.next() | 1);
    world.faults = faults;
    if plan.percent(20) {
        world.slow = Duration::from_millis(plan.below(2000));
    }
    let mut never = Vec::new();
    for call in 0..8 {
        if plan.percent(60) {
            let power = plan.percent(50);
            world.switch(power);
        }
        if plan.percent(15) {
            world.bmc.restart();
        }
        if plan.percent(30) {
            let at = usize::try_from(plan.below(CODES.len() as u64)).unwrap_or_default();
            let count = usize::try_from(plan.below(12)).unwrap_or_default();
            world.bmc.codes = vec![CODES[at]; count];
        }
        let exchange = match plan.below(4) {
            0 => reset(call),
            1 => control(0),
            2 => control(1),
            _ => status(),
        };
        let is_status = exchange == status();
        let is_reset = exchange == reset(call);
        let (began, sent) = (world.now, world.sent.len());
        let dropped = plan
            .percent(20)
            .then(|| began + Duration::from_millis(plan.below(800)));
        world.begin(exchange);
        let outcome = world.go_on(dropped);
        let took = world.now - began;
        let sent = world.sent.len() - sent;
        assert!(sent <= 60, "run {number}: {sent} datagrams for one call");
        assert!(took <= LIMIT, "run {number}: {took:?}");
        match outcome {
            Some(Ok(answer)) if answer.completion == 0 && is_status => {
                let power = answer.data.first() == Some(&1);
                assert!(world.was(power, began), "run {number}: stale power state");
            }
            Some(Ok(answer)) if answer.completion == 0 && is_reset => {
                assert!(
                    world.bmc.resets.contains(&call),
                    "run {number}: not executed"
                );
            }
            Some(Err(failure)) if !failure.maybe_sent => never.push(call),
            _ => {}
        }
        // Early enough to overlap with late packets of this call, or long after.
        let longest = if plan.percent(60) { 50 } else { 8_000 };
        world.rest(Duration::from_millis(plan.below(longest)));
    }
    // On a network without loss, no session stays open.
    world.rest(Duration::from_secs(5));
    world.machine.close(world.now, &mut world.seed);
    world.send_leftovers();
    world.rest(Duration::from_secs(5));
    assert!(!world.machine.has_session());
    if faults.drop == 0 && faults.corrupt == 0 {
        assert_eq!(world.bmc.sessions().0, 0, "run {number}: a session is open");
    }
    let mut resets = world.bmc.resets.clone();
    resets.sort_unstable();
    resets.dedup();
    assert_eq!(
        resets.len(),
        world.bmc.resets.len(),
        "run {number}: a reset was executed twice"
    );
    let is_never = |call: &u8| never.contains(call);
    assert!(
        !resets.iter().any(is_never),
        "run {number}: executed, but reported as not sent"
    );
}

/// A hard reset whose data identify the call.
fn reset(call: u8) -> Exchange {
    let mut exchange = control(3);
    exchange.data.push(call);
    exchange
}

/// Completion codes other than success that the BMC may return.
const CODES: [u8; 7] = [0xc0, 0xc1, 0xc3, 0xd2, 0xd4, 0xd5, 0xff];

const LATE: Duration = Duration::from_millis(1200);

#[test]
fn session_survives_delayed_repeated_and_reordered_packets() {
    for number in 0..1500 {
        let delay = if number % 2 == 0 { LATE } else { LATE / 10 };
        let faults = Faults {
            duplicate: 20,
            delay,
            ..Faults::default()
        };
        live(number, faults);
    }
}

#[test]
fn session_survives_lost_repeated_and_corrupt_packets() {
    for number in 0..1500 {
        let faults = Faults {
            drop: 5 + number % 40,
            duplicate: 15,
            corrupt: number % 7,
            delay: LATE / (1 + u32::try_from(number % 12).unwrap_or_default()),
        };
        live(number, faults);
    }
}

#[test]
fn packet_loss_of_20_percent_fails_under_5_percent_of_calls() {
    let (mut good, mut all) = (0, 0);
    for number in 1..300 {
        let mut world = World::admin();
        world.seed = Seed(number);
        world.faults.drop = 20;
        for exchange in [status(), control(0), status()] {
            all += 1;
            match world.ask(exchange) {
                Ok(_) => good += 1,
                Err(failure) => assert_eq!(failure.kind, ErrorKind::Timeout, "{failure:?}"),
            }
        }
    }
    // One packet in five is lost, each way.
    assert!(good * 100 > all * 95, "{good} of {all}");
}
