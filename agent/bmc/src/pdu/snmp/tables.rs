//! The objects of each make.
//!
//! Owns: object identifiers, values and units, each by the object's name in its MIB. Must never: hold a value
//! that its MIB does not define.
//!
//! The tests compare APC's tables with recordings of PDUs; the other tables follow their MIBs.

use crate::pdu::PduTable;

/// A column of a table: its object identifier without the index.
pub(super) type Column = &'static [u32];

/// Unit of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// The value is divided by this.
    Divisor(f64),
    /// The object with the number of decimal digits.
    Digits(Column),
}

/// A measurement of an outlet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measure {
    pub(super) value: Column,
    pub(super) scale: Scale,
    /// Suffix of the index of the measurement, after the index of the outlet.
    pub(super) sensor: &'static [u32],
    /// A TruthValue that reports whether the measurement exists.
    pub(super) available: Option<Column>,
}

/// The tables of one make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Table {
    /// Prefix of the index of an outlet whose name is a plain number: the first unit.
    pub(super) unit: &'static [u32],
    /// Number of the first unit in the table. Names count units from 1 for every make.
    pub(super) first_unit: u32,
    pub(super) state: Column,
    pub(super) on: &'static [i32],
    pub(super) off: &'static [i32],
    pub(super) switching: &'static [i32],
    /// A second state, with its values of on and off; the outlet is in a state only if both agree.
    pub(super) relay: Option<(Column, i32, i32)>,
    /// Whether a delayed command is pending, and its value of yes.
    pub(super) pending: Option<(Column, i32)>,
    pub(super) label: Column,
    pub(super) amperes: Option<Measure>,
    pub(super) watts: Option<Measure>,
    /// The object and the value that switch at once.
    pub(super) switch_on: (Column, i32),
    pub(super) switch_off: (Column, i32),
}

/// A measurement with the same index as its outlet.
const fn measure(value: Column, divisor: f64) -> Option<Measure> {
    Some(Measure {
        value,
        scale: Scale::Divisor(divisor),
        sensor: &[],
        available: None,
    })
}

/// PowerNet-MIB, rPDU2Outlet (318.1.1.26.9).
const APC_RPDU2: Table = Table {
    unit: &[],
    first_unit: 1,
    // rPDU2OutletSwitchedStatusState: off(1), on(2)
    state: &[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 2, 3, 1, 5],
    on: &[2],
    off: &[1],
    switching: &[],
    relay: None,
    // rPDU2OutletSwitchedStatusCommandPending: commandPending(1), noCommandPending(2)
    pending: Some((&[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 2, 3, 1, 6], 1)),
    // rPDU2OutletSwitchedStatusName
    label: &[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 2, 3, 1, 3],
    // rPDU2OutletMeteredStatusCurrent, tenths of an ampere
    amperes: measure(&[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 4, 3, 1, 6], 10.0),
    // rPDU2OutletMeteredStatusPower, watts
    watts: measure(&[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 4, 3, 1, 7], 1.0),
    // rPDU2OutletSwitchedControlCommand: immediateOn(1), immediateOff(2)
    switch_on: (&[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 2, 4, 1, 5], 1),
    switch_off: (&[1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 9, 2, 4, 1, 5], 2),
};

/// PowerNet-MIB, rPDUOutlet (318.1.1.12.3).
const APC_RPDU: Table = Table {
    unit: &[],
    first_unit: 1,
    // rPDUOutletStatusOutletState: outletStatusOn(1), outletStatusOff(2)
    state: &[1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 3, 5, 1, 1, 4],
    on: &[1],
    off: &[2],
    switching: &[],
    relay: None,
    // rPDUOutletStatusCommandPending: outletStatusCommandPending(1), outletStatusNoCommandPending(2)
    pending: Some((&[1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 3, 5, 1, 1, 5], 1)),
    // rPDUOutletStatusOutletName
    label: &[1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 3, 5, 1, 1, 2],
    amperes: None,
    watts: None,
    // rPDUOutletControlOutletCommand: immediateOn(1), immediateOff(2)
    switch_on: (&[1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 3, 3, 1, 1, 4], 1),
    switch_off: (&[1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 3, 3, 1, 1, 4], 2),
};

/// PDU2-MIB (13742.6); the index is pduId, which is 1 for a PDU alone, and outletId.
const RARITAN: Table = Table {
    unit: &[1],
    first_unit: 1,
    // outletSwitchingState (SensorStateEnumeration): on(7), off(8)
    state: &[1, 3, 6, 1, 4, 1, 13742, 6, 4, 1, 2, 1, 3],
    on: &[7],
    off: &[8],
    switching: &[],
    relay: None,
    pending: None,
    // outletName
    label: &[1, 3, 6, 1, 4, 1, 13742, 6, 3, 5, 3, 1, 3],
    // measurementsOutletSensorValue of sensorType rmsCurrent(1), amperes
    amperes: Some(raritan_measure(&[1])),
    // measurementsOutletSensorValue of sensorType activePower(5), watts
    watts: Some(raritan_measure(&[5])),
    // switchingOperation: off(0), on(1), cycle(2)
    switch_on: (&[1, 3, 6, 1, 4, 1, 13742, 6, 4, 1, 2, 1, 2], 1),
    switch_off: (&[1, 3, 6, 1, 4, 1, 13742, 6, 4, 1, 2, 1, 2], 0),
};

const fn raritan_measure(sensor: &'static [u32]) -> Measure {
    Measure {
        // measurementsOutletSensorValue
        value: &[1, 3, 6, 1, 4, 1, 13742, 6, 5, 4, 3, 1, 4],
        // outletSensorDecimalDigits
        scale: Scale::Digits(&[1, 3, 6, 1, 4, 1, 13742, 6, 3, 5, 4, 1, 7]),
        sensor,
        // measurementsOutletSensorIsAvailable
        available: Some(&[1, 3, 6, 1, 4, 1, 13742, 6, 5, 4, 3, 1, 2]),
    }
}

/// Sentry4-MIB, st4Outlets (1718.4.1.8); the index is st4UnitIndex (A is 1, B is 2),
/// st4InputCordIndex and st4OutletIndex.
const SERVER_TECH: Table = Table {
    unit: &[1, 1],
    first_unit: 1,
    // st4OutletControlState
    state: &[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 5, 1, 1],
    // fixedOn, idleOn, wakeOn, on, lockedOn, eventOn
    on: &[1, 3, 5, 11, 15, 17],
    // idleOff, wakeOff, ocpOff, off, lockedOff, eventOff
    off: &[2, 4, 6, 10, 14, 16],
    // pendOn, pendOff, reboot, shutdown, eventReboot, eventShutdown
    switching: &[8, 9, 12, 13, 18, 19],
    // st4OutletState (DeviceState): on(1), off(2)
    relay: Some((&[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 3, 1, 1], 1, 2)),
    pending: None,
    // st4OutletName
    label: &[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 2, 1, 3],
    // st4OutletCurrent, hundredths of an ampere, or -1
    amperes: measure(&[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 3, 1, 3], 100.0),
    // st4OutletActivePower, watts, or -1
    watts: measure(&[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 3, 1, 7], 1.0),
    // st4OutletControlAction: on(1), off(2)
    switch_on: (&[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 5, 1, 2], 1),
    switch_off: (&[1, 3, 6, 1, 4, 1, 1718, 4, 1, 8, 5, 1, 2], 2),
};

/// EATON-EPDU-MIB, outlets (534.6.6.7.6); the index is strappingIndex, which is 0 for a PDU alone and for
/// the first of a chain and 1 for the second, and outletIndex.
const EATON: Table = Table {
    unit: &[0],
    first_unit: 0,
    // outletControlStatus: off(0), on(1), pendingOff(2), pendingOn(3)
    state: &[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 6, 1, 2],
    on: &[1],
    off: &[0],
    switching: &[2, 3],
    relay: None,
    pending: None,
    // outletName
    label: &[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 1, 1, 3],
    // outletCurrent, milliamperes
    amperes: measure(&[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 4, 1, 3], 1000.0),
    // outletWatts, watts, or negative
    watts: measure(&[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 5, 1, 3], 1.0),
    // outletControlOnCmd, outletControlOffCmd: seconds until the command, 0 for at once
    switch_on: (&[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 6, 1, 4], 0),
    switch_off: (&[1, 3, 6, 1, 4, 1, 534, 6, 6, 7, 6, 6, 1, 3], 0),
};

/// The objects of a make.
pub(super) fn table(name: PduTable) -> &'static Table {
    match name {
        PduTable::ApcRpdu2 => &APC_RPDU2,
        PduTable::ApcRpdu => &APC_RPDU,
        PduTable::Raritan => &RARITAN,
        PduTable::ServerTech => &SERVER_TECH,
        PduTable::Eaton => &EATON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_no_value_is_both_on_and_off() {
        for name in PduTable::ALL {
            let table = table(name);
            let all = [table.on, table.off, table.switching].concat();
            let mut unique = all.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), all.len(), "{name}");
            assert!(!table.on.is_empty() && !table.off.is_empty(), "{name}");
        }
    }

    #[test]
    fn on_and_off_are_different_commands() {
        for name in PduTable::ALL {
            let table = table(name);
            assert_ne!(table.switch_on, table.switch_off, "{name}");
        }
    }
}
