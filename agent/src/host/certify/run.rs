//! Carries out the steps of a certification through the agent, and records what came of them.
//!
//! Must never: decide: the plan and the verdicts are pure.

use std::time::{Duration, Instant};

use rackhand_proto::v1::{
    self, read_bmc_response::Result as ReadBmc, read_boot_response::Result as ReadBoot,
    read_events_response::Result as ReadEvents, read_power_response::Result as ReadPower,
    read_sensors_response::Result as ReadSensors,
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{
    plan,
    record::{
        CheckRow, Done, Ended, Facts, Identity, Part, Power, Proof, Reading, Record, Sensor,
        Snapshot, Step,
    },
    redact::Redactor,
};
use crate::{
    bmc::{
        boot_device::device_word,
        call::{Client, answer, limit, request, target},
        sensors::kind_word,
    },
    host::check::word,
    output::{brief, exit_code::Fault},
    power::{PowerRequest, SwitchOptions, one},
};

/// Time limit of one reading.
const READ: Duration = Duration::from_secs(20);
/// Time limit of a reading that takes many requests.
const LONG_READ: Duration = Duration::from_secs(60);
/// Time between two readings of a host that is off.
const PACE: Duration = Duration::from_secs(2);
/// Time without a reading, after which the agent's observation of a BMC counts as interrupted.
const UNOBSERVED: Duration = Duration::from_secs(12);
/// Time limit of a power-off of a host that is off, which may have nothing that confirms it.
const OFF_WHILE_OFF: Duration = Duration::from_secs(60);

/// How a host is certified.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) client: Client,
    pub(super) host: String,
    pub(super) options: SwitchOptions,
    pub(super) soft_off_limit: Duration,
    pub(super) off_for: Duration,
    pub(super) redactor: Redactor,
    pub(super) begun: Instant,
    /// Whether each event of an operation is printed.
    pub(super) live: bool,
}

impl Run {
    /// Carries out the plan. What has been done is in `record` also if the future is dropped.
    pub(super) async fn carry_out(&mut self, record: &mut Record) {
        record.facts = self.facts().await;
        while let Some(step) = plan::next(record) {
            errln!("{}: {}", self.host, step.words());
            record.steps.push(Done::new(step));
            let found = record.found();
            if let Some(done) = record.steps.last_mut() {
                self.step(done, found).await;
            }
        }
    }

    async fn step(&mut self, done: &mut Done, found: Option<Power>) {
        let to = match done.step {
            Step::Found => {
                self.read_into(done).await;
                let first = done.read().next().map(|reading| reading.identity.clone());
                if let Some(identity) = first {
                    self.redactor.add(&identity.uuid, "<uuid>");
                    self.redactor.add(&identity.serial, "<serial>");
                }
                done.snapshot = Some(self.snapshot().await);
                return;
            }
            Step::StaysOff => return self.stays_off(done).await,
            Step::OffWhileOff => {
                sleep(UNOBSERVED.min(self.off_for)).await;
                PowerRequest::Off
            }
            Step::FirstOn | Step::OnAgain | Step::OnWhileOn | Step::On => PowerRequest::On,
            Step::SoftOff => PowerRequest::SoftOff {
                limit: self.soft_off_limit,
                then_force: false,
            },
            Step::Reset | Step::ResetWhileOff => PowerRequest::Reset,
            Step::Nmi => PowerRequest::Nmi,
            Step::HardOff => PowerRequest::Off,
            Step::Restore if found == Some(Power::Off) => PowerRequest::Off,
            Step::Restore => PowerRequest::On,
        };
        done.ended = Some(self.switch(done.step, to).await);
        self.read_into(done).await;
        if matches!(done.step, Step::FirstOn | Step::On) {
            done.snapshot = Some(self.snapshot().await);
        }
    }

    async fn stays_off(&self, done: &mut Done) {
        let until = Instant::now() + self.off_for;
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while done.readings.is_empty() || Instant::now() < until {
            ticks.tick().await;
            self.read_into(done).await;
        }
        done.snapshot = Some(self.snapshot().await);
        // The snapshot takes a while, in which it must stay off too.
        self.read_into(done).await;
    }

    async fn switch(&self, step: Step, to: PowerRequest) -> Ended {
        let mut options = self.options.clone();
        if step == Step::OffWhileOff {
            let limit = options.timeout.unwrap_or(OFF_WHILE_OFF);
            options.timeout = Some(limit.min(OFF_WHILE_OFF));
        }
        let row = one(
            self.client.clone(),
            self.host.clone(),
            &options,
            to,
            self.live,
        )
        .await;
        let outcome = row.outcome.unwrap_or_default();
        let taken = outcome.power_off_taken.as_ref();
        Ended {
            result: row.result.to_owned(),
            message: self.text(&row.message),
            commands_sent: row.commands_sent,
            seconds: (row.seconds * 10.0).round() / 10.0,
            taken: taken.map(|taken| {
                format!(
                    "{} answered with {}",
                    taken.command,
                    self.text(&taken.answer)
                )
            }),
            proof: proof_of(outcome.off_proof()),
        }
    }

    /// A text of an agent or a BMC without what identifies the site.
    fn text(&self, text: &str) -> String {
        self.redactor.scrub(brief(&self.host, text))
    }

    async fn read_into(&self, done: &mut Done) {
        let read = self.read_power(READ).await;
        done.readings.push(self.part(read));
    }

    /// Reads the power. An error is for the operator: it may name the host and its BMC.
    pub(super) async fn read_power(&self, timeout: Duration) -> Result<Reading, Fault> {
        let asked = v1::ReadPowerRequest {
            target: target(&self.host),
            timeout: limit(timeout),
            device: v1::PowerDevice::Bmc.into(),
        };
        let read = answer(
            self.client
                .clone()
                .read_power(request(asked, timeout))
                .await,
        );
        let read = read.and_then(|response| match response.result {
            Some(ReadPower::Reading(reading)) => Ok(reading),
            Some(ReadPower::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
        read.map(|reading| self.reading(reading))
    }

    fn reading(&self, reading: v1::PowerReading) -> Reading {
        let power = match reading.state() {
            v1::PowerState::On => Power::On,
            v1::PowerState::Off => Power::Off,
            _ => Power::Between,
        };
        let protocol = match reading.protocol() {
            v1::Protocol::Redfish => "redfish",
            v1::Protocol::Ipmi => "ipmi",
            v1::Protocol::Outlets => "outlets",
            v1::Protocol::Unspecified => "unknown",
        };
        let identity = reading.identity.unwrap_or_default();
        Reading {
            at: self.begun.elapsed().as_secs(),
            power,
            raw: self.text(&reading.raw),
            protocol,
            identity: Identity {
                uuid: identity.system_uuid,
                serial: identity.serial,
                vendor: identity.vendor,
                model: identity.model,
            },
        }
    }

    fn part<T>(&self, read: Result<T, Fault>) -> Part<T> {
        match read {
            Ok(value) => Part::Read(value),
            Err(fault) => Part::Error(self.text(&fault.message)),
        }
    }

    async fn facts(&self) -> Facts {
        let asked = v1::ReadBmcRequest {
            target: target(&self.host),
            timeout: limit(LONG_READ),
            topology: false,
        };
        let read = answer(
            self.client
                .clone()
                .read_bmc(request(asked, LONG_READ))
                .await,
        );
        let facts = match read.map(|response| response.result) {
            Ok(Some(ReadBmc::Facts(facts))) => facts,
            _ => v1::BmcFacts::default(),
        };
        let asked = v1::CheckHostRequest {
            target: target(&self.host),
            timeout: limit(LONG_READ),
        };
        let read = answer(
            self.client
                .clone()
                .check_host(request(asked, LONG_READ))
                .await,
        );
        let checks = read.map(|response| response.checks).unwrap_or_default();
        let checks = checks.into_iter().map(|check| CheckRow {
            verdict: word(check.verdict()),
            check: check.check,
        });
        Facts {
            service: facts.service,
            firmware: facts.firmware,
            reset_types: facts.reset_types,
            checks: checks.collect(),
        }
    }

    async fn snapshot(&self) -> Snapshot {
        Snapshot {
            sensors: self.sensors().await,
            events: self.events().await,
            boot_device: self.boot_device().await,
        }
    }

    async fn sensors(&self) -> Part<Vec<Sensor>> {
        let asked = v1::ReadSensorsRequest {
            target: target(&self.host),
            timeout: limit(LONG_READ),
        };
        let read = answer(
            self.client
                .clone()
                .read_sensors(request(asked, LONG_READ))
                .await,
        );
        let read = read.and_then(|response| match response.result {
            Some(ReadSensors::Sensors(sensors)) => Ok(sensors.sensors),
            Some(ReadSensors::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
        let sensor = |sensor: v1::Sensor| Sensor {
            kind: kind_word(sensor.kind()),
            is_draw: sensor.role() == v1::SensorRole::PowerDraw,
            name: self.text(&sensor.name),
            value: sensor.value,
            unit: sensor.unit,
        };
        self.part(read.map(|sensors| sensors.into_iter().map(sensor).collect()))
    }

    async fn events(&self) -> Part<u32> {
        let asked = v1::ReadEventsRequest {
            target: target(&self.host),
            timeout: limit(LONG_READ),
            limit: 0,
        };
        let read = answer(
            self.client
                .clone()
                .read_events(request(asked, LONG_READ))
                .await,
        );
        let read = read.and_then(|response| match response.result {
            Some(ReadEvents::Log(log)) => Ok(log),
            Some(ReadEvents::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
        let read = read.map(|log| {
            let entries = u32::try_from(log.entries.len()).unwrap_or(u32::MAX);
            log.total.unwrap_or(entries)
        });
        self.part(read)
    }

    async fn boot_device(&self) -> Part<String> {
        let asked = v1::ReadBootRequest {
            target: target(&self.host),
            timeout: limit(READ),
        };
        let read = answer(self.client.clone().read_boot(request(asked, READ)).await);
        let read = read.and_then(|response| match response.result {
            Some(ReadBoot::Boot(boot)) => Ok(device_word(boot.device()).to_owned()),
            Some(ReadBoot::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
        self.part(read)
    }
}

fn proof_of(proof: v1::OffProof) -> Option<Proof> {
    Some(match proof {
        v1::OffProof::Unspecified => return None,
        v1::OffProof::Taken => Proof::Taken,
        v1::OffProof::Watched => Proof::Watched,
        v1::OffProof::ManagerUptime => Proof::ManagerUptime,
        v1::OffProof::Outlets => Proof::Outlets,
        v1::OffProof::OtherDevice => Proof::OtherDevice,
    })
}
