//! What a BMC measures.

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorKind {
    /// Degrees Celsius.
    Temperature,
    /// Watts.
    Power,
    /// Revolutions per minute, or percent where the BMC says so.
    Fan,
    /// Volts.
    Voltage,
    /// Amperes.
    Current,
    /// Anything else, in its own unit.
    Other,
}

/// What a sensor means to the whole host, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorRole {
    /// What the host draws, all supplies together, in watts.
    PowerDraw,
    /// The air that comes in, in degrees Celsius.
    InletTemperature,
}

/// How the BMC judges a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensorHealth {
    /// Within its limits.
    Ok,
    /// Beyond a non-critical limit.
    Warning,
    /// Beyond a critical limit.
    Critical,
    /// The BMC does not say, or the sensor gives no value now.
    Unknown,
}

/// One sensor, read once.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// The BMC's name for it.
    pub name: String,
    /// What is measured.
    pub kind: SensorKind,
    /// What it stands for.
    pub role: Option<SensorRole>,
    /// The value, finite. `None`: not measured now, as with a host that is off.
    pub value: Option<f64>,
    /// The unit as it is written: `W`, `C`, `RPM`, `%`, `V`, `A`.
    pub unit: String,
    /// The BMC's judgement.
    pub health: SensorHealth,
}
