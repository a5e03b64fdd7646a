//! PDUs with configured behaviour that record commands.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use rackhand_bmc::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{OutletCommand, OutletId, OutletReading, OutletState, Pdu},
};
use tokio::sync::watch;

/// State and behaviour of an outlet of a [`FakePdu`].
#[derive(Debug, Clone)]
pub(crate) struct FakeOutlet {
    pub(crate) state: OutletState,
    /// Accepts commands, but does not switch.
    pub(crate) stuck: bool,
    /// Current that is measured also while it is off.
    pub(crate) leak: Option<f64>,
    /// Number of commands that are refused from now on.
    pub(crate) refusals: u32,
    /// Power that is measured.
    pub(crate) watts: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct FakePdu {
    outlets: Mutex<BTreeMap<String, FakeOutlet>>,
    /// Does not respond at all while true.
    pub(crate) dead: watch::Sender<bool>,
    /// Every received command, such as `off 1`.
    commands: Mutex<Vec<String>>,
    /// Number of calls that were started.
    pub(crate) calls: watch::Sender<u32>,
    busy: AtomicU32,
    pub(crate) most_at_once: AtomicU32,
}

impl FakePdu {
    /// Outlets 1 to 4, all on.
    pub(crate) fn new() -> Self {
        let outlet = FakeOutlet {
            state: OutletState::On,
            stuck: false,
            leak: None,
            refusals: 0,
            watts: None,
        };
        let outlets = (1..=4).map(|n: u32| (n.to_string(), outlet.clone()));
        Self {
            outlets: Mutex::new(outlets.collect()),
            dead: watch::channel(false).0,
            commands: Mutex::default(),
            calls: watch::channel(0).0,
            busy: AtomicU32::new(0),
            most_at_once: AtomicU32::new(0),
        }
    }

    /// Changes an outlet.
    pub(crate) fn set(&self, outlet: &str, change: impl FnOnce(&mut FakeOutlet)) {
        change(self.outlets.lock().unwrap().get_mut(outlet).unwrap());
    }

    pub(crate) fn state(&self, outlet: &str) -> OutletState {
        self.outlets.lock().unwrap()[outlet].state
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }

    /// Waits for this number of calls.
    pub(crate) async fn called_times(&self, times: u32) {
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls >= times).await.unwrap();
    }

    async fn call<T>(&self, done: impl FnOnce() -> T) -> T {
        struct Busy<'a>(&'a AtomicU32);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
        let _busy = Busy(&self.busy);
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        self.calls.send_modify(|calls| *calls += 1);
        tokio::task::yield_now().await;
        self.dead.subscribe().wait_for(|dead| !dead).await.unwrap();
        done()
    }

    fn reading(&self, id: &str) -> Result<OutletReading, BmcError> {
        let outlets = self.outlets.lock().unwrap();
        let outlet = outlets.get(id).ok_or_else(|| BmcError {
            kind: ErrorKind::System,
            bmc: "snmp://pdu".to_owned(),
            message: format!("no outlet {id}"),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })?;
        let amperes = match outlet.state {
            OutletState::On => Some(1.5),
            _ => Some(outlet.leak.unwrap_or_default()),
        };
        Ok(OutletReading {
            id: OutletId(id.to_owned()),
            label: Some(format!("outlet {id}")),
            state: outlet.state,
            raw: format!("{:?}", outlet.state),
            amperes,
            watts: outlet.watts,
            none_watts: rackhand_bmc::pdu::NO_WATTS,
        })
    }
}

/// The client of a PDU.
#[derive(Debug)]
pub(crate) struct FakePduClient(pub(crate) std::sync::Arc<FakePdu>, pub(crate) bool);

impl FakePduClient {
    /// Whether the community is right.
    fn check(&self) -> Result<(), BmcError> {
        if self.1 {
            return Ok(());
        }
        Err(BmcError {
            kind: ErrorKind::Authentication,
            bmc: "snmp://pdu".to_owned(),
            message: "refused".to_owned(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })
    }
}

impl Pdu for FakePduClient {
    fn address(&self) -> &'static str {
        "snmp://pdu"
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        Box::pin(async {
            self.0.call(|| {}).await;
            self.check()?;
            (1..=4).map(|n| self.0.reading(&n.to_string())).collect()
        })
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        Box::pin(async {
            self.0.call(|| {}).await;
            self.check()?;
            outlets.iter().map(|id| self.0.reading(&id.0)).collect()
        })
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        Box::pin(async move {
            let state = match command {
                OutletCommand::On => OutletState::On,
                OutletCommand::Off => OutletState::Off,
            };
            let word = format!("{state:?} {outlet}").to_lowercase();
            self.0.commands.lock().unwrap().push(word.clone());
            let mut is_refused = false;
            self.0
                .call(|| {
                    self.0.set(&outlet.0, |outlet| {
                        is_refused = outlet.refusals > 0;
                        outlet.refusals = outlet.refusals.saturating_sub(1);
                        if !outlet.stuck && !is_refused {
                            outlet.state = state;
                        }
                    });
                })
                .await;
            if is_refused {
                return Err(BmcError {
                    kind: ErrorKind::Refused,
                    bmc: "snmp://pdu".to_owned(),
                    message: "commitFailed".to_owned(),
                    retry_after: None,
                    maybe_sent: true,
                    not_sent: false,
                });
            }
            Ok(Accepted::taken(word, "noError"))
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
