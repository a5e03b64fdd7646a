//! Sensors of a host.

/// Measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorKind {
    /// Degrees Celsius.
    Temperature,
    /// Watts.
    Power,
    /// Revolutions per minute, or percent if the BMC reports percent.
    Fan,
    /// Volts.
    Voltage,
    /// Amperes.
    Current,
    /// Anything else, in its own unit.
    Other,
}

/// Role of a sensor that stands for the whole host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorRole {
    /// Power draw of the host, all supplies together, in watts.
    PowerDraw,
    /// Inlet air temperature, in degrees Celsius.
    InletTemperature,
}

/// Health of a value, as the BMC reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorHealth {
    /// Within its limits.
    Ok,
    /// Beyond a non-critical limit.
    Warning,
    /// Beyond a critical limit.
    Critical,
    /// Not reported, or the sensor has no value now.
    Unknown,
}

/// One sensor, read once.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Name at the BMC.
    pub name: String,
    /// Measured quantity.
    pub kind: SensorKind,
    /// Role for the whole host.
    pub role: Option<SensorRole>,
    /// The finite value. `None`: not measured now, for example because the host is off.
    pub value: Option<f64>,
    /// Symbol of the unit: `W`, `C`, `RPM`, `%`, `V`, `A`.
    pub unit: String,
    /// Health, as the BMC reports it.
    pub health: SensorHealth,
}
