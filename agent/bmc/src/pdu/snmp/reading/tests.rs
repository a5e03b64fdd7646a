//! Readings from values of every type.

use proptest::prelude::*;

use super::{super::tables, *};
use crate::pdu::PduTable;

fn read(name: PduTable, values: &[Value]) -> Option<OutletReading> {
    reading(tables::table(name), OutletId("1".to_owned()), values)
}

fn int(value: i32) -> Value {
    Value::Integer(value)
}

fn name(text: &str) -> Value {
    Value::OctetString(text.as_bytes().to_vec().into())
}

#[test]
fn apc_outlet_is_read_with_tenths_of_an_ampere() {
    let values = [int(2), int(2), name("node-7"), int(9), int(163)];
    let read = read(PduTable::ApcRpdu2, &values).unwrap();
    assert_eq!(read.state, OutletState::On);
    assert_eq!(read.label.as_deref(), Some("node-7"));
    assert_eq!((read.amperes, read.watts), (Some(0.9), Some(163.0)));
}

#[test]
fn f1_outlet_with_a_pending_command_is_not_off() {
    let off = |pending| {
        let values = [
            int(1),
            int(pending),
            name(""),
            Value::NoSuchInstance,
            Value::Null,
        ];
        let read = read(PduTable::ApcRpdu2, &values).unwrap();
        assert_eq!((read.amperes, read.watts, read.label), (None, None, None));
        read.state
    };
    assert_eq!(off(2), OutletState::Off);
    assert_eq!(off(1), OutletState::Switching);
}

#[test]
fn f1_outlet_without_a_state_does_not_exist() {
    for table in PduTable::ALL {
        for missing in [Value::NoSuchInstance, Value::NoSuchObject, Value::Null] {
            assert_eq!(read(table, &[missing]), None, "{table}");
        }
        assert_eq!(read(table, &[]), None, "{table}");
    }
}

#[test]
fn f1_relay_that_disagrees_makes_the_state_unknown() {
    let read = |state, relay| read(PduTable::ServerTech, &[int(state), relay]).unwrap();
    assert_eq!(read(10, int(2)).state, OutletState::Off);
    assert_eq!(read(11, int(1)).state, OutletState::On);
    assert_eq!(read(9, int(1)).state, OutletState::Switching);
    for relay in [int(1), int(0), Value::NoSuchInstance] {
        assert_eq!(read(10, relay).state, OutletState::Unknown);
    }
    assert_eq!(read(10, int(1)).raw, "10, relay 1");
}

#[test]
fn raritan_measurements_have_digits_and_may_be_unavailable() {
    let (yes, no) = (int(1), int(2));
    let values = |value: u32, digits: u32, available: &Value| {
        let measure = [
            Value::Gauge32(value),
            Value::Gauge32(digits),
            available.clone(),
        ];
        [vec![int(8), name("x")], measure.to_vec(), measure.to_vec()].concat()
    };
    let read = |values: &[Value]| read(PduTable::Raritan, values).unwrap();
    let measured = read(&values(1234, 3, &yes));
    assert_eq!(
        (measured.state, measured.amperes),
        (OutletState::Off, Some(1.234))
    );
    assert_eq!(read(&values(1234, 3, &no)).amperes, None);
    // Without its digits the value could mean anything.
    assert!(read(&values(0, 99, &yes)).amperes.unwrap().is_nan());
}

#[test]
fn negative_measurement_is_not_available() {
    let values = [int(0), name("x"), int(-1), int(-1)];
    let read = read(PduTable::Eaton, &values).unwrap();
    assert_eq!(
        (read.state, read.amperes, read.watts),
        (OutletState::Off, None, None)
    );
}

#[test]
fn state_of_another_type_is_unknown() {
    let read = read(PduTable::Eaton, &[name("off")]).unwrap();
    assert_eq!(read.state, OutletState::Unknown);
}

#[test]
fn requests_are_small_enough_for_old_agents() {
    for table in PduTable::ALL.map(tables::table) {
        let oids = oids(table, &[1; 3]);
        assert!((3..=10).contains(&oids.len()), "{}", oids.len());
    }
}

proptest! {
    #[test]
    fn f1_no_bytes_panic_or_make_an_outlet_off_that_is_not(
        bytes in proptest::collection::vec(any::<u8>(), 0..60)
    ) {
        let values: Vec<Value> = bytes.chunks_exact(5).map(value_of).collect();
        for table in PduTable::ALL.map(tables::table) {
            if let Some(read) = reading(table, OutletId("1".to_owned()), &values)
                && read.state == OutletState::Off
            {
                let state = number(values.first()).unwrap();
                prop_assert!(table.off.iter().any(|off| i64::from(*off) == state));
                let index = 1 + usize::from(table.relay.is_some());
                if let Some((_, yes)) = table.pending {
                    prop_assert_ne!(number(values.get(index)), Some(i64::from(yes)));
                }
            }
        }
    }
}
