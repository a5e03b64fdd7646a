//! Collections in which updates are looked for.
//!
//! Owns: pages, which members count, and saying which were not looked at. Must never: hide that a list goes on.

use serde_json::Value;
use url::Url;

use super::{MAX_MEMBERS, READING, Read, Survey, document, order, why};
use crate::{
    FirmwareUpdate,
    redfish::protocol::{
        document::{last_part, link, text},
        errors,
    },
};

/// Pages of a collection that are read.
const MAX_PAGES: usize = 4;
/// Members of an expanded collection that are looked at.
const MAX_EXPANDED: usize = 1024;

/// A collection as far as it was read; bounded by the size of its pages.
#[derive(Default)]
struct Members {
    /// Its members, where the service includes them.
    documents: Vec<Value>,
    links: Vec<String>,
    /// Whether one of its pages has a list.
    is_list: bool,
    /// Whether pages are left.
    has_more: bool,
    /// How many it has, as it says.
    count: Option<usize>,
}

impl Survey<'_> {
    /// A collection with its members; `None`: the service does not include them, whatever it says of itself.
    async fn expanded(&self, link: &str) -> Option<(Url, Value)> {
        let url = self.reader.resolve(link).ok()?;
        let answer = self.get(&url).await?.ok()?;
        let body = errors::document(self.reader.reporter(), READING, answer).ok()?;
        body.get("Members")?.as_array()?;
        Some((url, body))
    }

    /// A document to which the BMC refers as a part of a list; `None`: it cannot be read, which is recorded.
    async fn part(&self, what: &str, url: &Url) -> Option<Value> {
        match self.read(what, url).await {
            Read::Body(body) => Some(body),
            Read::Missing(status) => {
                let part = last_part(url.path());
                let why = format!("{status} for {part}, to which the BMC refers");
                self.cannot_read(what, &why);
                None
            }
            Read::Not => None,
        }
    }

    /// The pages of a collection, with its members where the service can include them; `None`: it cannot be read.
    async fn pages(&self, what: &str, path: &str) -> Option<Members> {
        let expanded = match self.expand {
            Some(query) => self.expanded(&format!("{path}?{query}")).await,
            None => None,
        };
        let (mut url, mut page) = match expanded {
            Some(found) => found,
            None => {
                let url = self.resolved(what, self.reader.resolve(path))?;
                let body = self.part(what, &url).await?;
                (url, body)
            }
        };
        let mut all = Members::default();
        let mut seen = Vec::new();
        loop {
            let next = text(&page, "Members@odata.nextLink");
            all.add(&mut page);
            seen.push(url.clone());
            all.has_more = next.is_some();
            let Some(next) = next else { break };
            if seen.len() >= MAX_PAGES {
                self.cannot_read(what, &format!("more than {MAX_PAGES} pages"));
                break;
            }
            let Some(next) = self.resolved(what, self.reader.resolve_from(&url, &next)) else {
                break;
            };
            if seen.contains(&next) {
                self.cannot_read(what, "a page leads back to one before it");
                break;
            }
            let Some(body) = self.part(what, &next).await else {
                break;
            };
            (url, page) = (next, body);
        }
        if !all.is_list {
            self.cannot_read(what, "the BMC answered without a list of members");
            return None;
        }
        let listed = all.listed();
        if let Some(count) = all.count.filter(|count| *count > listed && !all.has_more) {
            self.cannot_read(what, &format!("{listed} of {count} members are listed"));
        }
        Some(all)
    }

    /// A URL; `None`: the reference is none of this BMC, which is recorded.
    fn resolved(&self, what: &str, url: Result<Url, crate::BmcError>) -> Option<Url> {
        url.map_err(|error| self.cannot_read(what, &why(&error)))
            .ok()
    }

    /// Looks for updates among the members of a collection: in one request for each page where the service includes
    /// them, otherwise the newest ones, until so many have ended.
    pub(super) async fn members(
        &self,
        what: &str,
        path: &str,
        most_ended: usize,
        update: impl Fn(&Value) -> Option<FirmwareUpdate>,
    ) {
        let Some(all) = self.pages(what, path).await else {
            return;
        };
        let more = if all.has_more { " and more" } else { "" };
        let count = all.listed();
        if !all.documents.is_empty() {
            let newest = all.newest();
            let looked = newest.len();
            self.add(newest.into_iter().filter_map(update));
            if looked < count {
                self.cannot_read(what, &format!("{looked} of {count} were looked at"));
            }
            return self.is_read(match all.has_more || looked < count {
                true => format!("{what} ({looked} of {count}{more})"),
                false => what.to_owned(),
            });
        }
        let (mut read, mut ended) = (0, 0);
        for link in order::newest_first(&all.links) {
            if ended >= most_ended || read >= MAX_MEMBERS || self.is_running() {
                break;
            }
            read += 1;
            let member = match self.resolved(what, self.reader.resolve(link)) {
                Some(url) => self.part(what, &url).await,
                None => None,
            };
            ended += usize::from(!member.as_ref().is_some_and(document::is_alive));
            self.add(member.as_ref().and_then(&update));
        }
        let is_whole = read == count && !all.has_more;
        self.is_read(match is_whole {
            true => what.to_owned(),
            false => format!("{what} ({read} of {count}{more})"),
        });
    }
}

impl Members {
    /// Takes the members out of a page.
    fn add(&mut self, page: &mut Value) {
        let count = page.get("Members@odata.count").and_then(Value::as_u64);
        let count = count.and_then(|count| usize::try_from(count).ok());
        self.count = self.count.max(count);
        let Some(Value::Array(members)) = page.get_mut("Members").map(Value::take) else {
            return;
        };
        self.is_list = true;
        self.links
            .extend(members.iter().filter_map(|member| link(member, &[])));
        if members.iter().any(is_filled) {
            self.documents.extend(members);
        }
    }

    /// How many were listed.
    fn listed(&self) -> usize {
        self.links.len().max(self.documents.len())
    }

    /// The included members that are looked at, the newest ones first.
    fn newest(&self) -> Vec<&Value> {
        let name = |member: &Value| link(member, &[]).or_else(|| text(member, "Id"));
        let names: Vec<String> = self
            .documents
            .iter()
            .map(|member| name(member).unwrap_or_default())
            .collect();
        order::places(&names)
            .filter_map(|place| self.documents.get(place))
            .take(MAX_EXPANDED)
            .collect()
    }
}

/// Whether a member of a collection is a document rather than a link.
fn is_filled(member: &Value) -> bool {
    member.as_object().is_some_and(|member| member.len() > 1)
}

/// Parses a document as each kind that is read here.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    use crate::redfish::vendor;

    document::fuzz(body);
    let mut members = Members::default();
    members.add(&mut body.clone());
    assert!(order::newest_first(&members.links).count() == members.links.len());
    assert!(members.newest().len() <= MAX_EXPANDED);
    let _ = (
        vendor::job_queue(body),
        vendor::update_queue(body),
        vendor::is_openbmc(body),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(ids: impl Iterator<Item = usize>) -> Value {
        let members: Vec<Value> = ids
            .map(|id| json!({"@odata.id": format!("/tasks/{id}"), "Id": id.to_string()}))
            .collect();
        json!({"Members": members})
    }

    #[test]
    fn newest_members_of_a_long_list_are_looked_at_however_it_is_sorted() {
        for is_rising in [true, false] {
            let mut page = match is_rising {
                true => page(1..=5000),
                false => page((1..=5000).rev()),
            };
            let mut all = Members::default();
            all.add(&mut page);
            let newest = all.newest();
            assert_eq!((newest.len(), all.listed()), (MAX_EXPANDED, 5000));
            assert_eq!(newest[0]["Id"], "5000", "{is_rising}");
            let first = order::newest_first(&all.links).next();
            assert_eq!(first, Some("/tasks/5000"));
        }
    }
}
