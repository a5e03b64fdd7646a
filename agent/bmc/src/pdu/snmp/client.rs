//! The SNMP driver as a [`Pdu`].
//!
//! Owns: sockets, time limits, and the order of requests. Must never: have two commands in flight at once, or
//! keep a socket after an error.
//!
//! Responses are matched with their requests by async-snmp: by request identifier, source address and
//! community, or by the authenticated message of a user.

use std::{fmt, future::Future, time::Duration};

use async_snmp::{
    Auth, AuthProtocol, Client, Oid, PrivProtocol, ResponseShapePolicy, Retry, UsmConfig, Value,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

use super::{
    errors, index, reading,
    tables::{self, Table},
};
use crate::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{
        OutletCommand, OutletId, OutletReading, Pdu, PduConfig, PduCredentials, SnmpAuth,
        SnmpPrivacy, SnmpUser,
    },
};

/// Maximum number of outlets of a PDU, with the others of its chain.
const MAX_OUTLETS: usize = 512;
/// How often an unanswered reading is repeated. A command is not: the operation sends the next one, after another look at
/// what may have changed meanwhile.
const REPEATS: u32 = 2;

/// Which credentials a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A client of one PDU by SNMP.
pub(super) struct SnmpPdu {
    address: String,
    target: (String, u16),
    credentials: PduCredentials,
    table: &'static Table,
    request_timeout: Duration,
    call_timeout: Duration,
    reader: Mutex<Option<Client>>,
    /// Held while a command is in flight.
    writer: Mutex<Option<Client>>,
}

impl SnmpPdu {
    pub(super) fn new(config: PduConfig) -> Result<Self, BmcError> {
        let address = config.address.to_string();
        let wrong = |message: &str| Err(error(&address, ErrorKind::Configuration, message));
        let Some(table) = config.table else {
            return wrong("an SNMP PDU needs the name of its table, such as apc-rpdu2");
        };
        if matches!(config.credentials, PduCredentials::Password(_)) {
            return wrong("an SNMP PDU needs a community or an SNMPv3 user");
        }
        let host = match config.resolved.first() {
            Some(ip) => ip.to_string(),
            None => config.address.host(),
        };
        let pdu = Self {
            target: (host, config.address.port()),
            credentials: config.credentials,
            table: tables::table(table),
            request_timeout: config
                .connect_timeout
                .min(config.call_timeout / (REPEATS + 1)),
            call_timeout: config.call_timeout,
            reader: Mutex::new(None),
            writer: Mutex::new(None),
            address,
        };
        // Rejects credentials that no request could use.
        pdu.auth(Access::Write)?;
        Ok(pdu)
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        error(&self.address, kind, message)
    }

    fn auth(&self, access: Access) -> Result<Auth, BmcError> {
        let unusable = |why: &dyn fmt::Display| {
            self.error(
                ErrorKind::Configuration,
                format!("the SNMPv3 user cannot be used: {why}"),
            )
        };
        match &self.credentials {
            PduCredentials::Community { read, write } => {
                let community = match (access, write) {
                    (Access::Write, Some(write)) => write,
                    _ => read,
                };
                Ok(Auth::v2c(community.expose_secret()))
            }
            PduCredentials::User(user) => usm(user).map_err(|why| unusable(&why)).map(Auth::from),
            PduCredentials::Password(_) => Err(unusable(&"there is none")),
        }
    }

    async fn open(&self, access: Access) -> Result<Client, BmcError> {
        let retry = match access {
            Access::Read => Retry::fixed(REPEATS, Duration::ZERO)
                .map_err(|why| self.error(ErrorKind::Configuration, why.to_string()))?,
            Access::Write => Retry::none(),
        };
        // A response to a read must contain exactly the requested objects. Some agents answer a command with
        // another value.
        let shape = match access {
            Access::Read => ResponseShapePolicy::Strict,
            Access::Write => ResponseShapePolicy::Compatible,
        };
        Client::builder(self.target.clone(), self.auth(access)?)
            .construction_timeout(self.call_timeout)
            .request_timeout(self.request_timeout)
            .retry(retry)
            .strict_source(true)
            .response_shape_policy(shape)
            .connect()
            .await
            .map_err(|failed| errors::of(&self.address, "connecting", &failed, false))
    }

    /// Runs requests with a client, which is not used again after an error.
    async fn with<T>(
        &self,
        access: Access,
        doing: &str,
        work: impl AsyncFnOnce(&Client) -> async_snmp::Result<T>,
    ) -> Result<T, BmcError> {
        let mut slot = match access {
            Access::Read => self.reader.lock().await,
            Access::Write => self.writer.lock().await,
        };
        let client = match slot.take() {
            Some(client) => client,
            None => self.open(access).await?,
        };
        let result = work(&client).await;
        let is_command = access == Access::Write;
        let value =
            result.map_err(|failed| errors::of(&self.address, doing, &failed, is_command))?;
        *slot = Some(client);
        Ok(value)
    }

    fn index(&self, id: &OutletId) -> Result<Vec<u32>, BmcError> {
        index::parse(self.table, id)
            .ok_or_else(|| self.error(ErrorKind::System, index::refusal(self.table, id)))
    }

    async fn read_one(&self, id: &OutletId) -> Result<OutletReading, BmcError> {
        let oids = reading::oids(self.table, &self.index(id)?);
        let doing = format!("reading outlet {id}");
        let response = self
            .with(Access::Read, &doing, async |client| {
                client.get_many(&oids).await
            })
            .await?;
        let values: Vec<Value> = response
            .varbinds
            .into_iter()
            .map(|bind| bind.value)
            .collect();
        if values.len() != oids.len() {
            let message = format!("{doing}: {} of {} values", values.len(), oids.len());
            return Err(self.error(ErrorKind::Protocol, message));
        }
        reading::reading(self.table, id.clone(), &values).ok_or_else(|| {
            let message = format!("the PDU has no outlet {id}, or not in the table of this make");
            self.error(ErrorKind::System, message)
        })
    }

    async fn read_all(&self, ids: &[OutletId]) -> Result<Vec<OutletReading>, BmcError> {
        let mut readings = Vec::with_capacity(ids.len());
        for id in ids {
            readings.push(self.read_one(id).await?);
        }
        Ok(readings)
    }

    /// The outlets in the table of states.
    async fn list(&self) -> Result<Vec<OutletId>, BmcError> {
        let column = Oid::from_slice(self.table.state);
        let found = self
            .with(Access::Read, "listing the outlets", async |client| {
                let mut found = Vec::new();
                let mut walk = client.walk(column.clone())?;
                while let Some(bind) = walk.next().await {
                    found.push(bind?.oid);
                    if found.len() > MAX_OUTLETS {
                        break;
                    }
                }
                Ok(found)
            })
            .await?;
        if found.len() > MAX_OUTLETS {
            let message = format!("listing the outlets: more than {MAX_OUTLETS}");
            return Err(self.error(ErrorKind::Protocol, message));
        }
        let names: Vec<_> = found
            .iter()
            .filter_map(|oid| oid.strip_prefix(&column))
            .map(|rest| index::name(self.table, rest.arcs()))
            .collect();
        if names.is_empty() {
            let message = "the PDU has no outlets in the table of this make; check the table";
            return Err(self.error(ErrorKind::System, message));
        }
        Ok(names)
    }

    async fn switch_one(
        &self,
        id: &OutletId,
        command: OutletCommand,
    ) -> Result<Accepted, BmcError> {
        let (column, value) = match command {
            OutletCommand::On => self.table.switch_on,
            OutletCommand::Off => self.table.switch_off,
        };
        let oid = Oid::from([column, &self.index(id)?].concat());
        let word = match command {
            OutletCommand::On => "on",
            OutletCommand::Off => "off",
        };
        // SNMP defines no common error for an outlet that does not exist.
        self.read_one(id).await?;
        self.with(
            Access::Write,
            &format!("outlet {id}: {word}"),
            async |client| client.set(&oid, Value::Integer(value)).await,
        )
        .await?;
        Ok(Accepted::taken(format!("{word} ({value})"), "noError"))
    }

    /// Runs a call within its time limit. `is_command`: it may have been carried out when it ends.
    fn bounded<'a, T: Send + 'a>(
        &'a self,
        is_command: bool,
        work: impl Future<Output = Result<T, BmcError>> + Send + 'a,
    ) -> BmcFuture<'a, T> {
        Box::pin(async move {
            let limited = tokio::time::timeout(self.call_timeout, work).await;
            limited.unwrap_or_else(|_| {
                let message = format!("no result within {:?}", self.call_timeout);
                Err(BmcError {
                    maybe_sent: is_command,
                    ..self.error(ErrorKind::Timeout, message)
                })
            })
        })
    }
}

/// An SNMPv3 user as async-snmp has it.
fn usm(user: &SnmpUser) -> async_snmp::CryptoResult<UsmConfig> {
    let auth = match user.auth {
        SnmpAuth::Sha1 => AuthProtocol::Sha1,
        SnmpAuth::Sha256 => AuthProtocol::Sha256,
        SnmpAuth::Sha384 => AuthProtocol::Sha384,
        SnmpAuth::Sha512 => AuthProtocol::Sha512,
    };
    let secret = |secret: &SecretString| secret.expose_secret().as_bytes().to_vec();
    let config = UsmConfig::new(user.username.clone());
    match &user.privacy {
        None => config.auth(auth, secret(&user.auth_password)),
        Some((privacy, password)) => {
            let privacy = match privacy {
                SnmpPrivacy::Aes128 => PrivProtocol::Aes128,
                SnmpPrivacy::Aes256 => PrivProtocol::Aes256Blumenthal,
            };
            config.auth_priv(auth, secret(&user.auth_password), privacy, secret(password))
        }
    }
}

fn error(address: &str, kind: ErrorKind, message: impl Into<String>) -> BmcError {
    BmcError {
        kind,
        bmc: address.to_owned(),
        message: message.into(),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

impl Pdu for SnmpPdu {
    fn address(&self) -> &str {
        &self.address
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        self.bounded(false, async move {
            let ids = self.list().await?;
            self.read_all(&ids).await
        })
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        self.bounded(false, self.read_all(outlets))
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        self.bounded(true, self.switch_one(outlet, command))
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.bounded(false, async move {
            *self.reader.lock().await = None;
            *self.writer.lock().await = None;
            Ok(())
        })
    }
}

impl fmt::Debug for SnmpPdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnmpPdu")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use tokio::net::UdpSocket;

    use super::*;
    use crate::pdu::PduTable;

    /// The requests that a PDU gets that answers none.
    async fn requests(access: Access) -> (u32, BmcError) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let server = tokio::spawn(async move {
            let mut bytes = [0; 2048];
            while socket.recv(&mut bytes).await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let credentials = PduCredentials::Community {
            read: "public".into(),
            write: None,
        };
        let address = format!("snmp://127.0.0.1:{port}").parse().unwrap();
        let mut config = PduConfig::new(address, credentials);
        config.table = Some(PduTable::ApcRpdu2);
        config.connect_timeout = Duration::from_millis(100);
        let pdu = SnmpPdu::new(config).unwrap();
        let oid = Oid::from_slice(pdu.table.state);
        let error = pdu
            .with(access, "asking", async |client| match access {
                Access::Read => client.get(&oid).await.map(|_| ()),
                Access::Write => client.set(&oid, Value::Integer(2)).await.map(|_| ()),
            })
            .await
            .unwrap_err();
        server.abort();
        (count.load(Ordering::SeqCst), error)
    }

    #[tokio::test]
    async fn unanswered_command_is_not_repeated_inside_a_call_and_a_reading_is() {
        let (commands, error) = requests(Access::Write).await;
        assert_eq!(commands, 1);
        assert!(error.maybe_sent, "{error}");
        let (readings, error) = requests(Access::Read).await;
        assert_eq!(readings, REPEATS + 1);
        assert!(!error.maybe_sent, "{error}");
    }
}
