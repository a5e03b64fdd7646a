//! A simulated PDU beside the processes.

use std::net::{Ipv4Addr, SocketAddr};

use rackhand_sim::pdu::{PduConfig, SimPdu};

use super::{PASSWORD, redfish::USER};

/// A PDU with the outlets 1 and 2, both on.
pub(crate) struct Pdu {
    pdu: SimPdu,
    _runtime: tokio::runtime::Runtime,
}

impl Pdu {
    pub(crate) fn start() -> Self {
        Self::start_as(false)
    }

    /// A chassis manager: an enclosure with two sleds, all on.
    pub(crate) fn start_enclosure() -> Self {
        Self::start_as(true)
    }

    fn start_as(is_enclosure: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let config = PduConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            outlets: 2,
            username: USER.to_owned(),
            password: PASSWORD.into(),
            measures_current: true,
            is_enclosure,
        };
        Self {
            pdu: runtime.block_on(SimPdu::start(config)).unwrap(),
            _runtime: runtime,
        }
    }

    pub(crate) fn is_on(&self, outlet: u32) -> bool {
        self.pdu.is_on(outlet)
    }

    /// The outlet accepts commands, but does not switch.
    pub(crate) fn set_stuck(&self, outlet: u32) {
        self.pdu.with_faults(|faults| {
            faults.stuck.insert(outlet);
        });
    }

    /// The table of this PDU in the configuration.
    pub(crate) fn config(&self, name: &str) -> String {
        format!(
            "[pdus.{name}]\naddress = '{}'\nusername = '{USER}'\n\
             password_file = 'password'\n",
            self.pdu.url()
        )
    }
}
