//! The account in use, and the change of its password.
//!
//! Owns: the selection of the account. Must never: change another account, or send the change twice.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::resources::{Reader, Writer};
use crate::{
    Accepted, BmcError, ErrorKind,
    redfish::protocol::document::{Collection, link, text},
};

const FINDING: &str = "finding the account";
const DOING: &str = "changing the password";
/// Maximum number of accounts that are read.
const MAX_ACCOUNTS: usize = 32;

/// The account in use with its address. Many BMCs show no other account to users who are not
/// administrators.
pub(super) async fn find(reader: Reader<'_>, root: &Value) -> Result<(Url, Value), BmcError> {
    let service = linked(
        reader,
        root,
        "AccountService",
        "the BMC has no account service",
    )
    .await?;
    let accounts = linked(
        reader,
        &service,
        "Accounts",
        "the account service lists no accounts",
    )
    .await?;
    let members = Collection::of(&accounts).unwrap_or_default().members;
    for member in members.iter().take(MAX_ACCOUNTS) {
        let url = reader.resolve(member)?;
        // Accounts that this user may not read belong to others.
        if let Ok(account) = reader.fetch(&url, FINDING).await
            && text(&account, "UserName").as_deref() == Some(reader.username())
        {
            return Ok((url, account));
        }
    }
    let message = format!(
        "{FINDING}: the BMC shows this user no account named {}",
        reader.username()
    );
    Err(reader.error(ErrorKind::Unsupported, message))
}

async fn linked(
    reader: Reader<'_>,
    body: &Value,
    name: &str,
    missing: &str,
) -> Result<Value, BmcError> {
    let link = link(body, &[name]);
    let link = link.ok_or_else(|| reader.error(ErrorKind::Unsupported, missing))?;
    reader.follow(&link, FINDING).await
}

/// Writes `Password` of the account in use (Redfish `ManagerAccount`).
pub(super) async fn set_password(
    writer: Writer<'_>,
    password: &SecretString,
) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let root = reader
        .follow("/redfish/v1/", "reading the service root")
        .await?;
    let (url, _) = find(reader, &root).await?;
    // The ETag of the header may differ from that of the body, and only the former is for If-Match.
    let read = reader.get(&url).await?;
    let body = json!({ "Password": password.expose_secret() });
    let answer = writer.patch(&url, read.etag().as_deref(), &body).await?;
    let short = writer.changed(DOING, &answer).await?;
    Ok(Accepted::taken("PATCH Password", short))
}
