//! Table and property tests of the queue of one BMC.

use proptest::prelude::*;

use super::*;

/// A queue with these operations on host `a`; none is replaced.
fn queue(ranks: &[OperationRank]) -> (State, Vec<u64>) {
    let mut state = State::default();
    let numbers = ranks.iter().map(|rank| {
        let (number, overtaken) = state.join("a", *rank);
        assert!(overtaken.is_empty(), "{overtaken:?}");
        number
    });
    let numbers = numbers.collect();
    (state, numbers)
}

/// The queued operations of a host in their order.
fn order(state: &State, host: &str) -> Vec<u64> {
    let entries = state.hosts.get(host).into_iter().flatten();
    entries.map(|entry| entry.number).collect()
}

#[test]
fn operations_of_one_host_run_in_request_order() {
    let (mut state, numbers) = queue(&[
        OperationRank::HardOff,
        OperationRank::HardOff,
        OperationRank::Other,
        OperationRank::Other,
    ]);
    for number in &numbers {
        assert!(state.has_turn("a", *number));
        let others = numbers.iter().filter(|other| *other != number);
        assert!(others.clone().all(|other| !state.has_turn("a", *other)));
        state.leave("a", *number);
    }
    assert_eq!(state.hosts, BTreeMap::new());
}

#[test]
fn f3_hard_off_cancels_waiting_operations() {
    let (mut state, numbers) = queue(&[
        OperationRank::HardOff,
        OperationRank::Other,
        OperationRank::Other,
    ]);
    let (fence, overtaken) = state.join("a", OperationRank::HardOff);
    assert_eq!(overtaken, numbers[1..], "the on and the cycle that waited");
    assert_eq!(order(&state, "a"), [numbers[0], fence]);
    let (later, overtaken) = state.join("a", OperationRank::Other);
    assert!(overtaken.is_empty());
    assert_eq!(order(&state, "a"), [numbers[0], fence, later]);
}

#[test]
fn hard_off_cancels_the_running_operation_and_waits_for_it() {
    let (mut state, numbers) = queue(&[OperationRank::Other, OperationRank::Other]);
    let (fence, overtaken) = state.join("a", OperationRank::HardOff);
    assert_eq!(overtaken, numbers);
    assert!(
        state.has_turn("a", numbers[0]),
        "its command may be under way"
    );
    let (second, overtaken) = state.join("a", OperationRank::HardOff);
    assert!(overtaken.is_empty(), "cancelled twice");
    state.leave("a", numbers[0]);
    assert!(state.has_turn("a", fence));
    state.leave("a", fence);
    assert!(state.has_turn("a", second));
}

#[test]
fn forcing_operation_is_not_cancelled_by_a_hard_off() {
    let (mut state, numbers) = queue(&[OperationRank::Other, OperationRank::Other]);
    state.hold_turn("a", numbers[0]);
    let (fence, overtaken) = state.join("a", OperationRank::HardOff);
    assert_eq!(overtaken, [numbers[1]]);
    assert_eq!(order(&state, "a"), [numbers[0], fence]);
}

#[test]
fn f6_hosts_behind_one_bmc_have_separate_operation_queues() {
    let (mut state, numbers) = queue(&[OperationRank::Other, OperationRank::Other]);
    let (neighbour, overtaken) = state.join("b", OperationRank::HardOff);
    assert!(
        overtaken.is_empty(),
        "a hard off cancelled an operation of another host"
    );
    assert!(state.has_turn("a", numbers[0]) && state.has_turn("b", neighbour));
}

#[test]
fn calls_are_ordered_by_class_and_then_by_age() {
    let mut state = State::default();
    let classes = [
        CallClass::Reader,
        CallClass::Operation,
        CallClass::Reader,
        CallClass::Fence,
        CallClass::Operation,
        CallClass::Fence,
    ];
    let calls: Vec<u64> = classes
        .iter()
        .map(|class| state.request_call(*class))
        .collect();
    let mut went = Vec::new();
    while let Some(next) = calls.iter().position(|call| state.take_call(*call)) {
        assert_eq!(
            calls.iter().filter(|call| state.take_call(**call)).count(),
            1
        );
        went.push(next);
        state.end_call(calls[next]);
    }
    assert_eq!(went, [3, 5, 1, 4, 0, 2]);
}

#[test]
fn only_a_higher_class_interrupts_a_call() {
    for (class, waits, yields) in [
        (CallClass::Reader, CallClass::Reader, false),
        (CallClass::Reader, CallClass::Operation, true),
        (CallClass::Operation, CallClass::Operation, false),
        (CallClass::Operation, CallClass::Reader, false),
        (CallClass::Operation, CallClass::Fence, true),
        (CallClass::Fence, CallClass::Fence, false),
    ] {
        let mut state = State::default();
        let call = state.request_call(class);
        assert!(state.take_call(call));
        let other = state.request_call(waits);
        assert_eq!(state.must_yield(call), yields, "{class:?} {waits:?}");
        assert!(!state.must_yield(other), "a waiting call must not yield");
        state.end_call(other);
        assert!(!state.must_yield(call), "the waiting call was removed");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Join(usize, OperationRank),
    Leave(usize),
    Call(CallClass),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rank = prop_oneof![Just(OperationRank::HardOff), Just(OperationRank::Other)];
    let class = prop_oneof![
        Just(CallClass::Fence),
        Just(CallClass::Operation),
        Just(CallClass::Reader)
    ];
    let step = prop_oneof![
        (0_usize..3, rank).prop_map(|(host, rank)| Step::Join(host, rank)),
        (0_usize..8).prop_map(Step::Leave),
        class.prop_map(Step::Call),
        (0_usize..8).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// In every sequence of events there is one running operation per host and one call per BMC, a
    /// hard off never waits behind an operation of lower rank, and every remaining operation gets
    /// its turn.
    #[test]
    fn f6_one_operation_per_host_one_call_per_bmc_and_fences_first(steps in steps()) {
        const HOSTS: [&str; 3] = ["a", "b", "c"];
        let mut state = State::default();
        let mut operations: Vec<(&str, u64, OperationRank)> = Vec::new();
        let mut calls: Vec<(CallClass, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Join(host, rank) => {
                    let host = HOSTS[host];
                    let (number, overtaken) = state.join(host, rank);
                    for other in &overtaken {
                        let known = operations.iter().find(|(_, n, _)| n == other);
                        prop_assert!(known.is_some_and(|(h, _, r)| *h == host && *r == OperationRank::Other));
                    }
                    if rank == OperationRank::HardOff {
                        // A replaced operation that is not running leaves the queue.
                        for other in overtaken.iter().filter(|n| !state.has_turn(host, **n)) {
                            operations.retain(|(_, number, _)| number != other);
                        }
                        let behind = order(&state, host);
                        let first = behind.first().copied();
                        let soft = operations.iter().any(|(h, n, r)| {
                            *h == host && *r == OperationRank::Other && Some(*n) != first
                        });
                        prop_assert!(!soft, "an operation other than a hard off is waiting");
                    }
                    operations.push((host, number, rank));
                }
                Step::Leave(at) if at < operations.len() => {
                    let (host, number, _) = operations.remove(at);
                    state.leave(host, number);
                }
                Step::Call(class) => calls.push((class, state.request_call(class))),
                Step::End(at) if at < calls.len() => {
                    let (_, number) = calls.remove(at);
                    state.end_call(number);
                }
                Step::Leave(_) | Step::End(_) => {}
            }
            let idle = state.calling.is_none();
            let took: Vec<(CallClass, u64)> = calls.iter().copied().filter(|(_, n)| state.take_call(*n)).collect();
            prop_assert!(took.len() <= 1, "{took:?}");
            if let (true, Some(took)) = (idle, took.first()) {
                prop_assert_eq!(Some(took), calls.iter().min());
            }
            for host in HOSTS {
                let mine = operations.iter().filter(|(h, ..)| *h == host);
                let turns = mine.clone().filter(|(h, n, _)| state.has_turn(h, *n)).count();
                prop_assert_eq!(turns, usize::from(mine.count() > 0));
            }
        }
    }
}
