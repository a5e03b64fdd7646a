//! Reads or switches the power of many BMCs at once, on one thread.
//!
//! ```text
//! printf '%s\n' 10.0.0.1 redfish://10.0.0.2/redfish/v1/Systems/1 |
//!     BMC_PASSWORD=... power --user admin --password-env BMC_PASSWORD status
//! ```

use std::{
    fs, io,
    io::{Read, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use rackhand_bmc::{
    AuthPolicy, Bmc, BmcAddress, BmcError, Credentials, Options, Protocol, Trust, connect,
    ipmi::{Suite, SuiteChoice},
    operation::{
        self, DuringUpdate, Expected, Goal, OperationRequest, Outcome, Timing, state_word,
    },
};
use secrecy::SecretString;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Reads or switches the power of many BMCs at once. Standard input holds their addresses, one per
/// line, in the notation of baremetal-operator.
#[derive(Debug, Parser)]
struct Args {
    #[arg(value_enum)]
    command: Command,
    /// User name, the same at every BMC.
    #[arg(long)]
    user: String,
    /// Environment variable that holds the password.
    #[arg(long)]
    password_env: String,
    /// IPMI cipher suite.
    #[arg(long, value_enum, default_value = "auto")]
    suite: CipherSuite,
    /// Redfish authentication.
    #[arg(long, value_enum, default_value = "auto")]
    auth: Auth,
    /// Redfish: PEM file of trusted certificates, instead of those of the system.
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Prints the time from the start to each response.
    #[arg(long)]
    times: bool,
    /// Rounds of the command; sessions stay open between them.
    #[arg(long, default_value_t = 1)]
    again: u32,
    /// Shows the memory of this process after the first round, while its sessions are idle.
    #[arg(long)]
    idle_memory: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Command {
    Status,
    Off,
    On,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CipherSuite {
    Auto,
    #[value(name = "3")]
    Three,
    #[value(name = "17")]
    Seventeen,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Auth {
    Auto,
    Session,
    Basic,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let args = Args::parse();
    let password = SecretString::from(std::env::var(&args.password_env)?);
    let trust = match &args.ca {
        Some(file) => Trust::CaBundle(fs::read(file)?.into()),
        None => Trust::System,
    };
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let mut bmcs = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let address = line.parse()?;
        let bmc = client(&args, address, password.clone(), trust.clone())?;
        bmcs.push((line.to_owned(), Arc::<dyn Bmc>::from(bmc)));
    }
    let mut all_good = true;
    for round in 0..args.again {
        let start = Instant::now();
        all_good &= ask(&bmcs, args.command, args.times).await?;
        if args.again > 1 {
            let took = start.elapsed().as_secs_f64() * 1000.0;
            println!("round {}: {took:.1} ms", round + 1);
        }
        if round == 0 && args.idle_memory {
            println!("resident while idle: {:.1} MiB", resident()?);
        }
    }
    let mut closing = JoinSet::new();
    for (_, bmc) in bmcs {
        closing.spawn(async move { bmc.close().await });
    }
    while closing.join_next().await.is_some() {}
    Ok(if all_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn client(
    args: &Args,
    address: BmcAddress,
    password: SecretString,
    trust: Trust,
) -> Result<Box<dyn Bmc>, BmcError> {
    let options = Options {
        call_timeout: match address.protocol() {
            Protocol::Ipmi => Duration::from_secs(5),
            Protocol::Redfish => Duration::from_secs(60),
        },
        trust,
        auth: match args.auth {
            Auth::Auto => AuthPolicy::Auto,
            Auth::Session => AuthPolicy::Session,
            Auth::Basic => AuthPolicy::Basic,
        },
        cipher_suite: match args.suite {
            CipherSuite::Auto => SuiteChoice::Auto,
            CipherSuite::Three => SuiteChoice::Only(Suite::Cipher3),
            CipherSuite::Seventeen => SuiteChoice::Only(Suite::Cipher17),
        },
        ..Options::default()
    };
    connect(address, Credentials::new(&args.user, password), options)
}

/// Sends the command to all BMCs concurrently and prints each response as it arrives. Returns
/// `true` if all succeeded.
async fn ask(
    bmcs: &[(String, Arc<dyn Bmc>)],
    command: Command,
    times: bool,
) -> Result<bool, Failure> {
    let start = Instant::now();
    let mut answers = JoinSet::new();
    for (name, bmc) in bmcs {
        let (name, bmc) = (name.clone(), bmc.clone());
        answers.spawn(async move { (name, carry_out(bmc.as_ref(), command).await) });
    }
    let mut all_good = true;
    let mut out = io::stdout().lock();
    while let Some(answer) = answers.join_next().await {
        let (name, answer) = answer?;
        match answer {
            Ok(state) if times => {
                let took = start.elapsed().as_secs_f64() * 1000.0;
                writeln!(out, "{name}: {state} ({took:.1} ms)")?;
            }
            Ok(state) => writeln!(out, "{name}: {state}")?,
            Err(why) => {
                all_good = false;
                writeln!(out, "{name}: failed: {why}")?;
            }
        }
    }
    Ok(all_good)
}

async fn carry_out(bmc: &dyn Bmc, command: Command) -> Result<&'static str, String> {
    let goal = match command {
        Command::Status => {
            let reading = bmc.power().await.map_err(|error| error.to_string())?;
            return Ok(state_word(reading.state));
        }
        Command::Off => Goal::Off {
            confirmations: 1,
            confirm_interval: Duration::ZERO,
            command_after: Duration::ZERO,
        },
        Command::On => Goal::On,
    };
    let asked = OperationRequest {
        goal,
        deadline: Duration::from_secs(60),
        expected: Expected::default(),
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    };
    let report = operation::run(bmc, asked, &mut ()).await;
    match report.outcome {
        Outcome::Confirmed { state, .. } => Ok(state_word(state)),
        other => Err(report
            .error
            .map_or_else(|| format!("{other:?}"), |error| error.to_string())),
    }
}

/// The resident set of this process in MiB (proc(5), `VmRSS`).
fn resident() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}
