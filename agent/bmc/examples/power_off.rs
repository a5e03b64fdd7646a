//! Switches a host off and waits until that is confirmed.
//!
//! ```text
//! BMC_PASSWORD=... cargo run --example power_off -- redfish://192.0.2.17 admin
//! ```

use std::{env, error::Error, process::ExitCode, time::Duration};

use rackhand_bmc::{
    Accepted, BmcError, Credentials, Options, PowerReading, connect,
    operation::{self, Goal, Hooks, OperationRequest, Proof},
};

/// Prints what happens.
struct Progress;

impl Hooks for Progress {
    fn reading(&mut self, reading: &PowerReading, _: Proof) {
        println!("read {:?} ({})", reading.state, reading.raw);
    }

    fn accepted(&mut self, accepted: &Accepted) {
        println!("sent {}: {}", accepted.command, accepted.answer);
    }

    fn failed(&mut self, error: &BmcError) {
        println!("failed: {error}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, user] = arguments.as_slice() else {
        return Err("usage: power_off ADDRESS USER, with the password in BMC_PASSWORD".into());
    };
    let credentials = Credentials::new(user, env::var("BMC_PASSWORD")?);
    let bmc = connect(address.parse()?, credentials, Options::default())?;
    let goal = Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_secs(2),
        command_after: Duration::ZERO,
    };
    let request = OperationRequest::new(goal, Duration::from_secs(60));
    let report = operation::run(bmc.as_ref(), request, &mut Progress).await;
    // The result stands, whether or not the session could be closed.
    bmc.close().await.ok();
    println!("{}", report.outcome);
    Ok(match report.outcome.is_done() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
