//! Runs a command on many hosts: concurrently, with results in order and a summary at the end.

use std::{
    future::Future,
    io::{IsTerminal, Write},
    process::ExitCode,
};

use futures::{StreamExt, stream};
use rackhand_proto::v1::{self, power_client::PowerClient};
use tonic::transport::Channel;

use crate::{
    cli::{Common, Hosts, Output},
    connect_error::unreachable,
    exit_code::{ExitStatus, Usage},
    output::{TableRow, summary},
    power::{chosen, connect, known},
    progress::Progress,
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

/// Reads from each host.
pub(crate) async fn read<R, F>(hosts: Vec<String>, read: impl Fn(String) -> F) -> Vec<R>
where
    F: Future<Output = R>,
{
    let reading = stream::iter(hosts).map(read).buffered(READ_AT_ONCE);
    reading.collect().await
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
) -> anyhow::Result<(Vec<R>, v1::ListHostsResponse)>
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
) -> Vec<R>
where
    F: Future<Output = R>,
{
    let progress = Progress::new(hosts.len());
    let mut changing = stream::iter(hosts).map(change).buffered(CHANGED_AT_ONCE);
    let mut rows = Vec::new();
    while let Some(row) = changing.next().await {
        progress.ended(row.name(), row.result(), row.end() == ExitStatus::Done);
        rows.push(row);
    }
    progress.clear();
    rows
}

/// Prints a summary for more than one host, and returns the exit code.
pub(crate) fn finish<R: HostResult>(rows: &[R], output: Output, good: &str) -> ExitCode {
    if rows.len() > 1 && matches!(output, Output::Table | Output::Wide) {
        let outcomes: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.result(), row.name())).collect();
        errln!("{}", summary(&outcomes, good));
    }
    let dead = rows.iter().find(|row| row.end() == ExitStatus::Unreachable);
    if let (Some(row), Output::Table | Output::Wide) = (dead, output) {
        errln!("{}", unreachable(row.name()));
    }
    ExitStatus::of(rows.iter().map(HostResult::end)).code()
}

/// Asks for confirmation on the terminal.
///
/// # Errors
/// [`Usage`]: there is no terminal, or the confirmation was declined.
pub(crate) fn confirm(what: &str, hosts: &[String]) -> Result<(), Usage> {
    const NAMED: usize = 20;
    let named: Vec<&str> = hosts.iter().take(NAMED).map(String::as_str).collect();
    let more = match hosts.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
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
    err!("{what}: {}{more}? [y/N] ", named.join(", "));
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

    /// A thousand hosts, every twentieth of which takes the whole time limit.
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
}
