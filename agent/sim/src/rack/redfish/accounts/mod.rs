//! The accounts of one BMC and the privileges of their roles.
//!
//! Pure. Owns: passwords, which are kept in memory only and returned by no function.

pub(super) mod auth;
pub(super) mod session;

use secrecy::{ExposeSecret as _, SecretString};

/// A role of DSP0266, 13.4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Account that may read, configure and switch everything.
    Administrator,
    /// May switch and configure systems.
    Operator,
    ReadOnly,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Administrator, Self::Operator, Self::ReadOnly];

    /// Its `Id`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Administrator => "Administrator",
            Self::Operator => "Operator",
            Self::ReadOnly => "ReadOnly",
        }
    }

    /// Its `AssignedPrivileges`.
    pub fn privileges(self) -> &'static [&'static str] {
        match self {
            Self::Administrator => &[
                "Login",
                "ConfigureManager",
                "ConfigureUsers",
                "ConfigureComponents",
                "ConfigureSelf",
            ],
            Self::Operator => &["Login", "ConfigureComponents", "ConfigureSelf"],
            Self::ReadOnly => &["Login", "ConfigureSelf"],
        }
    }

    /// Whether it has this privilege.
    pub fn may(self, privilege: &str) -> bool {
        self.privileges().contains(&privilege)
    }

    pub(super) fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.id() == id)
    }
}

#[derive(Clone, Debug)]
pub struct Account {
    /// Its `Id`.
    pub id: String,
    /// Its `UserName`.
    pub user: String,
    pub role: Role,
    /// Whether login is allowed.
    pub enabled: bool,
    /// Number of changes, so that a new password changes its ETag.
    pub revision: u64,
    password: SecretString,
}

/// Changes to an account.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) user: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) role: Option<Role>,
    pub(super) enabled: Option<bool>,
}

/// The accounts of a BMC.
#[derive(Clone, Debug)]
pub struct AccountTable {
    accounts: Vec<Account>,
    last: u64,
}

/// Maximum number of accounts.
const ROOM: usize = 16;

impl AccountTable {
    /// A table with one administrator.
    pub fn new(user: &str, password: SecretString) -> Self {
        let mut table = Self {
            accounts: Vec::new(),
            last: 0,
        };
        table.add(user, password, Role::Administrator);
        table
    }

    /// The accounts, oldest first.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Adds an account; `None` if the table is full or the name is taken.
    pub fn add(&mut self, user: &str, password: SecretString, role: Role) -> Option<Account> {
        if self.accounts.len() >= ROOM || self.accounts.iter().any(|old| old.user == user) {
            return None;
        }
        self.last += 1;
        self.accounts.push(Account {
            id: self.last.to_string(),
            user: user.to_owned(),
            role,
            enabled: true,
            revision: 0,
            password,
        });
        self.accounts.last().cloned()
    }

    /// The account with this id.
    pub fn get(&self, id: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.id == id)
    }

    /// The role of an enabled account.
    pub fn role(&self, user: &str) -> Option<Role> {
        let found = self.accounts.iter().find(|account| account.user == user);
        found
            .filter(|account| account.enabled)
            .map(|account| account.role)
    }

    /// The role of an enabled account with this password.
    pub fn check(&self, user: &str, password: &str) -> Option<Role> {
        let right = |account: &&Account| {
            account.user == user && account.password.expose_secret() == password && account.enabled
        };
        self.accounts.iter().find(right).map(|account| account.role)
    }

    pub(super) fn change(&mut self, id: &str, change: Change) {
        let Some(account) = self.accounts.iter_mut().find(|account| account.id == id) else {
            return;
        };
        account.revision += 1;
        if let Some(user) = change.user {
            account.user = user;
        }
        if let Some(password) = change.password {
            account.password = password;
        }
        account.role = change.role.unwrap_or(account.role);
        account.enabled = change.enabled.unwrap_or(account.enabled);
    }

    /// Removes an account; `false` if the id does not exist.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.accounts.len();
        self.accounts.retain(|account| account.id != id);
        self.accounts.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_requires_the_password_and_an_enabled_account() {
        let mut table = AccountTable::new("admin", "secret".into());
        let other = table.add("eve", "s3cret".into(), Role::ReadOnly).unwrap();
        assert!(table.add("eve", "again".into(), Role::Operator).is_none());
        assert_eq!(table.check("admin", "secret"), Some(Role::Administrator));
        assert_eq!(table.check("eve", "secret"), None);
        table.change(
            &other.id,
            Change {
                enabled: Some(false),
                ..Change::default()
            },
        );
        assert_eq!(table.check("eve", "s3cret"), None);
        assert_eq!(table.role("eve"), None);
        assert!(table.remove(&other.id) && !table.remove(&other.id));
        assert!(!format!("{table:?}").contains("secret"));
    }

    #[test]
    fn number_of_accounts_is_limited() {
        let mut table = AccountTable::new("admin", "secret".into());
        let mut add = |n| table.add(&format!("u{n}"), "x".into(), Role::ReadOnly);
        assert_eq!((0..ROOM).filter_map(&mut add).count(), ROOM - 1);
    }
}
