//! What a certification did and read, as plain data.

use serde::Serialize;

/// One step of a certification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// Everything is read, and nothing is switched.
    Found,
    /// A host that was found off is switched on.
    FirstOn,
    SoftOff,
    /// On again after the soft off.
    OnAgain,
    /// A power-on of a host that is on.
    OnWhileOn,
    Reset,
    Nmi,
    HardOff,
    /// The host is read while it is off.
    StaysOff,
    /// A reset of a host that is off.
    ResetWhileOff,
    /// A hard power-off of a host that has been off, unobserved, for a while.
    OffWhileOff,
    On,
    /// The host is switched to the state in which it was found.
    Restore,
}

impl Step {
    /// All steps in their order.
    pub(super) const ALL: [Self; 13] = [
        Self::Found,
        Self::FirstOn,
        Self::SoftOff,
        Self::OnAgain,
        Self::OnWhileOn,
        Self::Reset,
        Self::Nmi,
        Self::HardOff,
        Self::StaysOff,
        Self::ResetWhileOff,
        Self::OffWhileOff,
        Self::On,
        Self::Restore,
    ];

    /// The step in a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Found => "read everything, as it was found",
            Self::FirstOn => "switch on, because it was found off",
            Self::SoftOff => "request a shutdown of the operating system",
            Self::OnAgain => "switch on again",
            Self::OnWhileOn => "request on while it is on",
            Self::Reset => "reset hard",
            Self::Nmi => "send a diagnostic interrupt",
            Self::HardOff => "switch off hard",
            Self::StaysOff => "read while it is off",
            Self::ResetWhileOff => "request a reset while it is off",
            Self::OffWhileOff => "switch off hard while it is off",
            Self::On => "switch on",
            Self::Restore => "restore the state in which it was found",
        }
    }
}

/// A power state that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Power {
    On,
    Off,
    /// Neither exactly on nor exactly off.
    Between,
}

impl Power {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Between => "neither on nor off",
        }
    }
}

/// What the BMC reports the system to be. UUID and serial number are compared, and never printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Identity {
    #[serde(skip)]
    pub(super) uuid: String,
    #[serde(skip)]
    pub(super) serial: String,
    pub(super) vendor: String,
    pub(super) model: String,
}

/// One reading of the power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reading {
    /// Seconds since the begin of the certification.
    pub(super) at: u64,
    pub(super) power: Power,
    /// In the word of the BMC, with that of a chassis that differs.
    pub(super) raw: String,
    pub(super) protocol: &'static str,
    pub(super) identity: Identity,
}

/// How an operation ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Ended {
    /// As of `power`, such as confirmed.
    pub(super) result: String,
    pub(super) message: String,
    pub(super) commands_sent: u32,
    pub(super) seconds: f64,
    /// The first power-off that the BMC took, and its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) taken: Option<String>,
    /// What proves the off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proof: Option<Proof>,
}

impl Ended {
    pub(super) fn is_confirmed(&self) -> bool {
        self.result == "confirmed"
    }

    /// The agent did not begin it, because somebody else holds the host, or the system is another one: nothing
    /// more is done to the host.
    pub(super) fn ends_all(&self) -> bool {
        matches!(
            self.result.as_str(),
            "refused" | "identity-mismatch" | "cancelled" | "caller-gone"
        )
    }
}

/// What proved an off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Proof {
    Taken,
    Watched,
    ManagerUptime,
    Outlets,
    OtherDevice,
}

impl Proof {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Taken => "the BMC took the power-off while it reported on",
            Self::Watched => "the BMC was read without interruption since it reported on",
            Self::ManagerUptime => "the BMC had been up for long before it reported off",
            Self::Outlets => "the outlets carry no more than standby power",
            Self::OtherDevice => "another device took the power-off",
        }
    }
}

/// A sensor as it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sensor {
    pub(super) name: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<f64>,
    pub(super) unit: String,
    /// The draw of the whole host.
    pub(super) is_draw: bool,
}

/// What else the BMC reports, in one state of the host. An error stands for what could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Snapshot {
    pub(super) sensors: Part<Vec<Sensor>>,
    /// Number of entries of the event log.
    pub(super) events: Part<u32>,
    pub(super) boot_device: Part<String>,
}

/// Something that was read, or the error.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part<T> {
    Read(T),
    Error(String),
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self::Error("not read".to_owned())
    }
}

impl<T> Part<T> {
    pub(super) fn read(&self) -> Option<&T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Error(_) => None,
        }
    }
}

/// A step that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Done {
    pub(super) step: Step,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Ended>,
    /// The readings after it, and the errors of those that failed.
    pub(super) readings: Vec<Part<Reading>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<Snapshot>,
}

impl Done {
    /// A step that has not been carried out yet.
    pub(super) fn new(step: Step) -> Self {
        Self {
            step,
            ended: None,
            readings: Vec::new(),
            snapshot: None,
        }
    }

    pub(super) fn read(&self) -> impl DoubleEndedIterator<Item = &Reading> {
        self.readings.iter().filter_map(Part::read)
    }

    /// The last power state; `None` if the last reading failed.
    pub(super) fn power(&self) -> Option<Power> {
        self.readings.last()?.read().map(|reading| reading.power)
    }
}

/// What is known of the BMC and its host before anything is switched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Facts {
    /// Protocol and version.
    pub(super) service: String,
    pub(super) firmware: String,
    /// The reset types that it offers (Redfish).
    pub(super) reset_types: Vec<String>,
    /// The rows of `host check`.
    pub(super) checks: Vec<CheckRow>,
}

/// A row of `host check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CheckRow {
    pub(super) check: String,
    pub(super) verdict: &'static str,
}

/// Everything that a certification did and read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Record {
    pub(super) facts: Facts,
    pub(super) steps: Vec<Done>,
    /// A person ended it before its end.
    pub(super) is_interrupted: bool,
    /// An interrupt is not sent.
    pub(super) without_nmi: bool,
}

impl Record {
    pub(super) fn step(&self, step: Step) -> Option<&Done> {
        self.steps.iter().find(|done| done.step == step)
    }

    /// The outcome of a step that was carried out.
    pub(super) fn ended(&self, step: Step) -> Option<&Ended> {
        self.step(step)?.ended.as_ref()
    }

    /// The state in which the host was found.
    pub(super) fn found(&self) -> Option<Power> {
        self.step(Step::Found)?.power()
    }

    /// The last known power state; `None`: the last reading failed, or there is none.
    pub(super) fn power(&self) -> Option<Power> {
        self.steps.last()?.power()
    }

    pub(super) fn readings(&self) -> impl DoubleEndedIterator<Item = &Reading> {
        self.steps.iter().flat_map(Done::read)
    }

    /// The first snapshot of this state.
    pub(super) fn snapshot(&self, power: Power) -> Option<&Snapshot> {
        let mut steps = self.steps.iter();
        steps.find_map(|done| {
            done.snapshot
                .as_ref()
                .filter(|_| done.power() == Some(power))
        })
    }
}
