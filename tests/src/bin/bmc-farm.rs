//! `bmc-farm`: many simulated IPMI BMCs in one process, for benchmarks and trials by hand.
//!
//! Prints where they listen, takes lines on standard input, and runs until SIGTERM or SIGINT, when
//! it prints what each of them did. Writes nothing to disk.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::PowerTimings;
use rackhand_tests::rack::ipmi::farm::view;
use rackhand_tests::rack::ipmi::{Farm, FarmConfig, IpmiBmc, Privilege, User};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const LINES: &str = "\
Lines on standard input (N is the number of a BMC from 0, or `all`):
  list                 where they listen
  counters [N]         one line of JSON each: power really switched, packets, commands, sessions
  dead N | alive N     N answers nothing, or again
  rule N JSON          adds a fault, for example
                         rule 3 {\"on\":{\"command\":\"00/02\"},\"action\":\"lose_answer\",\"remaining\":1}
                         rule all {\"on\":\"open_session\",\"action\":{\"status\":{\"status\":1}}}
  clear N              removes all faults
  hold N | step N | release N
                       takes no packets; takes one; takes them as they come
  quit

The password is `secret`, or $BMC_FARM_PASSWORD. Each BMC takes a socket: for more than about 1000,
raise `ulimit -n`. Port 623 needs root or net.ipv4.ip_unprivileged_port_start.";

/// Many simulated IPMI BMCs on consecutive addresses of loopback.
#[derive(Debug, Parser)]
#[command(version, after_help = LINES)]
struct Args {
    /// How many.
    #[arg(long, short = 'n', default_value_t = 200)]
    count: u32,
    /// Address of the first; the others follow it.
    #[arg(long, default_value_t = Ipv4Addr::new(127, 0, 1, 1))]
    first: Ipv4Addr,
    /// UDP port of all of them; 0 takes free ones.
    #[arg(long, short, default_value_t = 623)]
    port: u16,
    /// Numbers of BMCs that are silent from the start.
    #[arg(long, value_delimiter = ',')]
    dead: Vec<u32>,
    /// User of all of them, an administrator.
    #[arg(long, default_value = "admin")]
    user: String,
    /// Cipher suites: 3, 17 or both.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 17])]
    suites: Vec<u8>,
    /// The machines are off at first.
    #[arg(long)]
    off: bool,
    /// Milliseconds that switching off takes, and switching on.
    #[arg(long, default_value_t = 300)]
    switch_ms: u64,
    /// Milliseconds that a graceful shutdown takes.
    #[arg(long, default_value_t = 800)]
    shutdown_ms: u64,
    /// Drops session sequence numbers that were seen before, as strict BMCs do.
    #[arg(long)]
    strict: bool,
    /// Answers no Get Channel Cipher Suites, as many BMCs.
    #[arg(long)]
    hides_suites: bool,
    /// Sessions that each BMC has room for.
    #[arg(long, default_value_t = 8)]
    sessions: usize,
}

impl Args {
    fn farm(&self) -> Result<FarmConfig> {
        let password = std::env::var("BMC_FARM_PASSWORD");
        let password = password.unwrap_or_else(|_| "secret".to_owned());
        let mut config = FarmConfig::new(self.count);
        config.first = self.first;
        config.port = self.port;
        config.dead = self.dead.iter().copied().collect();
        config.on = !self.off;
        let switch = Duration::from_millis(self.switch_ms);
        config.timings = PowerTimings {
            off_takes: switch,
            on_takes: switch,
            shutdown_takes: Duration::from_millis(self.shutdown_ms),
            ..PowerTimings::default()
        };
        config.bmc.users = vec![User::new(&self.user, &password, Privilege::Administrator)];
        config.bmc.suites.clear();
        for number in &self.suites {
            let suite = Suite::ALL.into_iter().find(|one| one.number() == *number);
            let suite = suite.with_context(|| format!("cipher suite {number} is not known"))?;
            config.bmc.suites.push(suite);
        }
        config.bmc.behaviour.strict_sequence = self.strict;
        config.bmc.behaviour.lists_suites = !self.hides_suites;
        config.bmc.session_limit = self.sessions;
        Ok(config)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let farm = Farm::start(&Args::parse().farm()?).await?;
    list(&farm);
    println!("ready");
    let mut lines = standard_input();
    let mut listens = true;
    loop {
        let line = tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            line = lines.recv(), if listens => line,
        };
        match line.as_deref().map(str::trim) {
            // Standard input is closed: signals are left.
            None => listens = false,
            Some("quit") => break,
            Some("") => {}
            Some(line) => {
                if let Err(error) = obey(&farm, line).await {
                    println!("error: {error:#}");
                }
            }
        }
    }
    print(&farm, None)
}

/// Lines of standard input, read by a thread of their own: it ends with the process.
fn standard_input() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn list(farm: &Farm) {
    for (index, bmc) in farm.bmcs().iter().enumerate() {
        println!("{index} {}", bmc.address());
    }
}

fn print(farm: &Farm, only: Option<&str>) -> Result<()> {
    for (index, bmc) in chosen(farm, only.unwrap_or("all"))? {
        println!("{}", serde_json::to_string(&view(index, bmc))?);
    }
    Ok(())
}

fn chosen<'a>(farm: &'a Farm, which: &str) -> Result<Vec<(usize, &'a IpmiBmc)>> {
    let numbered = farm.bmcs().iter().enumerate();
    if which == "all" {
        return Ok(numbered.collect());
    }
    let wanted: usize = which
        .parse()
        .with_context(|| format!("{which} is no BMC"))?;
    let found: Vec<_> = numbered.filter(|(index, _)| *index == wanted).collect();
    if found.is_empty() {
        bail!("there is no BMC {wanted}");
    }
    Ok(found)
}

async fn obey(farm: &Farm, line: &str) -> Result<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (which, rest) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    match word {
        "list" => {
            list(farm);
            return Ok(());
        }
        "counters" => return print(farm, (!which.is_empty()).then_some(which)),
        _ => {}
    }
    for (_, bmc) in chosen(farm, which)? {
        match word {
            "dead" => bmc.with(|bmc, _| bmc.set_dead(true)),
            "alive" => bmc.with(|bmc, _| bmc.set_dead(false)),
            "clear" => bmc.with(|bmc, _| bmc.clear_faults()),
            "rule" => {
                bmc.inject(serde_json::from_str(rest).context("not a rule")?);
            }
            "hold" => bmc.hold(),
            "step" => bmc.step().await?,
            "release" => bmc.release(),
            _ => bail!("{word} is not understood; see --help"),
        }
    }
    println!("ok");
    Ok(())
}
