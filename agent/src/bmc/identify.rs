//! `identify`.

use std::process::ExitCode;

use rackhand_proto::v1::{self, identify_response::Result as Lit};

use super::call::{ChangeRow, Client, answer, dry_run, limit, request, show, target};
use crate::{
    cli::{IdentifyArgs, Led},
    host::fan_out,
    output::exit_code::Fault,
    power::{chosen, connect, known},
};

pub(crate) async fn identify(args: IdentifyArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(&args.change.common).await?;
    let known = known(&mut client).await?;
    let hosts = chosen(&args.hosts, &known)?;
    let (what, done) = match args.led {
        Led::On => ("light the identify LED of".to_owned(), "lit"),
        Led::For(time) => (format!("light for {time:?} the identify LED of"), "lit"),
        Led::Off => ("put out the identify LED of".to_owned(), "out"),
    };
    if args.change.dry_run {
        return Ok(dry_run(&what, &hosts, &known));
    }
    let change = |host: String| one(client.clone(), host, done, &args);
    let rows = fan_out::change(hosts, change).await;
    if let (true, Led::For(time)) = (args.change.common.direct, args.led) {
        // Without a timer in the BMC, this process must switch the LED off.
        errln!("lit for {time:?}; Ctrl-C puts out what has no timer of its own");
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    show(&rows, args.change.common.output, done)
}

async fn one(
    mut client: Client,
    host: String,
    done: &'static str,
    args: &IdentifyArgs,
) -> ChangeRow {
    let asked = v1::IdentifyRequest {
        target: target(&host),
        timeout: limit(args.change.timeout),
        lit: args.led != Led::Off,
        lit_for: match args.led {
            Led::For(time) => limit(time),
            Led::On | Led::Off => None,
        },
    };
    let lit = answer(client.identify(request(asked, args.change.timeout)).await);
    let changed = lit.and_then(|response| match response.result {
        Some(Lit::Changed(changed)) => Ok(changed),
        Some(Lit::Failure(failure)) => Err(Fault::of_failure(failure)),
        None => Err(Fault::empty()),
    });
    ChangeRow::of(host, done, changed)
}
