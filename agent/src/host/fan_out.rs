//! Concurrent runs of a command on many hosts, with results in order and a summary at the end.

use std::{
    collections::BTreeMap,
    future::Future,
    io::{IsTerminal, Write},
    ops::{Deref, DerefMut},
    process::ExitCode,
};

use futures::{StreamExt, stream};
use rackhand_proto::v1::{self, power_client::PowerClient};
use tonic::transport::Channel;

use crate::{
    cli::{Common, Hosts, Output},
    client::connect_error::unreachable,
    output::{
        TableRow,
        exit_code::{ExitStatus, Usage},
        progress::Progress,
        summary,
    },
    power::{chosen, connect, known},
};

/// Hosts that are read concurrently: as many as a rack has, so that unreachable ones delay no others.
const READ_AT_ONCE: usize = 4096;
/// Hosts that are changed concurrently.
const CHANGED_AT_ONCE: usize = 256;

/// The result for one host.
pub(crate) trait HostResult: TableRow {
    /// Name of the result.
    fn result(&self) -> &str;
    /// The result for the exit code.
    fn end(&self) -> ExitStatus;
}

/// The results in the order of the hosts, and the hosts without one: a person has interrupted the command.
#[derive(Debug)]
pub(crate) struct Rows<R> {
    rows: Vec<R>,
    missing: Vec<String>,
}

impl<R> Rows<R> {
    /// Whether a person has interrupted the command.
    pub(crate) fn is_interrupted(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Adds a row for each host without a result.
    pub(crate) fn complete(&mut self, row: impl Fn(&str) -> R) {
        self.rows.extend(self.missing.iter().map(|host| row(host)));
    }
}

impl<R> Deref for Rows<R> {
    type Target = Vec<R>;

    fn deref(&self) -> &Vec<R> {
        &self.rows
    }
}

impl<R> DerefMut for Rows<R> {
    fn deref_mut(&mut self) -> &mut Vec<R> {
        &mut self.rows
    }
}

/// Runs a command on each host, until all are done or SIGINT. A host that does not answer delays only itself.
pub(crate) async fn each<R, F>(
    hosts: Vec<String>,
    at_once: usize,
    one: impl Fn(String) -> F,
    mut ended: impl FnMut(&R),
) -> Rows<R>
where
    F: Future<Output = R>,
{
    let mut found: BTreeMap<usize, R> = BTreeMap::new();
    let started = |(at, host): (usize, &String)| {
        let one = one(host.clone());
        async move { (at, one.await) }
    };
    let mut running = stream::iter(hosts.iter().enumerate())
        .map(started)
        .buffer_unordered(at_once);
    let all = async {
        while let Some((at, row)) = running.next().await {
            ended(&row);
            found.insert(at, row);
        }
    };
    tokio::select! {
        () = all => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    drop(running);
    let missing = hosts
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !found.contains_key(at))
        .map(|(_, host)| host)
        .collect();
    Rows {
        rows: found.into_values().collect(),
        missing,
    }
}

/// Reads from each host.
pub(crate) async fn read<R, F>(hosts: Vec<String>, read: impl Fn(String) -> F) -> Rows<R>
where
    F: Future<Output = R>,
{
    each(hosts, READ_AT_ONCE, read, |_| {}).await
}

/// Reads from each selected host, through the selected agent; `read` gets the agent's list of
/// hosts.
///
/// # Errors
///
/// The agent cannot be reached, or the hosts are invalid.
pub(crate) async fn read_chosen<R, F>(
    hosts: &Hosts,
    common: &Common,
    one: impl Fn(PowerClient<Channel>, String) -> F,
) -> anyhow::Result<(Rows<R>, v1::ListHostsResponse)>
where
    F: Future<Output = R>,
{
    let mut client = connect(common).await?;
    let known = known(&mut client).await?;
    let hosts = chosen(hosts, &known)?;
    let rows = read(hosts, |host| one(client.clone(), host)).await;
    Ok((rows, known))
}

/// Changes each host, and shows the progress.
pub(crate) async fn change<R: HostResult, F>(
    hosts: Vec<String>,
    change: impl Fn(String) -> F,
) -> Rows<R>
where
    F: Future<Output = R>,
{
    let progress = Progress::new(hosts.len());
    let ended = |row: &R| progress.ended(row.name(), row.result(), row.end() == ExitStatus::Done);
    let rows = each(hosts, CHANGED_AT_ONCE, change, ended).await;
    progress.clear();
    rows
}

/// Prints a summary for more than one host, and returns the exit code.
pub(crate) fn finish<R: HostResult>(rows: &Rows<R>, output: Output, good: &str) -> ExitCode {
    let is_table = matches!(output, Output::Table | Output::Wide);
    if rows.len() > 1 && is_table {
        let outcomes: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.result(), row.name())).collect();
        errln!("{}", summary(&outcomes, good));
    }
    let dead = rows.iter().find(|row| row.end() == ExitStatus::Unreachable);
    if let (Some(row), true) = (dead, is_table) {
        errln!("{}", unreachable(row.name()));
    }
    let ends = rows.iter().map(HostResult::end);
    if !rows.is_interrupted() {
        return ExitStatus::of(ends).code();
    }
    errln!("interrupted, without a result of {}", named(&rows.missing));
    ExitStatus::of(ends.chain([ExitStatus::Failed])).code()
}

/// The first names of a list, and the number of the others.
fn named(hosts: &[String]) -> String {
    const NAMED: usize = 20;
    let first: Vec<&str> = hosts.iter().take(NAMED).map(String::as_str).collect();
    match hosts.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Asks for confirmation on the terminal.
///
/// # Errors
/// [`Usage`]: there is no terminal, or the confirmation was declined.
pub(crate) fn confirm(what: &str, hosts: &[String]) -> Result<(), Usage> {
    let count = match hosts.len() {
        1 => "1 host".to_owned(),
        count => format!("{count} hosts"),
    };
    let what = format!("{what} {count}");
    if !std::io::stdin().is_terminal() {
        return Err(Usage(format!(
            "to {what} without confirmation requires --yes; --dry-run shows the hosts"
        )));
    }
    err!("{what}: {}? [y/N] ", named(hosts));
    std::io::stderr().flush().ok();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.map_err(|error| Usage(error.to_string()))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Usage("confirmation declined; nothing was done".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    /// A thousand hosts; every twentieth takes the whole time limit.
    #[tokio::test(start_paused = true)]
    async fn dead_hosts_do_not_delay_other_hosts() {
        let (limit, quick) = (Duration::from_secs(5), Duration::from_millis(20));
        let hosts: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        let begun = Instant::now();
        let rows = read(hosts.clone(), |host| async move {
            let is_dead = host.ends_with('7') && host.len() % 2 == 0;
            sleep(if is_dead { limit } else { quick }).await;
            (host, begun.elapsed())
        })
        .await;
        let names: Vec<String> = rows.iter().map(|(host, _)| host.clone()).collect();
        assert_eq!(names, hosts, "in the order in which they were named");
        assert_eq!(
            begun.elapsed(),
            limit,
            "the dead hosts did not run concurrently"
        );
        let slow = rows.iter().filter(|(_, took)| *took == limit).count();
        assert!(slow > 50, "{slow}");
        assert!(
            rows.iter()
                .all(|(_, took)| *took == limit || *took == quick)
        );
    }

    /// More hosts than are changed at once; the first is dead.
    #[tokio::test(start_paused = true)]
    async fn dead_host_delays_none_of_many() {
        let (limit, quick) = (Duration::from_secs(300), Duration::from_millis(20));
        let begun = Instant::now();
        let hosts: Vec<String> = (0..2 * CHANGED_AT_ONCE).map(|n| format!("n{n}")).collect();
        let change = |host: String| async move {
            sleep(if host == "n0" { limit } else { quick }).await;
            (host, begun.elapsed())
        };
        let rows = each(hosts.clone(), CHANGED_AT_ONCE, change, |_| {}).await;
        let names: Vec<String> = rows.iter().map(|(host, _)| host.clone()).collect();
        assert_eq!(names, hosts, "in the order in which they were named");
        let late = rows.iter().filter(|(_, at)| *at > 3 * quick).count();
        assert_eq!(late, 1, "only the dead one");
        assert!(!rows.is_interrupted());
    }
}
