//! Habits of API servers: what cannot be read is neither absent nor healthy, and detection goes on afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use rackhand_simulator::{
    Habit, Options, Outcome,
    api::{
        Reply, Request,
        resource::{MACHINES, NODES, OPENSHIFT_MACHINES},
    },
    fleet::{Fleet, FleetSpec},
    kernel::World,
};
use serde_json::Value;

/// A world with the objects of one rack.
fn world() -> World {
    let mut world = World::new(1, Fleet::new(FleetSpec::of(3, 1, 1)));
    world.write_objects();
    world
}

fn get(world: &mut World, path: &str) -> (u16, Value) {
    let request = Request {
        method: "GET".into(),
        path: path.into(),
        ..Request::default()
    };
    match world.api.handle(&request) {
        Reply::Document(code, document) => (code, Value::clone(&document)),
        Reply::Text(code, text) => (code, text.into()),
        Reply::Watch(_) => panic!("not a watch"),
    }
}

const MACHINE_LIST: &str = "/apis/cluster.x-k8s.io/v1beta1/machines";

#[test]
fn preferred_version_of_a_group_lacks_kinds_of_an_older_one() {
    let mut world = world();
    let (_, groups) = get(&mut world, "/apis");
    let groups = groups["groups"].as_array().unwrap().clone();
    let preferred = |name: &str| {
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        let preferred = &group["preferredVersion"]["groupVersion"];
        preferred.as_str().unwrap().to_owned()
    };
    for (group, kind) in [
        ("machine.openshift.io", "MachineHealthCheck"),
        ("infrastructure.cluster.x-k8s.io", "Metal3Remediation"),
    ] {
        let path = format!("/apis/{}", preferred(group));
        let (_, list) = get(&mut world, &path);
        let kinds = list["resources"].as_array().unwrap();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|of| of["kind"] != kind),
            "{list}"
        );
        let older = format!("/apis/{group}/v1beta1");
        let (_, list) = get(&mut world, &older);
        let mut kinds = list["resources"].as_array().unwrap().iter();
        assert!(kinds.any(|of| of["kind"] == kind), "{list}");
    }
}

#[test]
fn starting_api_server_accepts_requests_and_is_not_ready() {
    let mut world = world();
    assert_eq!(get(&mut world, "/readyz").0, 200);
    assert_eq!(get(&mut world, MACHINE_LIST).0, 200);
    world.begin_habit(Habit::ApiStarting);
    assert_eq!(get(&mut world, "/readyz").0, 500);
    assert_eq!(get(&mut world, "/version").0, 200);
    assert_eq!(get(&mut world, "/api/v1/nodes").0, 200);
    let (code, answer) = get(&mut world, MACHINE_LIST);
    assert_eq!((code, &answer["details"]), (404, &Value::Null));
    let (_, groups) = get(&mut world, "/apis");
    assert!(!groups.to_string().contains("cluster.x-k8s.io"), "{groups}");
    world.end_habit(Habit::ApiStarting);
    assert_eq!(get(&mut world, MACHINE_LIST).0, 200);
}

#[test]
fn rights_that_are_taken_leave_everything_else() {
    let mut world = world();
    world.begin_habit(Habit::RightsTaken);
    assert_eq!(get(&mut world, MACHINE_LIST).0, 403);
    assert_eq!(get(&mut world, "/version").0, 200);
    assert_eq!(get(&mut world, "/readyz").0, 200);
    let (_, groups) = get(&mut world, "/apis");
    assert!(groups.to_string().contains("cluster.x-k8s.io"), "{groups}");
}

#[test]
fn dropped_version_and_late_crd_answer_404_without_details() {
    let checks = "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks";
    for (habit, path) in [
        (Habit::VersionDropped, MACHINE_LIST),
        (Habit::CrdsLate, checks),
    ] {
        let mut world = world();
        assert_eq!(get(&mut world, path).0, 200);
        world.begin_habit(habit);
        let (code, answer) = get(&mut world, path);
        assert_eq!((code, &answer["details"]), (404, &Value::Null), "{habit:?}");
        assert_eq!(get(&mut world, "/readyz").0, 200);
        world.end_habit(habit);
        assert_eq!(get(&mut world, path).0, 200);
    }
}

#[test]
fn conditions_may_have_no_time() {
    let mut world = world();
    world.begin_habit(Habit::NullTransition);
    for (resource, is_there) in [(NODES, true), (MACHINES, true), (OPENSHIFT_MACHINES, false)] {
        let objects: Vec<_> = world.api.list(resource).cloned().collect();
        assert!(!objects.is_empty() || !is_there);
        for object in objects {
            let conditions = object["status"]["conditions"].as_array().unwrap();
            let mut times = conditions.iter().map(|c| &c["lastTransitionTime"]);
            assert!(
                !conditions.is_empty() && times.all(Value::is_null),
                "{object}"
            );
        }
    }
}

/// Half an hour in which a host of each health check hangs; a habit acts for the first half.
fn run(habit: Habit, seed: u64) -> Outcome {
    let options = Options {
        habit: Some(habit),
        ..Options::new(seed, Duration::from_secs(40 * 60))
    };
    let program = env!("CARGO_BIN_EXE_rackhand-simulator");
    rackhand_simulator::run(program.as_ref(), &options).unwrap()
}

#[test]
fn f12_nothing_is_remediated_by_what_cannot_be_read_and_detection_goes_on_afterwards() {
    for habit in Habit::ALL {
        for seed in [0, 1] {
            let outcome = run(habit, seed);
            assert_eq!(outcome.violations, [], "{habit:?}, seed {seed}");
            let (begun, left) = outcome.habit.unwrap();
            let counts = &outcome.counts;
            match habit.withholds() {
                true => assert_eq!(begun, 0, "{habit:?}, seed {seed}: {counts:?}"),
                false => assert!(begun >= 3, "{habit:?}, seed {seed}: {begun}"),
            }
            // One for each check, and none for a host that works.
            assert_eq!(counts.remediations, 3, "{habit:?}, seed {seed}");
            assert_eq!(left, [""; 0], "{habit:?}, seed {seed}");
        }
    }
}
