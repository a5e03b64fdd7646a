//! Conversion of the values of a response to the reading of an outlet.
//!
//! Owns: the objects to read for an outlet, and the meaning of their values. Must never: treat a missing or
//! mistyped value as off or as no current, or fail on a value that is not needed.

use async_snmp::{Oid, Value};

use super::tables::{Column, Measure, Scale, Table};
use crate::pdu::{OutletId, OutletReading, OutletState};

/// Maximum length of a label, in characters.
const MAX_LABEL: usize = 64;
/// Maximum number of decimal digits of a measurement.
const MAX_DIGITS: i32 = 9;
/// `true` of a TruthValue (RFC 2579).
const TRUE: i64 = 1;

fn oid(column: Column, index: &[u32], sensor: &[u32]) -> Oid {
    Oid::from([column, index, sensor].concat())
}

fn measure_oids(measure: &Measure, index: &[u32]) -> Vec<Oid> {
    let mut oids = vec![oid(measure.value, index, measure.sensor)];
    if let Scale::Digits(digits) = measure.scale {
        oids.push(oid(digits, index, measure.sensor));
    }
    if let Some(available) = measure.available {
        oids.push(oid(available, index, measure.sensor));
    }
    oids
}

/// The objects that are read for the outlet with this index; the first is its state.
pub(super) fn oids(table: &Table, index: &[u32]) -> Vec<Oid> {
    let mut oids = vec![oid(table.state, index, &[])];
    oids.extend(table.relay.map(|(relay, ..)| oid(relay, index, &[])));
    oids.extend(table.pending.map(|(pending, _)| oid(pending, index, &[])));
    oids.push(oid(table.label, index, &[]));
    for measure in [table.amperes, table.watts].iter().flatten() {
        oids.extend(measure_oids(measure, index));
    }
    oids
}

/// A number of any integer type; `None` for another type, and for no value.
fn number(value: Option<&Value>) -> Option<i64> {
    let value = value?;
    value
        .as_i32()
        .map(i64::from)
        .or_else(|| value.as_u64().and_then(|number| i64::try_from(number).ok()))
}

fn is_there(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_exception() && *value != Value::Null)
}

/// The reading of an outlet from the values of [`oids`], in their order. `None`: the PDU does not have the
/// outlet.
pub(super) fn reading(table: &Table, id: OutletId, values: &[Value]) -> Option<OutletReading> {
    let mut values = values.iter();
    let state = values.next().filter(|value| is_there(Some(value)))?;
    let relay = table.relay.map(|(_, on, off)| (values.next(), on, off));
    let pending = table.pending.map(|(_, yes)| (values.next(), yes));
    let label = values.next().and_then(text);
    let mut measured = |measure: Option<Measure>| measure.and_then(|m| measured(&m, &mut values));
    let amperes = measured(table.amperes);
    let watts = measured(table.watts);
    let (state, raw) = combined(table, state, relay, pending);
    Some(OutletReading {
        id,
        label,
        state,
        raw,
        amperes,
        watts,
        none_watts: crate::pdu::NO_WATTS,
    })
}

fn combined(
    table: &Table,
    state: &Value,
    relay: Option<(Option<&Value>, i32, i32)>,
    pending: Option<(Option<&Value>, i32)>,
) -> (OutletState, String) {
    let Some(number_of_state) = number(Some(state)) else {
        return (
            OutletState::Unknown,
            format!("not a number: {}", state.kind()),
        );
    };
    let is = |list: &[i32]| {
        list.iter()
            .any(|value| i64::from(*value) == number_of_state)
    };
    let mut raw = number_of_state.to_string();
    let mut found = if is(table.off) {
        OutletState::Off
    } else if is(table.on) {
        OutletState::On
    } else if is(table.switching) {
        OutletState::Switching
    } else {
        OutletState::Unknown
    };
    if let Some((relay, on, off)) = relay {
        let relay = number(relay);
        raw = format!(
            "{raw}, relay {}",
            relay.map_or("?".to_owned(), |r| r.to_string())
        );
        let wanted = match found {
            OutletState::On => Some(on),
            OutletState::Off => Some(off),
            OutletState::Switching | OutletState::Unknown => None,
        };
        if let Some(wanted) = wanted
            && relay != Some(i64::from(wanted))
        {
            found = OutletState::Unknown;
        }
    }
    if let Some((pending, yes)) = pending
        && number(pending) == Some(i64::from(yes))
    {
        raw = format!("{raw}, command pending");
        found = OutletState::Switching;
    }
    (found, raw)
}

/// A measurement. `None`: the PDU does not have it, or reports it as not available. A value that is not a number
/// becomes NaN.
fn measured<'a>(measure: &Measure, values: &mut impl Iterator<Item = &'a Value>) -> Option<f64> {
    let value = values.next();
    let digits = match measure.scale {
        Scale::Digits(_) => Some(values.next()),
        Scale::Divisor(_) => None,
    };
    let available = measure.available.map(|_| values.next());
    if !is_there(value) || available.is_some_and(|value| number(value) != Some(TRUE)) {
        return None;
    }
    let Some(number_of_value) = number(value) else {
        return Some(f64::NAN);
    };
    // Not available, in the MIBs of Eaton and Server Technology; no PDU measures below zero.
    if number_of_value < 0 {
        return None;
    }
    let divisor = match (measure.scale, digits) {
        (Scale::Divisor(divisor), _) => divisor,
        (Scale::Digits(_), digits) => {
            let digits = number(digits.flatten()).and_then(|digits| i32::try_from(digits).ok());
            match digits {
                Some(digits @ 0..=MAX_DIGITS) => 10_f64.powi(digits),
                _ => return Some(f64::NAN),
            }
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "measurements have few digits")]
    let number_of_value = number_of_value as f64;
    Some(number_of_value / divisor)
}

fn text(value: &Value) -> Option<String> {
    let text = String::from_utf8_lossy(value.as_bytes()?);
    let text: String = text
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_LABEL)
        .collect();
    (!text.is_empty()).then_some(text)
}

/// Reads the values in `bytes` by every table, each as tag and four bytes.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(bytes: &[u8]) {
    use super::tables;
    let values: Vec<Value> = bytes.chunks_exact(5).map(value_of).collect();
    for table in crate::pdu::PduTable::ALL.map(tables::table) {
        let read = reading(table, OutletId("1".to_owned()), &values);
        if read.is_some_and(|read| read.state == OutletState::Off) {
            let first = number(values.first()).and_then(|state| i32::try_from(state).ok());
            assert!(first.is_some_and(|state| table.off.contains(&state)));
        }
    }
}

/// A value of any type from a tag and four bytes.
#[cfg(any(test, feature = "fuzzing"))]
fn value_of(chunk: &[u8]) -> Value {
    let four: [u8; 4] = chunk
        .get(1..5)
        .and_then(|four| four.try_into().ok())
        .unwrap_or_default();
    let small = i32::from(four[3]);
    match chunk.first().map_or(0, |tag| tag % 12) {
        0 | 1 => Value::Integer(small),
        2 => Value::Integer(i32::from_be_bytes(four)),
        3 => Value::Gauge32(u32::from(four[3])),
        4 => Value::Counter64(u64::from(u32::from_be_bytes(four)) << 32),
        5 => Value::OctetString(four.to_vec().into()),
        6 => Value::Null,
        7 => Value::NoSuchObject,
        8 => Value::NoSuchInstance,
        9 => Value::EndOfMibView,
        10 => Value::Opaque(four.to_vec().into()),
        _ => Value::TimeTicks(u32::from_be_bytes(four)),
    }
}

#[cfg(test)]
mod tests;
