//! The event log.
//!
//! Owns: finding it among the logs of system and manager, paging, and clearing it. Must never: read
//! without a limit, return old entries as the newest, or clear another log.

mod entry;
mod selection;

use serde_json::{Value, json};
use url::Url;

use self::{
    entry::Order,
    selection::{Candidate, Owner},
};
use super::{
    manager::managed_by,
    resources::{Reader, SystemResource, Writer},
};
use crate::{
    Accepted, BmcError, ErrorKind, EventLog, LogEntry,
    redfish::protocol::document::{Action, Collection, Features, link},
};

/// Maximum number of pages read from one log; Dell's have 50 entries, OpenBMC's 1000.
const MAX_PAGES: usize = 32;
/// Maximum number of entries that are read one by one, if a BMC lists links and cannot expand them.
const MAX_SINGLE: usize = 64;
/// Maximum number of managers whose logs are considered.
const MAX_MANAGERS: usize = 4;
/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 1000;

const READING: &str = "reading the event log";

/// One page of entries.
struct Page {
    members: Vec<Value>,
    next: Option<String>,
    total: Option<usize>,
}

impl Page {
    fn of(body: Value) -> Self {
        let total = body.get("Members@odata.count").and_then(Value::as_u64);
        let next = Collection::of(&body).and_then(|page| page.next);
        let members = match body {
            Value::Object(mut object) => object.remove("Members"),
            _ => None,
        };
        let members = match members {
            Some(Value::Array(members)) => members.iter().map(entry::slim).collect(),
            _ => Vec::new(),
        };
        Self {
            members,
            next,
            total: total.and_then(|total| usize::try_from(total).ok()),
        }
    }
}

/// How to continue from a page that is not the last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NextPage {
    /// This page has all needed entries.
    Enough,
    /// Skip to the end of the log: this many entries from its start.
    Skip(usize),
    /// Follow the pages one by one.
    Follow,
}

/// How to get from the first page to the newest `limit` entries.
fn onward(first: &Page, limit: usize, features: Features) -> NextPage {
    let Some(next) = &first.next else {
        return NextPage::Enough;
    };
    if entry::order(&first.members) == Order::NewestFirst {
        return if first.members.len() >= limit {
            NextPage::Enough
        } else {
            NextPage::Follow
        };
    }
    // A service that uses `$skip` in its own links supports it.
    let skips = features.top_skip || next.contains("$skip=") || next.contains("%24skip=");
    match first.total {
        Some(total) if skips && total > first.members.len() => {
            NextPage::Skip(total.saturating_sub(limit))
        }
        _ => NextPage::Follow,
    }
}

pub(super) async fn read(reader: Reader<'_>, limit: usize) -> Result<EventLog, BmcError> {
    let service = log_service(reader).await?;
    let link = link(&service, &["Entries"]).ok_or_else(|| {
        let message = format!("{READING}: the log has no entries; update the BMC");
        reader.error(ErrorKind::Unsupported, message)
    })?;
    let url = reader.resolve(&link)?;
    let features = reader.root().await?.features;
    let mut first = page(reader, &url, None).await?;
    if let Some(query) = features.expand
        && first.members.first().is_some_and(entry::is_bare)
    {
        // Expansion is optional: without it, entries are read one by one.
        if let Ok(expanded) = page(reader, &url, Some(query)).await {
            first = expanded;
        }
    }
    let (total, seen_whole) = (first.total, first.next.is_none());
    let members = newest_members(reader, &url, first, limit, features).await?;
    let total = total.or(seen_whole.then_some(members.len()));
    let mut entries = Vec::new();
    for member in filled(reader, entry::newest(members, limit)).await? {
        entries.push(plain_entry(reader, entry::entry(&member)));
    }
    Ok(EventLog { entries, total })
}

/// Members that include the newest `limit` entries of the log.
async fn newest_members(
    reader: Reader<'_>,
    url: &Url,
    first: Page,
    limit: usize,
    features: Features,
) -> Result<Vec<Value>, BmcError> {
    let (mut members, mut next) = match onward(&first, limit, features) {
        NextPage::Enough => return Ok(first.members),
        NextPage::Follow => (first.members, first.next),
        NextPage::Skip(skip) => {
            let query = match (features.expand, first.members.first()) {
                (Some(expand), Some(member)) if !entry::is_bare(member) => {
                    format!("{expand}&$skip={skip}")
                }
                _ => format!("$skip={skip}"),
            };
            let page = page(reader, url, Some(&query)).await?;
            (page.members, page.next)
        }
    };
    let newest_first = entry::order(&members) == Order::NewestFirst;
    for _ in 1..MAX_PAGES {
        let Some(link) = next.take() else { break };
        if newest_first && members.len() >= limit {
            break;
        }
        let page = page(reader, &reader.resolve(&link)?, None).await?;
        members.extend(page.members);
        if !newest_first {
            let surplus = members.len().saturating_sub(limit);
            members.drain(..surplus);
        }
        next = page.next;
    }
    if next.is_some() && !(newest_first && members.len() >= limit) {
        let message = format!("{READING}: the log has more than {MAX_PAGES} pages; clear it");
        return Err(reader.error(ErrorKind::Unsupported, message));
    }
    Ok(members)
}

/// Reads the entries of members that are only links.
async fn filled(reader: Reader<'_>, members: Vec<Value>) -> Result<Vec<Value>, BmcError> {
    let surplus = members.len().saturating_sub(MAX_SINGLE);
    let mut entries = Vec::new();
    for (index, member) in members.into_iter().enumerate() {
        let link = link(&member, &[]).filter(|_| entry::is_bare(&member));
        match link {
            None => entries.push(member),
            Some(_) if index < surplus => {}
            Some(link) => {
                entries.push(entry::slim(&reader.follow(&link, READING).await?));
            }
        }
    }
    Ok(entries)
}

async fn page(reader: Reader<'_>, url: &Url, query: Option<&str>) -> Result<Page, BmcError> {
    let mut url = url.clone();
    if query.is_some() {
        url.set_query(query);
    }
    reader.fetch(&url, READING).await.map(Page::of)
}

/// The document of the event log service.
async fn log_service(reader: Reader<'_>) -> Result<Value, BmcError> {
    let found = reader.system().await?;
    let mut candidates = logs_of(reader, &found.body, Owner::System).await?;
    if !selection::is_settled(&candidates) {
        candidates.extend(manager_logs(reader, &found).await?);
    }
    let Some(chosen) = selection::choose(&candidates) else {
        let links: Vec<_> = candidates.into_iter().map(|log| log.link).collect();
        let list = reader.reporter().quote(&links.join(", "));
        let message = if links.is_empty() {
            "the BMC has no logs".to_owned()
        } else {
            format!("none of the BMC's logs is known as the event log: {list}")
        };
        return Err(reader.error(ErrorKind::Unsupported, message));
    };
    reader.follow(&chosen.link, READING).await
}

async fn manager_logs(
    reader: Reader<'_>,
    found: &SystemResource,
) -> Result<Vec<Candidate>, BmcError> {
    let mut logs = Vec::new();
    for manager in managed_by(&found.body).iter().take(MAX_MANAGERS) {
        let body = reader.follow(manager, READING).await?;
        logs.extend(logs_of(reader, &body, Owner::Manager).await?);
    }
    Ok(logs)
}

async fn logs_of(
    reader: Reader<'_>,
    body: &Value,
    owner: Owner,
) -> Result<Vec<Candidate>, BmcError> {
    let Some(link) = link(body, &["LogServices"]) else {
        return Ok(Vec::new());
    };
    let body = reader.follow(&link, READING).await?;
    let page = Collection::of(&body).unwrap_or_default();
    let members = page.members.into_iter();
    Ok(members.map(|link| Candidate { link, owner }).collect())
}

pub(super) async fn clear(writer: Writer<'_>) -> Result<Accepted, BmcError> {
    const DOING: &str = "clearing the event log";
    let reader = writer.reader();
    let service = log_service(reader).await?;
    let clear = Action::of(&service, "#LogService.ClearLog").ok_or_else(|| {
        let message = format!("{DOING}: the log cannot be cleared");
        reader.error(ErrorKind::Unsupported, message)
    })?;
    let target = reader.resolve(&clear.target)?;
    let turn = writer.turn().await;
    let answer = turn.act(&target, &json!({}), None, None).await?;
    drop(turn);
    let answer = writer.changed(DOING, &answer).await?;
    Ok(Accepted::taken("ClearLog", answer))
}

fn plain_entry(reader: Reader<'_>, mut entry: LogEntry) -> LogEntry {
    let reporter = reader.reporter();
    entry.id = reporter.plain(&entry.id, 100);
    entry.message = reporter.plain(&entry.message, MAX_MESSAGE);
    entry.sensor = entry.sensor.map(|sensor| reporter.plain(&sensor, 100));
    entry
}

/// Parses a document as every kind of log document.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    let page = Page::of(body.clone());
    onward(&page, 10, Features::default());
    for body in entry::newest(vec![body.clone()], 10) {
        let _ = (entry::is_bare(&body), entry::entry(&body));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redfish::protocol::document_tests::any_json;

    fn page(ids: &[u32], next: Option<&str>, total: Option<usize>) -> Page {
        Page {
            members: ids.iter().map(|id| json!({"Id": id.to_string()})).collect(),
            next: next.map(str::to_owned),
            total,
        }
    }

    #[test]
    fn newest_entries_are_read_with_the_fewest_pages() {
        let none = Features::default();
        let skips = Features {
            top_skip: true,
            ..none
        };
        let ahead = [1, 2, 3];
        let back = [9, 8, 7];
        for (first, features, expected) in [
            (page(&ahead, None, Some(3)), none, NextPage::Enough),
            (page(&back, Some("/2"), Some(9)), none, NextPage::Enough),
            (page(&[9, 8], Some("/2"), Some(9)), none, NextPage::Follow),
            (page(&ahead, Some("/2"), Some(9)), none, NextPage::Follow),
            (page(&ahead, Some("/2"), Some(9)), skips, NextPage::Skip(6)),
            (
                page(&ahead, Some("/2?$skip=3"), Some(9)),
                none,
                NextPage::Skip(6),
            ),
            (page(&ahead, Some("/2"), None), skips, NextPage::Follow),
        ] {
            assert_eq!(onward(&first, 3, features), expected);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_pages_do_not_panic_and_end(
            body in any_json(
                &["Members", "Members@odata.count", "Members@odata.nextLink", "Id"],
                &["/2?$skip=3", "7", "9"],
            ),
            limit in 0_usize..10,
        ) {
            let page = Page::of(body);
            if page.next.is_none() {
                prop_assert_eq!(onward(&page, limit, Features::default()), NextPage::Enough);
            }
        }
    }
}
