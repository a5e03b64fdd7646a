//! Collections in which updates are looked for.
//!
//! Owns: pages, which members count, and saying which were not looked at. Must never: hide that a list goes on.

use serde_json::Value;
use url::Url;

use super::{MAX_ENDED, MAX_INVENTORY, MAX_MEMBERS, READING, Read, Survey, document, order, why};
use crate::{
    FirmwareUpdate,
    redfish::protocol::{
        document::{last_part, link, text},
        errors,
    },
};

/// Pages of a collection that are read.
const MAX_PAGES: usize = 4;

/// A collection in which updates are looked for.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    what: &'static str,
    path: &'a str,
    /// Members that have ended, after which no more of a long list is read one by one.
    most_ended: usize,
    /// Members that are read one by one.
    most: usize,
    /// The property with the state of a member, and its values of members that have ended, for services that filter.
    states: Option<(&'static str, &'static [&'static str])>,
}

impl<'a> List<'a> {
    /// A list whose members end, and are numbered as they begin.
    pub(super) fn new(what: &'static str, path: &'a str) -> Self {
        Self {
            what,
            path,
            most_ended: MAX_ENDED,
            most: MAX_MEMBERS,
            states: None,
        }
    }

    /// Its members have states, of which these mean that a member has ended.
    pub(super) fn of_states(self, property: &'static str, ended: &'static [&'static str]) -> Self {
        Self {
            states: Some((property, ended)),
            ..self
        }
    }

    /// Its members do not end: the first ones say nothing of others.
    pub(super) fn with_all_alike(self) -> Self {
        Self {
            most_ended: MAX_INVENTORY,
            most: MAX_INVENTORY,
            ..self
        }
    }

    /// The query for its members that have not ended (DSP0266, `$filter`); `None`: there is none.
    fn filter(&self) -> Option<String> {
        let (property, ended) = self.states?;
        let each: Vec<String> = (ended.iter())
            .map(|state| format!("{property} ne '{state}'"))
            .collect();
        Some(format!("$filter={}", each.join(" and ")))
    }
}

/// What a member of a list is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Update(FirmwareUpdate),
    /// It is at work, and does not say on what.
    Opaque(String),
    /// It has ended, waits, or is no update.
    Other,
}

impl Look {
    pub(super) fn of(update: Option<FirmwareUpdate>) -> Self {
        update.map_or(Self::Other, Self::Update)
    }

    pub(super) fn of_task(task: &Value, push_uris: &[String]) -> Self {
        let opaque = || document::opaque_task(task, push_uris).map_or(Self::Other, Self::Opaque);
        document::of_task(task, push_uris).map_or_else(opaque, Self::Update)
    }

    pub(super) fn of_job(job: &Value) -> Self {
        let opaque = || document::opaque_job(job).map_or(Self::Other, Self::Opaque);
        document::of_job(job).map_or_else(opaque, Self::Update)
    }
}

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
        let expanded = match self.features.expand {
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
    /// them; otherwise those that have not ended where it filters, and the newest ones, until so many have ended.
    pub(super) async fn members(&self, list: List<'_>, look: impl Fn(&Value) -> Look) {
        let what = list.what;
        let Some(all) = self.pages(what, list.path).await else {
            return;
        };
        let more = if all.has_more { " and more" } else { "" };
        let count = all.listed();
        if !all.documents.is_empty() {
            let newest = all.newest();
            let looked = newest.len();
            for member in newest {
                self.look(what, look(member));
            }
            if looked < count {
                self.cannot_read(what, &format!("{looked} of {count} were looked at"));
            }
            return self.is_read(match all.has_more || looked < count {
                true => format!("{what} ({looked} of {count}{more})"),
                false => what.to_owned(),
            });
        }
        let is_long = count > list.most || all.has_more;
        self.expects(count.min(list.most));
        let alive = match is_long {
            true => self.alive(&list).await.filter(|alive| alive.len() < count),
            false => None,
        };
        let most_ended = if is_long { list.most_ended } else { list.most };
        let first = alive.iter().flatten().map(String::as_str);
        let newest = order::newest_first(&all.links);
        let mut asked: Vec<&str> = Vec::new();
        let (mut ended, mut is_filter_right) = (0, true);
        for link in first.chain(newest) {
            if ended >= most_ended || asked.len() >= list.most || self.is_running() {
                break;
            }
            if asked.contains(&link) {
                continue;
            }
            asked.push(link);
            let member = match self.resolved(what, self.reader.resolve(link)) {
                Some(url) => self.part(what, &url).await,
                None => None,
            };
            let is_alive = member.as_ref().is_some_and(document::is_alive);
            ended += usize::from(!is_alive);
            let filtered = alive.as_deref().unwrap_or_default();
            is_filter_right &= !is_alive || filtered.iter().any(|alive| alive == link);
            self.look(what, member.as_ref().map_or(Look::Other, &look));
        }
        let read = asked.len();
        let is_alive_read = alive.as_ref().is_some_and(|alive| {
            is_filter_right && alive.iter().all(|link| asked.contains(&link.as_str()))
        });
        let is_whole = read >= count && !all.has_more;
        let are_all_asked = || all.links.iter().all(|link| asked.contains(&link.as_str()));
        // What it ended early for is known.
        if !is_alive_read && !self.is_running() && !are_all_asked() {
            self.cannot_read(what, &format!("{read} of {count} were read"));
        }
        self.is_read(match is_whole {
            true => what.to_owned(),
            false => format!("{what} ({read} of {count}{more})"),
        });
    }

    /// The members that have not ended, by a filter of the service; `None`: it has no filter, or it is not known that
    /// these are all.
    async fn alive(&self, list: &List<'_>) -> Option<Vec<String>> {
        let query = list.filter().filter(|_| self.features.filter)?;
        let (_, mut page) = self.expanded(&format!("{}?{query}", list.path)).await?;
        let mut members = Members::default();
        let has_more = text(&page, "Members@odata.nextLink").is_some();
        members.add(&mut page);
        let count = members.count.unwrap_or_default();
        let is_all = !has_more && count.max(members.documents.len()) <= members.links.len();
        is_all.then_some(members.links)
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
            .collect()
    }
}

/// Whether a member of a collection is a document rather than a link. Some services add a name to a link: its state is
/// in the document.
fn is_filled(member: &Value) -> bool {
    const STATES: &[&str] = &["TaskState", "JobState", "State", "Status"];
    let has_state = STATES.iter().any(|name| member.get(name).is_some());
    let is_document = member.as_object().is_some_and(|member| member.len() > 1);
    is_document && (has_state || link(member, &[]).is_none())
}

/// Parses a document as each kind that is read here.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    use crate::redfish::vendor;

    document::fuzz(body);
    let mut members = Members::default();
    members.add(&mut body.clone());
    assert!(order::newest_first(&members.links).count() == members.links.len());
    assert!(members.newest().len() <= members.listed());
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
            .map(|id| {
                json!({"@odata.id": format!("/tasks/{id}"), "Id": id.to_string(), "TaskState": "Running"})
            })
            .collect();
        json!({"Members": members})
    }

    #[test]
    fn filter_names_the_states_of_what_has_ended() {
        let list = List::new("tasks", "/tasks").of_states("TaskState", &["Completed", "Killed"]);
        let query = "$filter=TaskState ne 'Completed' and TaskState ne 'Killed'";
        assert_eq!(list.filter().as_deref(), Some(query));
        assert_eq!(List::new("jobs", "/jobs").filter(), None);
    }

    #[test]
    fn link_with_a_name_is_no_document() {
        let named = json!({"@odata.id": "/tasks/1", "@odata.type": "#Task.Task", "Name": "Update"});
        assert!(!is_filled(&named));
        assert!(is_filled(
            &json!({"@odata.id": "/tasks/1", "TaskState": null})
        ));
        assert!(
            is_filled(&json!({"Id": "1", "Name": "Update"})),
            "it has no link"
        );
        let mut all = Members::default();
        all.add(&mut json!({"Members": [named]}));
        assert_eq!((all.documents.len(), all.links.len()), (0, 1));
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
            assert_eq!((newest.len(), all.listed()), (5000, 5000));
            assert_eq!(newest[0]["Id"], "5000", "{is_rising}");
            let first = order::newest_first(&all.links).next();
            assert_eq!(first, Some("/tasks/5000"));
        }
    }
}
