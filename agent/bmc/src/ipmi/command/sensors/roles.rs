//! Roles of the sensors that represent the whole host.
//!
//! Owns: the names and entity ids that vendors use, in one place. Must never: assign a role to a
//! sensor of a part of the host.

use crate::{Sensor, SensorHealth, SensorKind, SensorRole};

/// Entity ids of the air inlet (IPMI 2.0, table 43-13; the second is defined by DCMI).
const AIR_INLET: [u8; 2] = [0x37, 0x40];

/// Words that identify a temperature as that of the inlet, most specific first.
const INLET: [&str; 4] = ["inlet", "intake", "ambient", "front"];

/// Words that may accompany them. Any other word names a part: a supply, a card, an outlet.
const BESIDE_INLET: &[&str] = &[
    "air",
    "amb",
    "ambient",
    "baseboard",
    "bb",
    "board",
    "chassis",
    "ctrl",
    "fp",
    "front",
    "inlet",
    "mb",
    "panel",
    "sensor",
    "sys",
    "system",
    "t",
    "temp",
    "temperature",
];

/// Names of sensors for the power draw of the whole host, as words in lower case.
const DRAW: &[&str] = &[
    "pwr consumption",
    "pw consumption",
    "power consumption",
    "system level",
    "ps total",
    "psu total",
    "total power",
    "total pwr",
    "power total",
    "psu total power",
    "ps total power",
    "total psu power",
    "sys power",
    "sys pwr",
    "system power",
    "system pwr",
    "sys total power",
    "system total power",
    "system input power",
    "hsc input power",
    "node power",
    "power meter",
    "power",
];

/// Words of the input power of one supply, besides its number.
const SUPPLY: [&str; 4] = ["ps", "psu", "pws", "supply"];
const SUPPLY_INPUT: [&str; 4] = ["in", "input", "pin", "ac"];
const BESIDE_SUPPLY: [&str; 2] = ["power", "pwr"];

/// Name of the power draw reading by DCMI, which is not a sensor of the BMC.
const DCMI_NAME: &str = "DCMI Power Reading";
const SUM_NAME: &str = "Power Supply Inputs";

/// Assigns roles to sensors, each given with its entity id; `dcmi`: power draw by DCMI.
///
/// The inlet is the sensor of an air inlet entity, otherwise the one with the most specific name;
/// sensors with a value are preferred. The power draw is that of DCMI, otherwise of the first
/// sensor in watts with a matching name, otherwise the sum of the inputs of all supplies. The sum
/// is omitted if one input has no value: an empty bay cannot be distinguished from a supply that
/// does not respond, and a sum that is too low is worse than none.
pub(super) fn assign(sensors: Vec<(u8, Sensor)>, dcmi: Option<f64>) -> Vec<Sensor> {
    let inlet = sensors
        .iter()
        .enumerate()
        .filter_map(|(index, (entity, sensor))| Some((inlet_rank(*entity, sensor)?, index)))
        .min()
        .map(|(_, index)| index);
    let mut sensors: Vec<_> = sensors.into_iter().map(|(_, sensor)| sensor).collect();
    if let Some(sensor) = inlet.and_then(|index| sensors.get_mut(index)) {
        sensor.role = Some(SensorRole::InletTemperature);
    }
    if let Some(watts) = dcmi {
        sensors.push(draw(DCMI_NAME, watts));
        return sensors;
    }
    let named = sensors
        .iter_mut()
        .filter(|sensor| sensor.kind == SensorKind::Power && is_draw(&sensor.name))
        .min_by_key(|sensor| sensor.value.is_none());
    if let Some(sensor) = named {
        sensor.role = Some(SensorRole::PowerDraw);
        return sensors;
    }
    let inputs: Vec<_> = sensors
        .iter()
        .filter(|sensor| sensor.kind == SensorKind::Power && is_supply_input(&sensor.name))
        .map(|sensor| sensor.value)
        .collect();
    let sum = inputs.iter().copied().sum::<Option<f64>>();
    if let Some(watts) = sum.filter(|_| !inputs.is_empty()) {
        sensors.push(draw(SUM_NAME, watts));
    }
    sensors
}

fn draw(name: &str, watts: f64) -> Sensor {
    Sensor {
        name: name.to_owned(),
        kind: SensorKind::Power,
        role: Some(SensorRole::PowerDraw),
        value: Some(watts),
        unit: "W".to_owned(),
        health: SensorHealth::Unknown,
    }
}

/// Rank of a sensor as the inlet, lowest first; `None`: not an inlet.
fn inlet_rank(entity: u8, sensor: &Sensor) -> Option<(bool, usize)> {
    if sensor.kind != SensorKind::Temperature {
        return None;
    }
    let rank = if AIR_INLET.contains(&entity) {
        0
    } else {
        1 + inlet_name_rank(&sensor.name)?
    };
    Some((sensor.value.is_none(), rank))
}

fn inlet_name_rank(name: &str) -> Option<usize> {
    let words = words(name);
    let beside = |word: &String| {
        INLET.contains(&word.as_str()) || BESIDE_INLET.contains(&word.as_str()) || is_number(word)
    };
    if !words.iter().all(beside) {
        return None;
    }
    let has = |key: &str| words.iter().any(|word| word == key);
    // "Front" alone may be a backplane; a front panel is at the air inlet.
    let keys = INLET.iter().enumerate();
    keys.filter(|(_, key)| has(key) && (**key != "front" || has("panel")))
        .map(|(rank, _)| rank)
        .next()
}

fn is_draw(name: &str) -> bool {
    DRAW.contains(&words(name).join(" ").as_str())
}

fn is_supply_input(name: &str) -> bool {
    let words = words(name);
    let any = |of: &[&str]| words.iter().any(|word| of.contains(&word.as_str()));
    let known = |word: &String| {
        let word = word.as_str();
        is_number(word)
            || word == "power"
            || SUPPLY.contains(&word)
            || SUPPLY_INPUT.contains(&word)
            || BESIDE_SUPPLY.contains(&word)
    };
    any(&SUPPLY) && any(&SUPPLY_INPUT) && words.iter().all(known)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a name into words in lower case: letters and digits separately, and `InletTemp` into two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        if c.is_alphanumeric() {
            let begins = !before.is_alphanumeric()
                || before.is_ascii_digit() != c.is_ascii_digit()
                || before.is_lowercase() && c.is_uppercase();
            match words.last_mut() {
                Some(word) if !begins => word.extend(c.to_lowercase()),
                _ => words.push(c.to_lowercase().collect()),
            }
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sensor(name: &str, kind: SensorKind, value: Option<f64>) -> (u8, Sensor) {
        let sensor = Sensor {
            name: name.to_owned(),
            kind,
            role: None,
            value,
            unit: String::new(),
            health: SensorHealth::Ok,
        };
        (0x07, sensor)
    }

    fn temperature(name: &str, value: Option<f64>) -> (u8, Sensor) {
        sensor(name, SensorKind::Temperature, value)
    }

    fn watts(name: &str, value: Option<f64>) -> (u8, Sensor) {
        sensor(name, SensorKind::Power, value)
    }

    fn with_role(sensors: Vec<(u8, Sensor)>, dcmi: Option<f64>, role: SensorRole) -> Vec<String> {
        assign(sensors, dcmi)
            .into_iter()
            .filter(|sensor| sensor.role == Some(role))
            .map(|sensor| format!("{} {:?}", sensor.name, sensor.value))
            .collect()
    }

    #[test]
    fn inlet_names_of_vendors_are_recognized() {
        for name in [
            "Inlet Temp",
            "01-Inlet Ambient",
            "Ambient",
            "Ambient Temp",
            "System Inlet",
            "Sys Inlet Temp",
            "Air Inlet Temp",
            "INLET_TEMP",
            "InletTemp",
            "MB Inlet Temp",
            "Front Panel Temp",
            "Intake Temp",
            "Inlet Temp.",
        ] {
            assert!(inlet_name_rank(name).is_some(), "{name}");
        }
        for name in [
            "Exhaust Temp",
            "Outlet Temp",
            "PSU1 Inlet Temp",
            "GPU Inlet",
            "PCIe Inlet Temp",
            "CPU1 Temp",
            "System Temp",
            "Front Backplane",
            "HDD Ambient",
            "Temp",
            "",
        ] {
            assert_eq!(inlet_name_rank(name), None, "{name}");
        }
    }

    #[test]
    fn entity_id_selects_the_inlet_sensor_before_the_name() {
        let role = SensorRole::InletTemperature;
        let by_name = vec![
            temperature("Ambient", Some(20.0)),
            temperature("Inlet Temp", Some(21.0)),
            temperature("CPU Temp", Some(60.0)),
        ];
        assert_eq!(
            with_role(by_name.clone(), None, role),
            ["Inlet Temp Some(21.0)"]
        );
        for entity in AIR_INLET {
            let mut sensors = by_name.clone();
            sensors.push((entity, temperature("T7", Some(22.0)).1));
            assert_eq!(with_role(sensors, None, role), ["T7 Some(22.0)"]);
        }
        let mut fan = sensor("Inlet Fan", SensorKind::Fan, Some(3000.0));
        fan.0 = 0x37;
        assert!(with_role(vec![fan], None, role).is_empty());
    }

    #[test]
    fn inlet_sensor_with_a_reading_is_preferred() {
        let role = SensorRole::InletTemperature;
        let sensors = vec![
            temperature("Inlet Temp", None),
            temperature("Ambient Temp", Some(23.0)),
        ];
        assert_eq!(with_role(sensors, None, role), ["Ambient Temp Some(23.0)"]);
        let off = vec![temperature("Inlet Temp", None)];
        assert_eq!(with_role(off, None, role), ["Inlet Temp None"]);
    }

    #[test]
    fn power_draw_prefers_dcmi_then_a_sensor_then_the_sum() {
        let role = SensorRole::PowerDraw;
        let supplies = [
            watts("PS1 Input Power", Some(150.0)),
            watts("PS2 Input Power", Some(160.5)),
        ];
        let mut all = supplies.to_vec();
        all.push(watts("Pwr Consumption", Some(300.0)));
        let dcmi = with_role(all.clone(), Some(312.0), role);
        assert_eq!(dcmi, ["DCMI Power Reading Some(312.0)"]);
        assert_eq!(with_role(all, None, role), ["Pwr Consumption Some(300.0)"]);
        let sum = with_role(supplies.to_vec(), None, role);
        assert_eq!(sum, ["Power Supply Inputs Some(310.5)"]);
        assert!(with_role(Vec::new(), None, role).is_empty());
    }

    #[test]
    fn incomplete_sum_of_power_supplies_is_omitted() {
        let sensors = vec![
            watts("PSU1_PIN", Some(150.0)),
            watts("PSU2_PIN", None),
            watts("PSU1_POUT", Some(140.0)),
        ];
        assert!(with_role(sensors, None, SensorRole::PowerDraw).is_empty());
    }

    #[test]
    fn power_draw_and_supply_input_names_are_distinguished() {
        for name in [
            "Pwr Consumption",
            "System Level",
            "PS Total",
            "Power Meter",
            "Sys_Power",
        ] {
            assert!(is_draw(name) && !is_supply_input(name), "{name}");
        }
        for name in [
            "PS1 Input Power",
            "PSU2_PIN",
            "PS1 Power In",
            "PWS1 AC Input Power",
        ] {
            assert!(is_supply_input(name) && !is_draw(name), "{name}");
        }
        for name in [
            "PS1 Output Power",
            "CPU Power",
            "PSU1_POUT",
            "Pwr Threshold",
            "PS1 Temp",
        ] {
            assert!(!is_supply_input(name) && !is_draw(name), "{name}");
        }
        // Named like a power draw, but not in watts.
        let amperes = vec![sensor("System Power", SensorKind::Current, Some(1.0))];
        assert!(with_role(amperes, None, SensorRole::PowerDraw).is_empty());
    }

    proptest! {
        #[test]
        fn each_role_is_assigned_at_most_once(
            names in proptest::collection::vec(".{0,12}|(PS[12]|Inlet|Ambient) ?(Input|Temp|Power)?", 0..8),
            dcmi: Option<u16>,
        ) {
            for kind in [SensorKind::Temperature, SensorKind::Power] {
                let sensors: Vec<_> =
                    names.iter().map(|name| sensor(name, kind, Some(1.0))).collect();
                let assigned = assign(sensors, dcmi.map(f64::from));
                for role in [SensorRole::InletTemperature, SensorRole::PowerDraw] {
                    let count = assigned.iter().filter(|sensor| sensor.role == Some(role)).count();
                    prop_assert!(count <= 1);
                }
            }
        }
    }
}
