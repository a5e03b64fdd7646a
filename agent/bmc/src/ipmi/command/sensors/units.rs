//! Quantity and unit of a sensor (IPMI 2.0, 43.17).

use ipmi_rs_core::storage::sdr::{SensorType, Unit};

use crate::SensorKind;

/// The three unit bytes of a sensor record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units {
    /// Percentage, modifier, rate and number format.
    pub(super) flags: u8,
    /// Base unit.
    pub(super) base: u8,
    /// Modifier unit.
    pub(super) modifier: u8,
}

impl Units {
    /// Whether the record defines a unit; without one a number has no meaning.
    pub(super) fn is_given(self) -> bool {
        self.flags & 1 != 0 || self.base != 0
    }

    /// Kind and unit of the sensor. A rate (per second) or a composed unit has kind Other.
    pub(super) fn measure(self, sensor_type: u8) -> (SensorKind, String) {
        if self.flags & 1 != 0 {
            let kind = match SensorType::from(sensor_type) {
                SensorType::Fan | SensorType::CoolingDevice => SensorKind::Fan,
                _ => SensorKind::Other,
            };
            return (kind, "%".to_owned());
        }
        let (kind, unit) = match Unit::from(self.base) {
            Unit::DegreesCelsius | Unit::DegreesFahrenheit | Unit::DegreesKelvin => {
                (SensorKind::Temperature, "C".to_owned())
            }
            Unit::Volt => (SensorKind::Voltage, "V".to_owned()),
            Unit::Amp => (SensorKind::Current, "A".to_owned()),
            Unit::Watt => (SensorKind::Power, "W".to_owned()),
            Unit::RevolutionsPerMinute => (SensorKind::Fan, "RPM".to_owned()),
            _ => (SensorKind::Other, name(self.base)),
        };
        let compound = self.compound();
        if compound.is_empty() {
            (kind, unit)
        } else {
            (SensorKind::Other, unit + &compound)
        }
    }

    /// Converts a value to the unit that [`Self::measure`] returns: temperatures to Celsius.
    pub(super) fn normal(self, value: f64) -> f64 {
        match Unit::from(self.base) {
            _ if self.flags & 1 != 0 => value,
            Unit::DegreesFahrenheit => (value - 32.0) * 5.0 / 9.0,
            Unit::DegreesKelvin => value - 273.15,
            _ => value,
        }
    }

    fn compound(self) -> String {
        let modifier = match self.flags >> 1 & 3 {
            1 => "/",
            2 => "*",
            _ => "",
        };
        let modifier = match modifier {
            "" => String::new(),
            sign => format!("{sign}{}", name(self.modifier)),
        };
        let rate = match self.flags >> 3 & 7 {
            1 => "/us",
            2 => "/ms",
            3 => "/s",
            4 => "/min",
            5 => "/h",
            6 => "/d",
            _ => "",
        };
        modifier + rate
    }
}

/// The symbol of a unit; the library returns it only together with a value.
fn name(unit: u8) -> String {
    if unit == 0 {
        return String::new();
    }
    let shown = Unit::from(unit).display(true, 1_u8);
    shown
        .split_once(' ')
        .map(|(_, name)| name.to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(flags: u8, base: u8, modifier: u8, sensor_type: u8) -> (SensorKind, String) {
        let units = Units {
            flags,
            base,
            modifier,
        };
        units.measure(sensor_type)
    }

    #[test]
    fn sensor_kind_and_unit_follow_the_record() {
        for (base, kind, unit) in [
            (1, SensorKind::Temperature, "C"),
            (2, SensorKind::Temperature, "C"),
            (4, SensorKind::Voltage, "V"),
            (5, SensorKind::Current, "A"),
            (6, SensorKind::Power, "W"),
            (18, SensorKind::Fan, "RPM"),
            (7, SensorKind::Other, "J"),
            (17, SensorKind::Other, "cfm"),
            (88, SensorKind::Other, "Error"),
            (0, SensorKind::Other, ""),
        ] {
            assert_eq!(measure(0x80, base, 0, 1), (kind, unit.to_owned()), "{base}");
        }
        assert_eq!(measure(1, 0, 0, 4), (SensorKind::Fan, "%".to_owned()));
        assert_eq!(measure(1, 0, 0, 7), (SensorKind::Other, "%".to_owned()));
        // Megabytes per second; watt hours.
        let other = |unit: &str| (SensorKind::Other, unit.to_owned());
        assert_eq!(measure(3 << 3, 72, 0, 11), other("MB/s"));
        assert_eq!(measure(2 << 1, 6, 24, 11), other("W*h"));
    }

    #[test]
    fn temperatures_convert_to_celsius() {
        let normal = |base, value| {
            let (flags, modifier) = (0, 0);
            Units {
                flags,
                base,
                modifier,
            }
            .normal(value)
        };
        assert!((normal(2, 77.0) - 25.0).abs() < 1e-9);
        assert!((normal(3, 298.15) - 25.0).abs() < 1e-9);
        assert!((normal(1, 25.0) - 25.0).abs() < 1e-9);
    }

    #[test]
    fn every_unit_byte_but_0_has_a_name() {
        for unit in 0..=u8::MAX {
            let name = name(unit);
            assert_eq!(name.is_empty(), unit == 0, "{unit}: {name}");
            assert!(!name.starts_with('1'), "{unit}: {name}");
        }
    }
}
