//! Discovery of the system that an address refers to.
//!
//! Owns: service root, systems collection, members, and the selected path. Must never: choose
//! between several systems; a wrong choice would switch off a healthy host.

use reqwest::StatusCode;
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use crate::{
    BmcError, ErrorKind,
    redfish::{
        protocol::{
            auth::Access,
            call_budget::Call,
            document::{self, Collection, System},
            errors,
        },
        vendor,
    },
};

/// Maximum number of systems that are considered for an address without a path.
const MAX_MEMBERS: usize = 32;
const MAX_PAGES: usize = 8;
/// How often a system that the BMC denies is read again.
const DENIED_REPEATS: u32 = 2;
/// Where the systems are if the service root does not name them (DSP0266, clause 6.5).
const SYSTEMS: &str = "/redfish/v1/Systems";
/// Advice for a list of systems that cannot be used.
const ADVICE: &str = "put the path of the system into the address, such as \
                      redfish://HOST/redfish/v1/Systems/1";

/// Path of the system, once it is known.
pub(super) struct Locator {
    explicit: Option<String>,
    found: Mutex<Option<Url>>,
}

/// The system resource, just read.
#[derive(Debug, Clone)]
pub(in crate::redfish::host) struct SystemResource {
    pub(in crate::redfish::host) url: Url,
    pub(in crate::redfish::host) system: System,
    /// The whole document, for properties that power commands do not need.
    pub(in crate::redfish::host) body: Value,
    /// ETag of the resource: the header, otherwise `@odata.etag`.
    pub(in crate::redfish::host) etag: Option<String>,
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
    let mut answer = access.get(call, url).await?;
    for _ in 0..DENIED_REPEATS {
        if !errors::is_denial(&answer) || !call.may_pause(access.denied).await {
            break;
        }
        answer = access.get(call, url).await?;
    }
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
    // A document may be large, and one that cannot be chosen is not kept.
    let (mut usable, mut count) = (None, 0_usize);
    let mut candidates = Vec::new();
    let mut unread = None;
    for member in &members {
        let url = access.http.resolve(member)?;
        let note = match read(access, call, &url).await? {
            Read::System(found) if is_resettable(&found.system) => {
                count += 1;
                usable = (count == 1).then_some(*found);
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
    match (usable, count, unread) {
        (Some(found), 1, None) => Ok(found),
        // This member may be the system, and a later reading can tell: no user action is needed.
        (None, 0, Some(error)) if error.kind == ErrorKind::Busy => Err(error),
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

/// The links of all systems of the BMC.
pub(super) async fn members(access: &Access, call: &Call) -> Result<Vec<String>, BmcError> {
    const DOING: &str = "listing the systems";
    let reporter = &access.http.reporter;
    let wrong = |message: &str| reporter.error(ErrorKind::System, message);
    let named = access.root().await?.systems;
    let is_named = named.is_some();
    let mut next = Some(named.unwrap_or_else(|| SYSTEMS.to_owned()));
    let mut members: Vec<String> = Vec::new();
    for _ in 0..MAX_PAGES {
        let Some(link) = next.take() else { break };
        let answer = access.get(call, &access.http.resolve(&link)?).await?;
        if !is_named && answer.status == StatusCode::NOT_FOUND {
            let message = format!("the service root names no systems; {ADVICE}");
            return Err(wrong(&message));
        }
        let body = errors::document(reporter, DOING, answer).map_err(|error| {
            let is_unusable = error.kind == ErrorKind::Protocol;
            let message = format!("{}; {ADVICE}", error.message);
            if is_unusable {
                BmcError { message, ..error }
            } else {
                error
            }
        })?;
        let page = Collection::of(&body).ok_or_else(|| {
            let message = format!("the BMC's list of systems is not a collection; {ADVICE}");
            reporter.error(ErrorKind::Protocol, message)
        })?;
        for member in page.members {
            if members.len() > MAX_MEMBERS {
                break;
            }
            if !members.contains(&member) {
                members.push(member);
            }
        }
        next = page.next.filter(|_| members.len() <= MAX_MEMBERS);
    }
    match members.len() {
        // A BMC that starts lists its systems one by one: a later reading can tell.
        0 => Err(reporter.error(
            ErrorKind::Busy,
            "the BMC lists no system; it may still be starting. If that lasts, check its address",
        )),
        1..=MAX_MEMBERS if next.is_none() => Ok(members),
        _ => Err(wrong(&format!("too many systems; {ADVICE}"))),
    }
}
