//! Third-party SNMP agents.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rackhand_bmc::pdu::{
    OutletId, Pdu, PduConfig, PduCredentials, PduTable, SnmpAuth, SnmpPrivacy, SnmpUser, connect,
};
use rackhand_tests::process::Process;
use tempfile::TempDir;

pub const USER: &str = "rackhand";
pub const AUTH_PASSWORD: &str = "authentication";
pub const PRIVACY_PASSWORD: &str = "confidential";
const START_LIMIT: Duration = Duration::from_secs(60);

/// A third-party SNMP agent.
pub struct Agent {
    pub port: u16,
    pub dir: TempDir,
    pub process: Process,
}

pub fn id(text: &str) -> OutletId {
    OutletId(text.to_owned())
}

pub fn community(read: &str, write: Option<&str>) -> PduCredentials {
    PduCredentials::Community {
        read: read.into(),
        write: write.map(Into::into),
    }
}

pub fn user(auth: SnmpAuth, privacy: Option<SnmpPrivacy>) -> PduCredentials {
    PduCredentials::User(SnmpUser {
        username: USER.to_owned(),
        auth,
        auth_password: AUTH_PASSWORD.into(),
        privacy: privacy.map(|privacy| (privacy, PRIVACY_PASSWORD.into())),
    })
}

impl Agent {
    pub fn pdu(&self, table: PduTable, credentials: PduCredentials) -> Arc<dyn Pdu> {
        let address = format!("snmp://127.0.0.1:{}", self.port).parse().unwrap();
        let config = PduConfig {
            table: Some(table),
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(20),
            ..PduConfig::new(address, credentials)
        };
        connect(config).unwrap()
    }

    /// Waits until the agent answers.
    pub async fn answers(
        mut self,
        table: PduTable,
        credentials: PduCredentials,
        outlet: &str,
    ) -> Self {
        let pdu = self.pdu(table, credentials);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let result = pdu.read(&[id(outlet)]).await;
            let Err(error) = result else { return self };
            let log = self.process.log_tail();
            assert!(Instant::now() < deadline, "{error}: {log}");
            assert!(self.process.ended().is_none(), "it has ended: {log}");
        }
    }
}
