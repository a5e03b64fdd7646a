//! Lists of whole kinds, page by page.
//!
//! Without a resourceVersion the first page is not older than its request, by a read from etcd or by a cache that has
//! caught up with it; all other pages show the moment of the first. Only one page is in memory at a time. Invariant: a list
//! whose last page is missing is an error, because what it lacks may be there (F12).

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use futures::AsyncBufReadExt as _;
use kube::{Client, api::ListParams, core::Request};
use rackhand_core::watches::{list_choice::Size, shared_list::Answers};
use serde::{Deserialize, de::DeserializeOwned};

use crate::store::api::{ApiError, call};

/// A list to make.
pub(super) struct PagedList<'a> {
    /// Names it in errors.
    pub(super) what: &'a str,
    /// The path of the kind.
    pub(super) path: &'a str,
    /// What it selects, and how many objects a page has.
    pub(super) params: ListParams,
    /// At how many objects it is given up.
    pub(super) most: usize,
    /// The timeout of all pages together.
    pub(super) limit: Duration,
}

// The fields of a list that are read.

#[derive(Deserialize)]
struct WirePage<W> {
    metadata: WireListMeta,
    items: Option<Vec<W>>,
}

#[derive(Deserialize)]
struct WireListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Answers what is asked about these names: passes every object to `add`, which keeps what is asked for.
///
/// # Errors
/// A page is missing, so that nothing is known.
pub(super) async fn list<W, T>(
    client: &Client,
    list: PagedList<'_>,
    names: BTreeSet<String>,
    mut add: impl FnMut(W, &mut Answers<T>),
) -> Result<(BTreeMap<String, T>, Size), ApiError>
where
    W: DeserializeOwned,
    T: Default,
{
    let PagedList {
        what,
        path,
        mut params,
        most,
        limit,
    } = list;
    let request = Request::new(path);
    let (mut answers, mut size) = (Answers::about(names), Size::default());
    let pages = async {
        loop {
            let asked = request.list(&params);
            let asked = asked.map_err(|error| ApiError::other(what, error))?;
            let (page, bytes): (WirePage<W>, usize) = fetch(client, what, asked).await?;
            size.bytes = size.bytes.saturating_add(bytes);
            for object in page.items.into_iter().flatten() {
                size.objects = size.objects.saturating_add(1);
                if size.objects > most {
                    return Err(ApiError::other(what, "they are too many for one list"));
                }
                add(object, &mut answers);
            }
            let next = page.metadata.next.filter(|token| !token.is_empty());
            answers.page(next.as_deref());
            if next.is_none() {
                return Ok(());
            }
            params.continue_token = next;
        }
    };
    let listed = tokio::time::timeout(limit, pages).await;
    let late = |_| ApiError::other(what, format!("no full list within {limit:?}"));
    listed.map_err(late)??;
    let answers = answers.complete();
    let answers = answers.ok_or_else(|| ApiError::other(what, "the list is not complete"))?;
    Ok((answers, size))
}

/// Makes a call, and returns what it has answered and in how many bytes.
pub(super) async fn fetch<T: DeserializeOwned>(
    client: &Client,
    what: &str,
    request: http::Request<Vec<u8>>,
) -> Result<(T, usize), ApiError> {
    let answer = async {
        let text = fetch_bytes(client, request).await?;
        let answer = serde_json::from_slice(&text).map_err(kube::Error::SerdeError)?;
        Ok((answer, text.len()))
    };
    call(what, answer).await
}

/// Makes a call, and returns its answer. It is in memory once, not as the parts in which it came and as a text beside.
pub(super) async fn fetch_bytes(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<Vec<u8>, kube::Error> {
    let mut body = pin!(client.request_stream(request).await?);
    let mut bytes = Vec::new();
    // Not `read_to_end`, which fills all that is left of the buffer with zeros for each part that comes.
    loop {
        let part = body.fill_buf().await.map_err(kube::Error::ReadEvents)?;
        if part.is_empty() {
            return Ok(bytes);
        }
        let read = part.len();
        bytes.extend_from_slice(part);
        body.consume_unpin(read);
    }
}
