//! The arguments of the command line.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use clap::Parser;
use rackhand_model::{deep, explore::Bounds};

/// Explores every interleaving of a remediation in small worlds.
#[derive(Parser)]
#[command(name = "check-model", disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Show instead that every breakage is found.
    #[arg(long)]
    pub(crate) breakages: bool,
    /// Three faults instead, each three kinds of faults in a world of its own.
    #[arg(long, conflicts_with = "breakages")]
    pub(crate) deep: bool,
    /// Faults that may happen in one run; without it, one and then two.
    #[arg(long)]
    pub(crate) budget: Option<u8>,
    /// Only this fault may happen, for example Crash, in the worlds that have it; may be given again.
    #[arg(long, conflicts_with_all = ["breakages", "deep"])]
    pub(crate) fault: Vec<String>,
    /// Only this world; may be given again.
    #[arg(long)]
    pub(crate) world: Vec<String>,
    /// Threads of the checker.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Gibibytes of memory after which a world is given up.
    #[arg(long, default_value_t = 20)]
    pub(crate) memory: u64,
    /// Minutes after which a world is given up.
    #[arg(long, value_parser = minutes)]
    pub(crate) minutes: Option<Duration>,
    /// Events of a run that are followed; without it, all.
    #[arg(long)]
    pub(crate) depth: Option<usize>,
    /// With --deep: the number of the first set to explore, of each world.
    #[arg(long, default_value_t = 0, requires = "deep")]
    pub(crate) from: usize,
    /// With --deep: only the set of this number.
    #[arg(long, hide = true)]
    pub(crate) set: Option<usize>,
}

impl Args {
    /// Names that no world has are errors.
    pub(crate) fn check_names(&self) -> anyhow::Result<()> {
        let worlds = deep::worlds();
        let names = worlds.iter().map(|world| world.name.to_owned());
        check("world", &self.world, &names.collect())?;
        let faults = worlds.into_iter().flat_map(|world| world.faults);
        check("fault", &self.fault, &faults.collect())
    }

    pub(crate) fn is_chosen(&self, world: &str) -> bool {
        self.world.is_empty() || self.world.iter().any(|name| name == world)
    }

    /// Leaves the chosen faults of a world. Returns whether the world is chosen: it has one of them.
    pub(crate) fn choose<F: Debug>(&self, world: &str, faults: &mut Vec<F>) -> bool {
        if !self.fault.is_empty() {
            faults.retain(|fault| self.fault.contains(&format!("{fault:?}")));
        }
        self.is_chosen(world) && !faults.is_empty()
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            threads: self.threads,
            memory: self.memory << 30,
            time: self.minutes,
            depth: self.depth,
        }
    }
}

fn check(what: &str, names: &[String], known: &BTreeSet<String>) -> anyhow::Result<()> {
    for name in names {
        let all: Vec<&str> = known.iter().map(String::as_str).collect();
        anyhow::ensure!(
            known.contains(name),
            "there is no {what} {name}, but {}",
            all.join(", ")
        );
    }
    Ok(())
}

/// A number of minutes, also a fraction.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(60.0 * minutes).map_err(|error| error.to_string())
}
