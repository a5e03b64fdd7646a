//! The physical truth about hosts.

use std::{collections::BTreeMap, time::Duration};

use crate::kernel::World;

use super::{pdu::Feeds, rack_name};

/// Which host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// How Rackhand knows a host's BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// By the inventory of its agent.
    Inventory,
    /// By a BareMetalHost whose power baremetal-operator enforces.
    Managed,
    /// By a BareMetalHost that is detached.
    Detached,
}

/// Which health check a host is under, and so what its remediations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A MachineHealthCheck that makes Metal3Remediations.
    Metal3,
    /// A MachineHealthCheck that makes PowerRemediations.
    Power,
    /// A NodeHealthCheck of medik8s, which makes PowerRemediations by Node.
    Node,
    /// A MachineHealthCheck of OpenShift that makes PowerRemediations.
    OpenShift,
}

impl Check {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Metal3, Self::Power, Self::Node, Self::OpenShift];

    /// Its name, and the label of its Machines or Nodes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Metal3 => "metal3",
            Self::Power => "power",
            Self::Node => "node",
            Self::OpenShift => "openshift",
        }
    }
}

/// The power of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It has power.
    On,
    /// Power is about to be cut.
    Falling,
    /// It has none.
    Off,
}

/// The operating system of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// There is no power.
    Off,
    /// It starts.
    Booting,
    /// It runs, and its kubelet too.
    Running,
    /// Its kubelet does nothing, and its pods run on.
    Hung,
    /// Nothing runs on it.
    Panicked,
}

/// The condition of a BMC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BmcCondition {
    /// It answers nothing until then.
    pub silent_until: Duration,
    /// It answers nothing until it is repaired.
    pub dead: bool,
    /// It reports off until it takes a command.
    pub reports_off: bool,
    /// Until then, or until a command that it carries out, it takes its host for off, and refuses by that.
    pub believes_off_until: Duration,
    /// It is reset when the next command arrives, and is silent for so long.
    pub resets_at_command: Option<Duration>,
    /// When it last restarted; `None`: long before the simulation.
    pub restarted: Option<Duration>,
    /// It takes commands until then and does nothing.
    pub ignores_until: Duration,
    /// Until then it takes so much longer to answer.
    pub slow_until: Duration,
    /// Until then it answers some reads with the document of another resource.
    pub misnames_until: Duration,
    /// Until then it refuses the credentials of some reads, and of no command.
    pub refuses_reads_until: Duration,
    /// It carries out the next command and loses its answer.
    pub loses_answer: bool,
    /// When the update of firmware that it reports began, and until when it runs.
    pub flash: Option<(Duration, Duration)>,
    /// It does not take the next command that switches off in its form, and begins to write firmware for so long.
    pub flashes_at_command: Option<Duration>,
    /// Whether the update began with an answer to a command, so that everybody could know of it.
    pub is_flash_told: bool,
    /// When it last did not do what it was asked for, or took a power-off in a way that proves nothing.
    pub failed_at: Option<Duration>,
}

/// A simulated host with its power, operating system and containers.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name, and that of its Node, Machine and BareMetalHost.
    pub name: String,
    /// Its rack, by number.
    pub rack: usize,
    /// Its place in the rack.
    pub place: usize,
    /// How its BMC is known.
    pub link: Link,
    /// Its health check.
    pub check: Check,
    /// The label by which that selects its hosts, and the name of that.
    pub pool: String,
    /// Its workload cluster, where there are several.
    pub cluster: Option<usize>,
    /// Its power.
    pub power: Power,
    /// Whether Ironic's database has it as on.
    pub(crate) stored_on: bool,
    /// Its operating system.
    pub os: Os,
    /// Its BMC.
    pub bmc: BmcCondition,
    /// The outlets that feed it, where the inventory of its agent names them.
    pub(crate) feeds: Option<Feeds>,
    /// Counts changes of power and operating system, so that what was planned for an earlier one does
    /// not happen.
    pub(crate) epoch: u64,
    /// When its BMC last took a power-off.
    pub(crate) last_off: Duration,
    /// Counts commands that concern a power-on.
    pub(crate) power_ons: u64,
    /// How often it was started.
    pub(crate) boots: u32,
    /// Whether its kubelet has seen to its Node since its start.
    pub(crate) registered: bool,
    /// The UID of its Node when its BMC last took a power-off.
    pub(crate) node_at_off: Option<String>,
    /// The pods whose containers run, by name, with their UIDs.
    pub(crate) containers: BTreeMap<String, String>,
    /// When its kubelet last renewed its Lease.
    pub(crate) renewed: Duration,
    /// When it first reports a status of this boot.
    pub(crate) reports_from: Duration,
    /// When it first reports Ready in this boot.
    pub(crate) ready_from: Duration,
    /// Whether its Node counts as unreachable.
    pub(crate) unreachable: bool,
    /// Since when its Node is Ready, after it was not.
    pub(crate) ready_since: Option<Duration>,
    /// Since when it does not work; for the time to recovery.
    pub(crate) failed_at: Option<Duration>,
    /// Whether it is a member of etcd.
    pub(crate) is_member: bool,
    /// Whether its locator LED is lit.
    pub(crate) is_lit: bool,
    /// Counts changes of that.
    pub(crate) lit: u64,
    /// Whether it was switched off for a remediation, and has not been on since.
    pub(crate) is_switched_off: bool,
}

impl Host {
    /// The boot ID that its kubelet reports.
    pub(super) fn boot_id(&self) -> String {
        format!("boot-{}", self.boots)
    }

    pub(super) fn new(rack: usize, place: usize, link: Link, check: Check) -> Self {
        Self {
            name: format!("{}-h{place}", rack_name(rack)),
            rack,
            place,
            link,
            check,
            pool: check.name().to_owned(),
            cluster: None,
            power: Power::On,
            stored_on: true,
            os: Os::Running,
            bmc: BmcCondition::default(),
            feeds: None,
            epoch: 0,
            last_off: Duration::ZERO,
            power_ons: 0,
            boots: 1,
            registered: true,
            node_at_off: None,
            containers: BTreeMap::new(),
            renewed: Duration::ZERO,
            reports_from: Duration::ZERO,
            ready_from: Duration::ZERO,
            unreachable: false,
            ready_since: None,
            failed_at: None,
            is_member: false,
            is_lit: false,
            lit: 0,
            is_switched_off: false,
        }
    }

    /// Whether its firmware is being written.
    pub(crate) fn is_flashed(&self, now: Duration) -> bool {
        self.bmc.flash.is_some_and(|(_, until)| now < until)
    }

    /// Whether its kubelet works.
    #[must_use]
    pub fn kubelet_works(&self) -> bool {
        self.os == Os::Running
    }

    /// The SMBIOS UUID, as the BMC and the Node report it. The boards in every third place are of a series that has
    /// one for all.
    #[must_use]
    pub fn system_uuid(&self) -> String {
        if self.place % 3 == 2 {
            return "4c4c4544-5345-5249-8553-626f61726473".to_owned();
        }
        format!(
            "4c4c4544-{:04x}-4000-8000-{:012x}",
            self.rack,
            self.place + 1
        )
    }

    /// The address of its BMC.
    #[must_use]
    pub fn bmc_address(&self) -> String {
        let (high, low) = (self.rack / 250, self.rack % 250);
        format!("10.{high}.{low}.{}", self.place + 1)
    }
}

impl HostId {
    /// The host at this place in the list of all.
    pub(crate) fn at(place: usize) -> Self {
        Self(place)
    }
}

/// Of a BMC's address, rack and place.
pub(super) fn place_of(ip: std::net::IpAddr) -> Option<(usize, usize)> {
    let std::net::IpAddr::V4(ip) = ip else {
        return None;
    };
    let [_, high, low, place] = ip.octets().map(usize::from);
    Some((high * 250 + low, place.checked_sub(1)?))
}

/// How long it takes until a Node is Ready after its host has power.
const BOOT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(240));

impl World {
    /// Power is cut.
    pub fn cut_power(&mut self, id: HostId, by: &str) {
        let now = self.now();
        let host = self.fleet.host_mut(id);
        if host.power == Power::Off {
            return;
        }
        let name = host.name.clone();
        (host.power, host.os) = (Power::Off, Os::Off);
        host.epoch += 1;
        host.containers.clear();
        host.failed_at.get_or_insert(now);
        self.log(format_args!("{name} is off, by {by}"));
    }

    /// Power is there, and the host starts.
    pub fn give_power(&mut self, id: HostId, by: &str) {
        let host = self.fleet.host_mut(id);
        if host.power == Power::On || !host.is_fed() {
            return;
        }
        let name = host.name.clone();
        host.power = Power::On;
        host.is_switched_off = false;
        self.fleet.policy.end(id);
        self.log(format_args!("{name} is on, by {by}"));
        self.boot(id);
        let now = self.now();
        self.judge_stays_off(id, now);
    }

    /// The operating system starts.
    pub(crate) fn boot(&mut self, id: HostId) {
        let time = self.between(BOOT.0, BOOT.1);
        let host = self.fleet.host_mut(id);
        host.os = Os::Booting;
        host.epoch += 1;
        host.boots += 1;
        host.registered = false;
        host.containers.clear();
        let epoch = host.epoch;
        self.after(time, move |world| {
            if world.fleet.host(id).epoch == epoch {
                world.fleet.host_mut(id).os = Os::Running;
                world.start_kubelet(id);
            }
        });
    }

    /// A hung operating system goes on where it was.
    pub(crate) fn recover_os(&mut self, id: HostId, epoch: u64) {
        let host = self.fleet.host_mut(id);
        if host.epoch == epoch && host.os == Os::Hung {
            host.os = Os::Running;
            host.epoch += 1;
            let name = host.name.clone();
            self.log(format_args!("{name} goes on by itself"));
            self.start_kubelet(id);
        }
    }

    /// The operating system fails: it hangs with its pods running on, or nothing runs any more.
    pub(crate) fn fail_os(&mut self, id: HostId, os: Os) -> bool {
        let now = self.now();
        let host = self.fleet.host_mut(id);
        if host.os != Os::Running {
            return false;
        }
        host.os = os;
        host.epoch += 1;
        host.failed_at.get_or_insert(now);
        if os == Os::Panicked {
            host.containers.clear();
        }
        true
    }
}
