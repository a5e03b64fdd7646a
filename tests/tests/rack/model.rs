//! The pure parts of the rack simulator: power, processes, sessions; time is an argument.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rackhand_tests::rack::power::{Answer, Change, Machine, Transition};
use rackhand_tests::rack::process::{HostProcess, PodIdentity, ProcessTable, Stamp};
use rackhand_tests::rack::redfish::SessionTable;
use rackhand_tests::rack::{
    HostConfig, OsState, PowerState, PowerTimings, ResetType, StopReason, overlaps,
};
const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn mk_timings() -> PowerTimings {
    PowerTimings {
        off_takes: ms(100),
        on_takes: ms(200),
        boot_takes: ms(1000),
        shutdown_takes: ms(500),
        cycle_pause: ms(50),
    }
}

/// A machine with its clock.
struct Bench {
    machine: Machine,
    start: Instant,
}

impl Bench {
    fn new(on: bool) -> Self {
        Self {
            machine: Machine::new(mk_timings(), on),
            start: Instant::now(),
        }
    }

    fn command(&mut self, at: u64, reset: ResetType) -> Answer {
        self.machine
            .command(self.start + ms(at), reset, &mut Vec::new())
    }

    /// Advances to `at`, and returns the changes with their times in milliseconds since the start.
    fn until(&mut self, at: u64) -> Vec<(u128, Change)> {
        let mut out = Vec::new();
        self.machine.advance(self.start + ms(at), &mut out);
        self.relative(&out)
    }

    fn relative(&self, out: &[Transition]) -> Vec<(u128, Change)> {
        out.iter()
            .map(|one| ((one.at - self.start).as_millis(), one.change))
            .collect()
    }
}

#[test]
fn hard_off_completes_after_its_delay() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.command(0, ResetType::ForceOff), Answer::Accepted);
    assert_eq!(bench.until(99), []);
    assert_eq!(bench.machine.power(), PowerState::PoweringOff);
    assert_eq!(bench.machine.os(), OsState::Running);
    assert_eq!(
        bench.until(100),
        [
            (100, Change::Power(PowerState::Off)),
            (100, Change::Os(OsState::Down))
        ]
    );
    assert_eq!(bench.machine.next_change(), None);
}

#[test]
fn power_on_boots_and_changes_have_their_due_times() {
    let mut bench = Bench::new(false);
    assert_eq!(bench.command(0, ResetType::On), Answer::Accepted);
    assert_eq!(bench.command(10, ResetType::On), Answer::Already);
    assert_eq!(
        bench.until(60_000),
        [
            (200, Change::Power(PowerState::On)),
            (200, Change::Os(OsState::Booting)),
            (1200, Change::Os(OsState::Running)),
        ]
    );
}

#[test]
fn power_cycle_is_off_pause_and_on() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.command(0, ResetType::PowerCycle), Answer::Accepted);
    let happened = bench.until(400);
    assert_eq!(happened[0], (100, Change::Power(PowerState::Off)));
    assert_eq!(happened[2], (150, Change::Power(PowerState::PoweringOn)));
    assert_eq!(happened[3], (350, Change::Power(PowerState::On)));
}

#[test]
fn hard_off_cancels_a_power_cycle() {
    let mut bench = Bench::new(true);
    bench.command(0, ResetType::PowerCycle);
    assert_eq!(bench.command(120, ResetType::ForceOff), Answer::Accepted);
    assert_eq!(bench.command(130, ResetType::ForceOff), Answer::Already);
    bench.until(60_000);
    assert_eq!(bench.machine.power(), PowerState::Off);
}

#[test]
fn hard_off_replaces_a_graceful_shutdown() {
    let mut bench = Bench::new(true);
    bench.command(0, ResetType::GracefulShutdown);
    bench.command(10, ResetType::ForceOff);
    assert_eq!(bench.until(1000)[0], (110, Change::Power(PowerState::Off)));
}

#[test]
fn hung_system_ignores_soft_off_and_stops_on_hard_off() {
    let mut bench = Bench::new(true);
    assert!(bench.machine.hang(bench.start, &mut Vec::new()));
    assert!(!bench.machine.hang(bench.start, &mut Vec::new()));
    assert_eq!(
        bench.command(0, ResetType::GracefulShutdown),
        Answer::Accepted
    );
    assert_eq!(
        bench.command(1, ResetType::PushPowerButton),
        Answer::Accepted
    );
    assert_eq!(
        bench.command(2, ResetType::GracefulRestart),
        Answer::Accepted
    );
    assert_eq!(bench.until(60_000), []);
    assert_eq!(
        (bench.machine.power(), bench.machine.os()),
        (PowerState::On, OsState::Hung)
    );
    bench.command(60_000, ResetType::ForceOff);
    bench.until(61_000);
    assert_eq!(
        (bench.machine.power(), bench.machine.os()),
        (PowerState::Off, OsState::Down)
    );
}

#[test]
fn reset_reboots_a_hung_system_without_power_loss() {
    let mut bench = Bench::new(true);
    bench.machine.hang(bench.start, &mut Vec::new());
    let mut out = Vec::new();
    bench
        .machine
        .command(bench.start, ResetType::ForceRestart, &mut out);
    assert_eq!(
        bench.relative(&out),
        [(0, Change::Reset), (0, Change::Os(OsState::Booting))]
    );
    assert_eq!(bench.until(5000), [(1000, Change::Os(OsState::Running))]);
}

#[test]
fn stuck_power_off_completes_only_when_released() {
    let mut bench = Bench::new(true);
    bench.machine.set_stuck(bench.start, true, &mut Vec::new());
    bench.command(0, ResetType::ForceOff);
    assert_eq!(bench.until(3_600_000), []);
    assert_eq!(bench.machine.power(), PowerState::PoweringOff);
    assert_eq!(bench.command(3_600_000, ResetType::On), Answer::Busy);
    bench
        .machine
        .set_stuck(bench.start + ms(3_600_000), false, &mut Vec::new());
    assert_eq!(
        bench.until(3_600_100)[0],
        (3_600_100, Change::Power(PowerState::Off))
    );
}

#[test]
fn powered_off_machine_rejects_reset_cycle_and_nmi() {
    let mut bench = Bench::new(false);
    for reset in [
        ResetType::ForceRestart,
        ResetType::PowerCycle,
        ResetType::Nmi,
    ] {
        assert_eq!(bench.command(0, reset), Answer::WrongState, "{reset}");
    }
    assert_eq!(bench.command(0, ResetType::ForceOff), Answer::Already);
    assert_eq!(
        bench.command(0, ResetType::GracefulShutdown),
        Answer::Already
    );
}

#[test]
fn system_that_never_boots_is_powered_on() {
    let mut bench = Bench::new(false);
    bench.machine.set_boots(bench.start, false, &mut Vec::new());
    bench.command(0, ResetType::On);
    bench.until(3_600_000);
    assert_eq!(
        (bench.machine.power(), bench.machine.os()),
        (PowerState::On, OsState::Booting)
    );
}

fn mk_stamp(start: Instant, at: u64) -> Stamp {
    Stamp {
        at: start + ms(at),
        wall: Timestamp::UNIX_EPOCH,
    }
}

fn mk_pod(uid: &str) -> PodIdentity {
    PodIdentity {
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
    }
}

fn on_host(host: &str, table: &ProcessTable) -> Vec<HostProcess> {
    let records = table.records().iter().cloned();
    records
        .map(|process| HostProcess {
            host: host.to_owned(),
            process,
        })
        .collect()
}

#[test]
fn process_starts_once_and_its_record_is_kept() {
    let start = Instant::now();
    let mut table = ProcessTable::default();
    assert!(table.start(mk_pod("a"), "boot-1", mk_stamp(start, 0)));
    assert!(!table.start(mk_pod("a"), "boot-1", mk_stamp(start, 1)));
    assert_eq!(
        table.stop_all(mk_stamp(start, 2), StopReason::PowerOff),
        [mk_pod("a")]
    );
    assert!(!table.stop("a", mk_stamp(start, 3), StopReason::Deleted));
    assert!(table.start(mk_pod("a"), "boot-2", mk_stamp(start, 4)));
    assert_eq!(table.records().len(), 2);
    assert_eq!(table.records()[0].why, Some(StopReason::PowerOff));
    assert_eq!(table.running().len(), 1);
}

#[test]
fn identity_running_on_two_hosts_is_an_overlap() {
    let start = Instant::now();
    let (mut first, mut second) = (ProcessTable::default(), ProcessTable::default());
    first.start(mk_pod("a"), "boot-1", mk_stamp(start, 0));
    second.start(mk_pod("b"), "boot-2", mk_stamp(start, 10));
    let both = |first: &ProcessTable, second: &ProcessTable| {
        overlaps([on_host("n1", first), on_host("n2", second)].concat())
    };
    let found = both(&first, &second);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].first.host.as_str(), found[0].second.host.as_str()),
        ("n1", "n2")
    );
    first.stop("a", mk_stamp(start, 11), StopReason::PowerOff);
    assert_eq!(
        both(&first, &second).len(),
        1,
        "a past overlap must be reported"
    );
}

#[test]
fn identity_moved_after_its_end_is_not_an_overlap() {
    let start = Instant::now();
    let (mut first, mut second) = (ProcessTable::default(), ProcessTable::default());
    first.start(mk_pod("a"), "boot-1", mk_stamp(start, 0));
    first.stop("a", mk_stamp(start, 10), StopReason::PowerOff);
    second.start(mk_pod("b"), "boot-2", mk_stamp(start, 10));
    assert_eq!(
        overlaps([on_host("n2", &second), on_host("n1", &first)].concat()),
        []
    );
}

#[test]
fn idle_sessions_expire_and_free_their_slots() {
    let start = Instant::now();
    let mut table = SessionTable::new(1, ms(100));
    let first = table.begin(start, "admin", "one".to_owned()).unwrap();
    assert_eq!(table.begin(start + ms(50), "admin", "two".to_owned()), None);
    assert_eq!(table.check(start + ms(90), "one"), Some("admin".to_owned()));
    assert_eq!(
        table.check(start + ms(189), "one"),
        Some("admin".to_owned()),
        "use counts"
    );
    assert_eq!(table.check(start + ms(300), "one"), None);
    assert!(!table.end(&first.id));
    assert!(
        table
            .begin(start + ms(300), "admin", "three".to_owned())
            .is_some()
    );
    assert_eq!((table.open(), table.opened()), (1, 2));
}

#[test]
fn hosts_with_similar_names_have_distinct_uuids_and_networks() {
    let hosts: Vec<_> = (1..100).map(|n| HostConfig::new(format!("n{n}"))).collect();
    let mut uuids: Vec<_> = hosts.iter().map(|host| host.uuid.as_str()).collect();
    let mut networks: Vec<_> = hosts.iter().map(HostConfig::pod_network).collect();
    uuids.sort_unstable();
    uuids.dedup();
    networks.sort_unstable();
    networks.dedup();
    assert_eq!(uuids.len(), 99);
    assert!(networks.len() > 90, "{}", networks.len());
    assert_eq!(
        HostConfig::new("n1").uuid,
        hosts[0].uuid,
        "the UUID must be deterministic"
    );
}
