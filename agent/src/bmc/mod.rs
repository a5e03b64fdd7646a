//! `bmc info`, `bmc reset` and `bmc rotate-password`.

pub(crate) mod boot_device;
pub(crate) mod call;
pub(crate) mod event_log;
pub(crate) mod identify;
pub(crate) mod sensors;

use std::process::ExitCode;

use jiff::SignedDuration;
use rackhand_proto::{
    convert::timestamp_from_proto,
    v1::{
        self, read_bmc_response::Result as Read, reset_bmc_response::Result as Reset,
        rotate_password_response::Result as Rotated,
    },
};
use serde::Serialize;

use crate::{
    cli::{BmcAction, BmcArgs, BmcChangeArgs, BmcInfoArgs, BmcResetArgs, LongReadArgs},
    host::fan_out::{self, HostResult},
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print,
    },
};
use call::{ChangeRow, Client, NamedChange, answer, change_confirmed, limit, request, target};

/// The facts about one BMC.
#[derive(Debug, Default, Serialize)]
struct Row {
    host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    service: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    firmware: String,
    /// Role or privilege of the account.
    #[serde(skip_serializing_if = "String::is_empty")]
    privilege: String,
    /// Whether the account may switch power.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_switch: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cipher_suite: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cipher_suites: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reset_types: Vec<String>,
    /// The rack that contains the host, as its chassis reports it.
    #[serde(skip_serializing_if = "String::is_empty")]
    rack: String,
    /// The neighbours of its ports, by LLDP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    neighbors: Vec<Neighbor>,
    /// Time of the BMC's clock.
    #[serde(skip_serializing_if = "String::is_empty")]
    clock: String,
    /// Seconds by which that clock is ahead of the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ahead: Option<i64>,
    /// read, failed or unreachable.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl Row {
    fn of(host: String, read: Result<v1::BmcFacts, Fault>) -> Self {
        let facts = match read {
            Ok(facts) => facts,
            Err(fault) => {
                return Self {
                    host,
                    result: fault.end.word(),
                    error: fault.message,
                    end: fault.end,
                    ..Self::default()
                };
            }
        };
        let topology = facts.topology.unwrap_or_default();
        let time = |at: Option<&prost_types::Timestamp>| timestamp_from_proto(at?).ok();
        let clock = time(facts.clock.as_ref());
        let ahead = clock.zip(time(facts.read_at.as_ref()));
        Self {
            host,
            service: facts.service,
            firmware: facts.firmware,
            privilege: facts.privilege,
            may_switch: facts.may_switch,
            cipher_suite: facts.cipher_suite,
            cipher_suites: facts.cipher_suites,
            reset_types: facts.reset_types,
            rack: topology.rack,
            neighbors: topology.neighbors.into_iter().map(Neighbor::of).collect(),
            clock: clock.map(|clock| format!("{clock:.0}")).unwrap_or_default(),
            clock_ahead: ahead.map(|(clock, now)| clock.duration_since(now).as_secs()),
            result: "read",
            error: String::new(),
            end: ExitStatus::Done,
        }
    }

    fn clock(&self) -> String {
        match self.clock_ahead {
            None => "-".to_owned(),
            Some(-1..=1) => "right".to_owned(),
            Some(ahead) => {
                let word = if ahead > 0 { "ahead" } else { "behind" };
                format!("{:#} {word}", SignedDuration::from_secs(ahead.abs()))
            }
        }
    }

    fn account(&self) -> String {
        match (self.privilege.as_str(), self.may_switch) {
            ("", Some(true)) => "may switch power".to_owned(),
            (privilege, Some(false)) => format!("{privilege} (may not switch power)"),
            (privilege, _) => known_or_dash(privilege),
        }
    }
}

/// The device at the other end of a port.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Neighbor {
    port: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    system_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    chassis_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    port_id: String,
}

impl Neighbor {
    fn of(neighbor: v1::Neighbor) -> Self {
        Self {
            port: neighbor.port,
            system_name: neighbor.system_name,
            chassis_id: neighbor.chassis_id,
            port_id: neighbor.port_id,
        }
    }
}

fn known_or_dash(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &[
        "HOST",
        "SERVICE",
        "FIRMWARE",
        "ACCOUNT",
        "CLOCK",
        "NOTE",
        "SUITE",
        "RESET TYPES",
    ];
    const SHORT: usize = 6;

    fn fields(&self) -> Vec<String> {
        let suite = self.cipher_suite.map(|suite| suite.to_string());
        vec![
            self.host.clone(),
            known_or_dash(&self.service),
            known_or_dash(&self.firmware),
            self.account(),
            self.clock(),
            brief(&self.host, &self.error).to_owned(),
            suite.unwrap_or_else(|| "-".to_owned()),
            known_or_dash(&self.reset_types.join(",")),
        ]
    }

    fn name(&self) -> &str {
        &self.host
    }
}

impl HostResult for Row {
    fn result(&self) -> &str {
        self.result
    }

    fn end(&self) -> ExitStatus {
        self.end
    }
}

pub(crate) async fn bmc(args: BmcArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        BmcAction::Info(args) => info(args).await,
        BmcAction::Reset(args) => reset(args).await,
        BmcAction::RotatePassword(args) => rotate_password(args).await,
    }
}

async fn info(args: BmcInfoArgs) -> anyhow::Result<ExitCode> {
    let LongReadArgs { timeout, common } = args.long;
    let read = |mut client: Client, host: String| {
        let asked = v1::ReadBmcRequest {
            target: target(&host),
            timeout: limit(timeout),
            topology: true,
        };
        async move {
            let read = answer(client.read_bmc(request(asked, timeout)).await);
            let facts = read.and_then(|response| match response.result {
                Some(Read::Facts(facts)) => Ok(facts),
                Some(Read::Failure(failure)) => Err(Fault::of_failure(failure)),
                None => Err(Fault::empty()),
            });
            Row::of(host, facts)
        }
    };
    let (rows, _) = fan_out::read_chosen(&args.hosts, &common, read).await?;
    print(&rows, common.output)?;
    Ok(fan_out::finish(&rows, common.output, "read"))
}

async fn reset(args: BmcResetArgs) -> anyhow::Result<ExitCode> {
    let change = |named| reset_one(named, &args);
    change_confirmed(
        "restart the BMC of",
        "restarted",
        &args.change.hosts,
        &args.change.confirmed,
        change,
    )
    .await
}

async fn reset_one(named: NamedChange, args: &BmcResetArgs) -> ChangeRow {
    let change = &args.change.confirmed.change;
    let reset = |mut client: Client, call| {
        let asked = v1::ResetBmcRequest {
            target: target(&named.host),
            timeout: limit(change.timeout),
            force: change.common.force,
            call,
            during_firmware_update: args.during_firmware_update,
        };
        async move { client.reset_bmc(request(asked, change.timeout)).await }
    };
    let changed = named
        .ask(reset)
        .await
        .and_then(|response| match response.result {
            Some(Reset::Changed(changed)) => Ok(changed),
            Some(Reset::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
    ChangeRow::of(named.host, "restarted", changed)
}

async fn rotate_password(args: BmcChangeArgs) -> anyhow::Result<ExitCode> {
    let change = |named| rotate_one(named, &args);
    change_confirmed(
        "change the passwords of the BMC of",
        "changed",
        &args.hosts,
        &args.confirmed,
        change,
    )
    .await
}

async fn rotate_one(named: NamedChange, args: &BmcChangeArgs) -> ChangeRow {
    let change = &args.confirmed.change;
    let rotate = |mut client: Client, call| {
        let asked = v1::RotatePasswordRequest {
            target: target(&named.host),
            timeout: limit(change.timeout),
            force: change.common.force,
            call,
        };
        async move { client.rotate_password(request(asked, change.timeout)).await }
    };
    let changed = named
        .ask(rotate)
        .await
        .and_then(|response| match response.result {
            Some(Rotated::Changed(changed)) => Ok(changed),
            Some(Rotated::Failure(failure)) => Err(Fault::of_failure(failure)),
            None => Err(Fault::empty()),
        });
    ChangeRow::of(named.host, "changed", changed)
}
