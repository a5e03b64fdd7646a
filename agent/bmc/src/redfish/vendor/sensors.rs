//! Criteria for the sensors that represent the whole host.

use crate::{SensorKind, SensorRole};

/// The document that contains a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redfish) enum Source {
    /// `EnvironmentMetrics.PowerWatts` of a chassis.
    ChassisPower,
    /// `Power.PowerControl`.
    PowerControl,
    /// `ThermalMetrics.TemperatureSummaryCelsius.Intake`.
    IntakeSummary,
    Other,
}

enum RoleHint {
    From(Source),
    /// `PhysicalContext`.
    Context(&'static str),
    /// A substring of the name, in lower case.
    Name(&'static str),
}

/// Criteria for roles, best rank first.
const CLAIMS: &[(SensorRole, SensorKind, RoleHint)] = {
    use SensorKind::{Power, Temperature};
    use SensorRole::{InletTemperature, PowerDraw};
    &[
        (PowerDraw, Power, RoleHint::From(Source::ChassisPower)),
        (PowerDraw, Power, RoleHint::From(Source::PowerControl)),
        // OpenBMC, Dell, Supermicro, in this order.
        (PowerDraw, Power, RoleHint::Name("total power")),
        (PowerDraw, Power, RoleHint::Name("total_power")),
        (PowerDraw, Power, RoleHint::Name("pwr consumption")),
        (PowerDraw, Power, RoleHint::Name("system power")),
        (
            InletTemperature,
            Temperature,
            RoleHint::From(Source::IntakeSummary),
        ),
        (InletTemperature, Temperature, RoleHint::Context("Intake")),
        (InletTemperature, Temperature, RoleHint::Name("inlet")),
        (InletTemperature, Temperature, RoleHint::Name("ambient")),
    ]
};

/// The role that a sensor may have, and its rank; the lowest rank is preferred.
pub(in crate::redfish) fn role(
    kind: SensorKind,
    source: Source,
    context: &str,
    name: &str,
) -> Option<(SensorRole, usize)> {
    let name = name.to_lowercase();
    CLAIMS
        .iter()
        .enumerate()
        .find(|(_, (_, wanted, sign))| {
            *wanted == kind
                && match sign {
                    RoleHint::From(place) => *place == source,
                    RoleHint::Context(word) => context == *word,
                    RoleHint::Name(part) => name.contains(part),
                }
        })
        .map(|(rank, (role, _, _))| (*role, rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_requires_matching_kind_and_name_or_context() {
        let claim = |kind, source, context, name| role(kind, source, context, name).map(|(r, _)| r);
        let inlet = Some(SensorRole::InletTemperature);
        let draw = Some(SensorRole::PowerDraw);
        use SensorKind::{Fan, Power, Temperature};
        for (kind, source, context, name, expected) in [
            (Power, Source::PowerControl, "", "x", draw),
            (
                Power,
                Source::Other,
                "",
                "System Board Pwr Consumption",
                draw,
            ),
            (Power, Source::Other, "PowerSupply", "PSU1 input", None),
            (Temperature, Source::Other, "Intake", "", inlet),
            (Temperature, Source::Other, "", "01-Inlet Ambient", inlet),
            (Temperature, Source::Other, "CPU", "CPU1 Temp", None),
            (Fan, Source::Other, "Intake", "Inlet fan", None),
        ] {
            assert_eq!(claim(kind, source, context, name), expected, "{name}");
        }
    }

    #[test]
    fn physical_context_takes_precedence_over_the_name() {
        let rank = |context, name| {
            role(SensorKind::Temperature, Source::Other, context, name).map(|(_, rank)| rank)
        };
        assert!(rank("Intake", "") < rank("", "inlet"));
        assert!(rank("", "inlet") < rank("", "ambient"));
    }
}
