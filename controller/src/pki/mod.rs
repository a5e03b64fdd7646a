//! `rackhand-controller pki`: a CA for controllers, agents and operators, for sites without one.
//!
//! Manages the directory of the CA. It never prints a key, replaces an existing key, or signs an identity
//! that was not requested.

mod authority;
mod files;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use rackhand_transport::{Identity, SpiffeId};

use authority::{Authority, Certificate};
use files::{CERTIFICATE, KEY};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Commands of the CA.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Pki {
    /// Creates a CA: ca.crt and ca.key in a new directory.
    Init {
        #[command(flatten)]
        at: Directory,

        /// The site's name in every identity (spiffe://TRUST-DOMAIN/...).
        #[arg(long, default_value = "rackhand")]
        trust_domain: String,

        /// Validity of the CA in days.
        #[arg(long, value_name = "DAYS", default_value_t = 3650, value_parser = days())]
        days: u32,
    },
    /// Issues a certificate: ca.crt, tls.crt and tls.key in a folder of its own.
    Issue(Issue),
    /// Renews the certificates that have less than a third of their validity left, with the same keys, and
    /// lists all certificates.
    Renew {
        #[command(flatten)]
        at: Directory,

        /// Renew all certificates, regardless of their remaining validity.
        #[arg(long)]
        all: bool,

        #[command(flatten)]
        validity: Validity,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Issue {
    /// The identity in the certificate.
    #[command(subcommand)]
    subject: Subject,
}

/// The holder of a certificate.
#[derive(Debug, Clone, Subcommand)]
enum Subject {
    /// The controller, with one identity for all replicas.
    Controller(IssueOptions),
    /// The agents of a rack.
    Rack {
        /// The rack's name, as in the agent's configuration.
        name: String,

        /// Sign this request of `rackhand-agent enroll` instead of creating a key here.
        #[arg(long, value_name = "FILE")]
        request: Option<PathBuf>,

        #[command(flatten)]
        options: IssueOptions,
    },
    /// A remote operator.
    Operator {
        /// The operator's name, as it appears in the agents' journals.
        name: String,

        #[command(flatten)]
        options: IssueOptions,
    },
}

#[derive(Debug, Clone, Args)]
struct IssueOptions {
    #[command(flatten)]
    at: Directory,

    #[command(flatten)]
    validity: Validity,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Directory {
    /// Directory of the CA. Keep it offline: its keys can command every agent.
    #[arg(long, value_name = "DIR", default_value = "pki")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Validity {
    /// Validity of the certificate in days; it does not outlast its CA.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = days())]
    days: u32,
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=36_500)
}

/// Runs one command; returns what to print.
///
/// # Errors
/// A file cannot be read or written, an argument is invalid, or a file exists already.
pub(crate) fn run(command: Pki, now: Timestamp) -> anyhow::Result<String> {
    match command {
        Pki::Init {
            at,
            trust_domain,
            days,
        } => init(&at.dir, &trust_domain, now + DAY * days),
        Pki::Issue(issue) => issue.run(now),
        Pki::Renew { at, all, validity } => renew(&at.dir, all, now, now + DAY * validity.days),
    }
}

fn init(dir: &Path, trust_domain: &str, until: Timestamp) -> anyhow::Result<String> {
    // Rejects trust domains that are invalid in an identity.
    format!("spiffe://{trust_domain}/controller")
        .parse::<SpiffeId>()
        .with_context(|| format!("--trust-domain {trust_domain}"))?;
    let authority = Authority::new(trust_domain, Timestamp::now(), until)?;
    files::directory(dir)?;
    files::create(&dir.join("ca.key"), &authority.key_pem(), files::PRIVATE)?;
    files::create(&dir.join("ca.crt"), authority.pem(), files::PUBLIC)?;
    let shown = dir.display();
    Ok(format!(
        "CA of trust domain {trust_domain} in {shown}, valid until {}\n\
         next: rackhand-controller pki issue controller --dir {shown}\n",
        day(until)
    ))
}

impl Issue {
    fn run(self, now: Timestamp) -> anyhow::Result<String> {
        let (identity, request, options) = match self.subject {
            Subject::Controller(options) => (Identity::Controller, None, options),
            Subject::Rack {
                name,
                request,
                options,
            } => (Identity::Rack(name), request, options),
            Subject::Operator { name, options } => (Identity::Operator(name), None, options),
        };
        let dir = options.at.dir;
        let authority = Authority::load(&dir)?;
        let until = authority.no_longer_than(now + DAY * options.validity.days);
        let id = authority.id(identity)?;
        let folder = dir.join(folder(&id.identity));
        ensure!(
            !folder.exists(),
            "{} is there already: `rackhand-controller pki renew --dir {}` renews it; move it away to \
             issue a new key",
            folder.display(),
            dir.display()
        );
        let (certificate, key) = match &request {
            Some(file) => {
                let text = files::read(file)?;
                let signed = authority
                    .sign_request(&id, &text, now, until)
                    .with_context(|| format!("request {}", file.display()))?;
                (signed, None)
            }
            None => {
                let (certificate, key) = authority.issue(&id, now, until)?;
                (certificate, Some(key))
            }
        };
        files::directory(&folder)?;
        if let Some(key) = &key {
            files::create(&folder.join(KEY), key, files::PRIVATE)?;
        }
        files::create(&folder.join(CERTIFICATE), &certificate, files::PUBLIC)?;
        files::create(&folder.join("ca.crt"), authority.pem(), files::PUBLIC)?;
        Ok(format!(
            "{id} in {}, valid until {}\nnext: {}\n",
            folder.display(),
            day(until),
            next(&id.identity, &folder, key.is_some())
        ))
    }
}

/// Instructions for a new certificate.
fn next(identity: &Identity, folder: &Path, has_key: bool) -> String {
    let folder = folder.display();
    match identity {
        Identity::Controller => format!(
            "kubectl create secret generic rackhand-controller-tls --namespace rackhand-system \
             --from-file={folder}/ca.crt --from-file={folder}/tls.crt --from-file={folder}/tls.key"
        ),
        Identity::Rack(_) if !has_key => format!(
            "copy {folder}/ca.crt and {folder}/tls.crt into the directory that `tls` in the agent's \
             configuration names, beside its tls.key"
        ),
        Identity::Rack(_) => format!(
            "copy the files of {folder} into the directory that `tls` in the agent's configuration \
             names"
        ),
        Identity::Operator(_) => {
            format!("rackhand-agent --agent HOST:PORT --rack RACK --tls-dir {folder} host list")
        }
    }
}

/// The folder of an identity in the CA's directory.
fn folder(identity: &Identity) -> String {
    match identity {
        Identity::Controller => "controller".to_owned(),
        Identity::Rack(name) => format!("rack-{name}"),
        Identity::Operator(name) => format!("operator-{name}"),
    }
}

fn renew(dir: &Path, all: bool, now: Timestamp, until: Timestamp) -> anyhow::Result<String> {
    let authority = Authority::load(dir)?;
    let until = authority.no_longer_than(until);
    let ca = authority.certificate();
    let mut report = format!("{:<24} valid until {}\n", "CA", day(ca.until));
    let folders = files::folders_with(dir, CERTIFICATE)?;
    ensure!(
        !folders.is_empty(),
        "{} holds no certificates: `rackhand-controller pki issue` makes them",
        dir.display()
    );
    for folder in folders {
        let file = folder.join(CERTIFICATE);
        let shown = file.display();
        let old = Certificate::parse(&files::read(&file)?).with_context(|| shown.to_string())?;
        let id = old.id().with_context(|| shown.to_string())?;
        if id.trust_domain != authority.trust_domain() {
            bail!("{shown} is for {id}, which is not of this CA's trust domain");
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if all || is_due(&old, now) {
            let renewed = authority.renew(&id, &old, now, until)?;
            files::replace(&file, &renewed)?;
            files::replace(&folder.join("ca.crt"), authority.pem())?;
            writeln!(report, "{name:<24} renewed, valid until {}", day(until))?;
        } else {
            writeln!(report, "{name:<24} valid until {}", day(old.until))?;
        }
    }
    if is_due(ca, now) {
        report.push_str(
            "The CA itself has less than a third of its time left: docs/certificates.md says how to \
             replace it.\n",
        );
    }
    Ok(report)
}

/// Whether less than a third of the validity is left.
fn is_due(certificate: &Certificate, now: Timestamp) -> bool {
    let total = certificate.until.duration_since(certificate.from);
    certificate.until.duration_since(now) * 3 < total
}

fn day(at: Timestamp) -> impl std::fmt::Display {
    at.strftime("%Y-%m-%d %H:%M UTC")
}

#[cfg(test)]
mod tests;
