//! Finds the system that an address refers to.
//!
//! Owns: service root, systems collection, members, and the selected path. Must never: choose
//! between several systems; a wrong choice would switch off a healthy host.

use reqwest::StatusCode;
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::{
    auth::Access,
    call_budget::Call,
    document::{self, Collection, System},
    errors, vendor,
};
use crate::{BmcError, ErrorKind};

/// Maximum number of systems that are considered for an address without a path.
const MAX_MEMBERS: usize = 32;
const MAX_PAGES: usize = 8;

/// Path of the system, as far as it is known.
pub(super) struct Locator {
    explicit: Option<String>,
    found: Mutex<Option<Url>>,
}

/// The system resource, just read.
#[derive(Debug)]
pub(super) struct SystemResource {
    pub(super) url: Url,
    pub(super) system: System,
    /// The whole document, for properties that power commands do not need.
    pub(super) body: Value,
    /// ETag of the resource: the header, otherwise `@odata.etag`.
    pub(super) etag: Option<String>,
}

/// Result of reading a resource that should be a system.
enum Read {
    System(Box<SystemResource>),
    Other(Value),
    Refused(StatusCode, BmcError),
}

impl Locator {
    pub(super) fn new(explicit: Option<String>) -> Self {
        Self {
            explicit,
            found: Mutex::new(None),
        }
    }

    /// Reads the system, after finding it if necessary.
    pub(super) async fn read(
        &self,
        access: &Access,
        call: &Call,
    ) -> Result<SystemResource, BmcError> {
        if let Some(path) = &self.explicit {
            return self.read_explicit(access, call, path).await;
        }
        let known = self.found.lock().await.clone();
        if let Some(url) = known {
            match read(access, call, &url).await? {
                Read::System(found) => return Ok(*found),
                Read::Refused(StatusCode::NOT_FOUND, _) | Read::Other(_) => {}
                Read::Refused(_, error) => return Err(error),
            }
        }
        // Held during discovery, so that concurrent calls discover the system once.
        let mut place = self.found.lock().await;
        *place = None;
        let found = discover(access, call).await?;
        *place = Some(found.url.clone());
        Ok(found)
    }

    async fn read_explicit(
        &self,
        access: &Access,
        call: &Call,
        path: &str,
    ) -> Result<SystemResource, BmcError> {
        let error = |message| Err(access.http.reporter.error(ErrorKind::System, message));
        match read(access, call, &access.http.resolve(path)?).await? {
            Read::System(found) => Ok(*found),
            Read::Refused(StatusCode::NOT_FOUND, _) => error(format!(
                "the BMC has no system {path}; check the path in its address"
            )),
            Read::Refused(_, refusal) => Err(refusal),
            Read::Other(body) => error(match Collection::of(&body) {
                Some(collection) => format!(
                    "{path} is a collection, not a system; put one of its members into the \
                     address: {}",
                    access.http.reporter.quote(&collection.members.join(", "))
                ),
                None => format!("{path} is not a ComputerSystem; check the path in the address"),
            }),
        }
    }
}

async fn read(access: &Access, call: &Call, url: &Url) -> Result<Read, BmcError> {
    let answer = access.get(call, url).await?;
    if !answer.status.is_success() {
        let error = errors::of_status(&access.http.reporter, "reading the system", &answer);
        return Ok(Read::Refused(answer.status, error));
    }
    let in_header = answer.etag();
    let body = errors::document(&access.http.reporter, "reading the system", answer)?;
    let Some(system) = System::of(&body) else {
        return Ok(Read::Other(body));
    };
    Ok(Read::System(Box::new(SystemResource {
        url: url.clone(),
        system,
        etag: in_header.or_else(|| document::text(&body, "@odata.etag")),
        body,
    })))
}

async fn discover(access: &Access, call: &Call) -> Result<SystemResource, BmcError> {
    let members = members(access, call).await?;
    let wrong = |message: String| access.http.reporter.error(ErrorKind::System, message);
    if let [only] = members.as_slice() {
        let url = access.http.resolve(only)?;
        return match read(access, call, &url).await? {
            Read::System(found) => Ok(*found),
            Read::Refused(_, error) => Err(error),
            Read::Other(_) => Err(wrong(
                "the only member of the BMC's systems collection is not a ComputerSystem"
                    .to_owned(),
            )),
        };
    }
    let mut usable = Vec::new();
    let mut candidates = Vec::new();
    let mut unread = None;
    for member in &members {
        let url = access.http.resolve(member)?;
        let note = match read(access, call, &url).await? {
            Read::System(found) if is_resettable(&found.system) => {
                usable.push(*found);
                "can be reset"
            }
            Read::System(_) | Read::Other(_) => "cannot be reset",
            Read::Refused(..) if vendor::is_board(member) => "a board",
            Read::Refused(_, error) => {
                unread.get_or_insert(error);
                "cannot be read"
            }
        };
        candidates.push(format!("{member} ({note})"));
    }
    match (usable.pop(), usable.is_empty(), unread) {
        (Some(found), true, None) => Ok(found),
        // This member may be the system, and a later reading can tell: no user action is needed.
        (None, _, Some(error)) if error.kind == ErrorKind::Busy => Err(error),
        _ => Err(wrong(format!(
            "{} systems, and the address has no path; put the path of the right one into the address: {}",
            members.len(),
            access.http.reporter.quote(&candidates.join(", "))
        ))),
    }
}

fn is_resettable(system: &System) -> bool {
    system.reset.as_ref().is_some_and(|reset| {
        reset.allowed.as_ref().is_none_or(|allowed| {
            allowed
                .iter()
                .any(|word| ["On", "ForceOn", "ForceOff"].contains(&word.as_str()))
        })
    })
}

async fn members(access: &Access, call: &Call) -> Result<Vec<String>, BmcError> {
    const DOING: &str = "listing the systems";
    let reporter = &access.http.reporter;
    let wrong = |message| reporter.error(ErrorKind::System, message);
    let mut next = access.root().await?.systems;
    if next.is_none() {
        return Err(wrong("the service root names no systems"));
    }
    let mut members: Vec<String> = Vec::new();
    for _ in 0..MAX_PAGES {
        let Some(link) = next.take() else { break };
        let answer = access.get(call, &access.http.resolve(&link)?).await?;
        let body = errors::document(reporter, DOING, answer)?;
        let page = Collection::of(&body).ok_or_else(|| {
            reporter.error(
                ErrorKind::Protocol,
                "the BMC's list of systems is not a collection",
            )
        })?;
        for member in page.members {
            if !members.contains(&member) {
                members.push(member);
            }
        }
        next = page.next;
    }
    match members.len() {
        0 => Err(wrong("the BMC lists no system; it may still be starting")),
        1..=MAX_MEMBERS if next.is_none() => Ok(members),
        _ => Err(wrong(
            "too many systems; put the path of one into the address",
        )),
    }
}
