//! The account in use, and the change of its password.
//!
//! Owns: the selection of the account. Must never: change another account, or send the change twice.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::client::Redfish;
use crate::{
    Accepted, BmcError, ErrorKind,
    redfish::protocol::{
        call_budget::Call,
        document::{Collection, link, text},
    },
};

const FINDING: &str = "finding the account";
const DOING: &str = "changing the password";
/// Maximum number of accounts that are read.
const MAX_ACCOUNTS: usize = 32;

impl Redfish {
    /// The account in use with its address. Many BMCs show no other account to users who are not
    /// administrators.
    pub(super) async fn account(
        &self,
        call: &Call,
        root: &Value,
    ) -> Result<(Url, Value), BmcError> {
        let service = self
            .linked(
                call,
                root,
                "AccountService",
                "the BMC has no account service",
            )
            .await?;
        let accounts = self
            .linked(
                call,
                &service,
                "Accounts",
                "the account service lists no accounts",
            )
            .await?;
        let members = Collection::of(&accounts).unwrap_or_default().members;
        for member in members.iter().take(MAX_ACCOUNTS) {
            let url = self.access.http.resolve(member)?;
            // Accounts that this user may not read belong to others.
            if let Ok(account) = self.fetch(call, &url, FINDING).await
                && text(&account, "UserName").as_deref() == Some(self.access.username())
            {
                return Ok((url, account));
            }
        }
        let message = format!(
            "{FINDING}: the BMC shows this user no account named {}",
            self.access.username()
        );
        Err(self.error(ErrorKind::Unsupported, message))
    }

    async fn linked(
        &self,
        call: &Call,
        body: &Value,
        name: &str,
        missing: &str,
    ) -> Result<Value, BmcError> {
        let link = link(body, &[name]);
        let link = link.ok_or_else(|| self.error(ErrorKind::Unsupported, missing))?;
        let url = self.access.http.resolve(&link)?;
        self.fetch(call, &url, FINDING).await
    }

    /// Writes `Password` of the account in use (Redfish `ManagerAccount`).
    pub(super) async fn write_password(
        &self,
        call: &Call,
        password: &SecretString,
    ) -> Result<Accepted, BmcError> {
        let root = self.access.http.resolve("/redfish/v1/")?;
        let root = self.fetch(call, &root, "reading the service root").await?;
        let (url, _) = self.account(call, &root).await?;
        // The ETag of the header may differ from that of the body, and only the former is for If-Match.
        let read = self.access.get(call, &url).await?;
        let body = json!({ "Password": password.expose_secret() });
        let answer = self
            .patch(call, &url, read.etag().as_deref(), &body)
            .await?;
        let short = self.changed(call, DOING, &answer).await?;
        Ok(Accepted::taken("PATCH Password", short))
    }
}
