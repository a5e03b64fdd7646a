//! The host and the BMC that a request refers to.

use std::sync::Arc;

use rackhand_agent_core::host_key::HostKeys;
use rackhand_bmc::{
    BmcAddress, IdentityMatch, Protocol, compare_system_uuids, operation::Expected, pdu::HostOutlet,
};
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use secrecy::SecretString;
use tonic::Status;

use crate::config::{Config, HostEntry, host_key, host_keys, key_text};

/// A host with the connection settings of its BMC.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Name for messages.
    pub(crate) host: String,
    /// BMC and system as written: the key of its records in the journal.
    pub(crate) key: String,
    /// Every address under which the configuration or the caller knows it, to find it again in any
    /// notation.
    pub(crate) keys: HostKeys,
    /// Address of the first driver of its BMC.
    pub(crate) address: BmcAddress,
    pub(crate) access: Access,
    /// The configuration that it was found in. An operation ends under the configuration that it
    /// began with.
    pub(crate) config: Arc<Config>,
}

/// The source of user name and password.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    Inventory(Arc<HostEntry>),
    Sent {
        username: String,
        password: SecretString,
        insecure: bool,
        no_system_uuid: bool,
    },
}

impl Target {
    pub(crate) fn of(config: &Arc<Config>, host: &Arc<HostEntry>) -> Self {
        Self {
            host: host.name.clone(),
            key: key_text(&host.bmc.address),
            keys: host_keys(host),
            address: host.bmc.address.clone(),
            access: Access::Inventory(host.clone()),
            config: config.clone(),
        }
    }

    pub(crate) fn is_of_inventory(&self) -> bool {
        matches!(self.access, Access::Inventory(_))
    }

    /// The PDU that staggers the power-on of the host, if the inventory names one.
    pub(crate) fn pdu(&self) -> Option<&str> {
        match &self.access {
            Access::Inventory(host) => host.stagger_pdu(),
            Access::Sent { .. } => None,
        }
    }

    /// Every outlet that feeds it, in the order in which they are switched on; none if they are not known.
    pub(crate) fn outlets(&self) -> &[HostOutlet] {
        match &self.access {
            Access::Inventory(host) => &host.outlets,
            Access::Sent { .. } => &[],
        }
    }

    /// Largest power that its outlets carry together while it is off, in watts.
    pub(crate) fn standby_watts(&self) -> Option<f64> {
        match &self.access {
            Access::Inventory(host) => host.standby_watts,
            Access::Sent { .. } => None,
        }
    }

    /// The other hosts that its outlets feed.
    pub(crate) fn siblings(&self) -> Vec<Self> {
        let Access::Inventory(host) = &self.access else {
            return Vec::new();
        };
        let siblings = self.config.inventory.siblings(host);
        siblings
            .map(|sibling| Self::of(&self.config, sibling))
            .collect()
    }

    /// The same host in another configuration, if that configuration contains it.
    pub(crate) fn again(&self, config: &Arc<Config>) -> Option<Self> {
        if matches!(self.access, Access::Sent { .. }) {
            let allowed = config.inventory.accept_endpoints;
            return allowed.then(|| Self {
                config: config.clone(),
                ..self.clone()
            });
        }
        let mut hosts = config.inventory.hosts.iter();
        let host = hosts.find(|host| key_text(&host.bmc.address) == self.key)?;
        Some(Self::of(config, host))
    }

    /// The identity of the system in the inventory.
    pub(crate) fn known_identity(&self) -> Expected {
        match &self.access {
            Access::Inventory(known) => Expected {
                system_uuid: known.system_uuid.clone(),
                serial: known.serial.clone(),
                ..Expected::default()
            },
            Access::Sent { .. } => Expected::default(),
        }
    }

    /// The identity that the system must have: from the caller, and from the inventory where the
    /// caller gives none. If they contradict each other, the request is refused (F5).
    pub(crate) fn expected(&self, asked: Option<&v1::SystemIdentity>) -> Result<Expected, Status> {
        let said = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let asked = Expected {
            system_uuid: asked.and_then(|asked| said(&asked.system_uuid)),
            serial: asked.and_then(|asked| said(&asked.serial)),
            ..Expected::default()
        };
        let Access::Inventory(known) = &self.access else {
            return Ok(asked);
        };
        if let (Some(asked), Some(known)) = (&asked.system_uuid, &known.system_uuid)
            && compare_system_uuids(asked, known) == IdentityMatch::Different
        {
            return Err(Status::failed_precondition(format!(
                "host {}: the inventory says system UUID {known}, the caller expects {asked}; one \
                 of them is wrong, nothing was touched",
                self.host
            )));
        }
        Ok(Expected {
            system_uuid: asked.system_uuid.or_else(|| known.system_uuid.clone()),
            serial: asked.serial.or_else(|| known.serial.clone()),
            inventory_serial: known.serial.clone(),
            ..Expected::default()
        })
    }
}

/// Without TLS verification, an attacker on the path can read the password and report "off" for the
/// BMC.
fn refuse_insecure(
    config: &Config,
    host: &str,
    address: &BmcAddress,
    skips_verify: bool,
) -> Result<(), Status> {
    let is_http = address.protocol() == Protocol::Redfish && !address.is_tls();
    let is_blind = address.protocol() == Protocol::Redfish && skips_verify;
    if config.inventory.accept_insecure_endpoints || !(is_http || is_blind) {
        return Ok(());
    }
    let what = if is_http {
        "plain HTTP"
    } else {
        "a certificate that is not to be verified"
    };
    Err(Status::failed_precondition(format!(
        "host {host}: the controller sent a BMC with {what}, which this agent does not accept: use \
         HTTPS with a trusted certificate (the agent's default_trust), add the host to the agent's \
         inventory, or set accept_insecure_endpoints_from_controller"
    )))
}

/// Finds the host; `may_bring`: the caller may name a BMC that is not in the inventory.
pub(crate) fn resolve(
    config: &Arc<Config>,
    target: Option<v1::Target>,
    may_bring: bool,
) -> Result<Target, Status> {
    let Some(target) = target else {
        return Err(Status::invalid_argument("no target: name a host"));
    };
    let (inventory, rack) = (&config.inventory, &config.rack);
    let name = target.host.trim();
    if name.len() > 512 || name.chars().any(char::is_control) {
        return Err(Status::invalid_argument(
            "target.host must be at most 512 characters in one line",
        ));
    }
    if !name.is_empty() {
        let found = inventory
            .find(name)
            .map_err(|error| Status::failed_precondition(error.to_string()))?;
        if let Some(host) = found {
            return Ok(Target::of(config, host));
        }
    }
    let Some(endpoint) = target.endpoint else {
        if name.is_empty() {
            return Err(Status::invalid_argument("no target: name a host"));
        }
        return Err(Refusal::UnknownHost.status(format!(
            "host {name} is not in the inventory of rack {rack} ({} hosts), and no BMC was sent \
             with it; `rackhand-agent host list` shows what is",
            inventory.hosts.len()
        )));
    };
    let address: BmcAddress = endpoint
        .address
        .parse()
        .map_err(|error| Status::invalid_argument(format!("host {name}: {error}")))?;
    if let Some(host) = inventory.find_bmc(&address) {
        return Ok(Target::of(config, host));
    }
    if !may_bring {
        return Err(Status::permission_denied(
            "only a controller may name a BMC that is not in the inventory",
        ));
    }
    if !inventory.accept_endpoints {
        return Err(Refusal::UnknownHost.status(format!(
            "host {name} is not in the inventory of rack {rack}, and this agent takes no BMC \
             addresses from outside; add the host, or set accept_endpoints_from_controller"
        )));
    }
    refuse_insecure(config, name, &address, endpoint.insecure_skip_verify)?;
    let key = key_text(&address);
    Ok(Target {
        host: if name.is_empty() {
            key.clone()
        } else {
            name.to_owned()
        },
        key,
        keys: HostKeys::new([host_key(&address)]),
        address,
        access: Access::Sent {
            username: endpoint.username,
            password: SecretString::from(endpoint.password),
            insecure: endpoint.insecure_skip_verify,
            no_system_uuid: endpoint.no_system_uuid,
        },
        config: config.clone(),
    })
}
