//! `enroll`: generates the data that register this agent in a cluster.
//!
//! Owns: the agent's private key, generated and kept here. Must never: print it, send it, or
//! replace an existing one.

use std::{fs, io::ErrorKind, path::Path, process::ExitCode};

use anyhow::Context;
use rackhand_agent_service::config::Config;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{
    cli::{EnrollArgs, Enrolled},
    output::{exit_code::Usage, private_files},
};

const KEY: &str = "tls.key";
const REQUEST: &str = "tls.csr";

/// Writes key and request, and prints request and manifest.
///
/// # Errors
/// The configuration is wrong, or the directory cannot be written.
pub(crate) fn enroll(args: &EnrollArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    check_endpoint(&args.endpoint)?;
    let uri = uri(&args.trust_domain, &config.rack)?;
    let dir = match (&args.dir, &config.remote) {
        (Some(dir), _) => dir.clone(),
        (None, Some(remote)) => remote.tls.clone(),
        (None, None) => {
            return Err(Usage(
                "the configuration names no directory for certificates (`tls`): name one with --dir"
                    .to_owned(),
            )
            .into());
        }
    };
    let (key, is_new) = key(&dir)?;
    let request = request(&key, &config.rack, &uri)?;
    let file = dir.join(REQUEST);
    fs::write(&file, &request).with_context(|| format!("cannot write {}", file.display()))?;

    let networks = if config.inventory.accept_endpoints {
        let networks = config.inventory.networks.0.iter();
        networks.map(ToString::to_string).collect()
    } else {
        Vec::new()
    };
    let name = args.name.as_deref().unwrap_or(&config.rack);
    let manifest = manifest(name, &config.rack, &args.endpoint, &networks);
    let key_file = dir.join(KEY);
    errln!(
        "key:     {} ({}; it stays on this machine)",
        key_file.display(),
        if is_new {
            "new, mode 0600"
        } else {
            "was there and is kept"
        }
    );
    errln!("request: {} for {uri}", file.display());
    errln!(
        "next:    have your CA sign the request with its URI kept, put the certificate into\n         \
         {} and the CA into {}, and `kubectl apply` the RackAgent",
        dir.join("tls.crt").display(),
        dir.join("ca.crt").display()
    );
    if args.only != Some(Enrolled::Request) {
        out!("{}", serde_saphyr::to_string(&manifest)?);
    }
    if args.only.is_none() {
        outln!("---");
    }
    if args.only != Some(Enrolled::Manifest) {
        // As comments behind the manifest, so that the output can be applied as a whole.
        for line in request.lines() {
            match args.only {
                Some(_) => outln!("{line}"),
                None => outln!("# {line}"),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check_endpoint(endpoint: &str) -> Result<(), Usage> {
    let good = endpoint.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if good {
        return Ok(());
    }
    Err(Usage(format!(
        "--endpoint {endpoint}: write it as host:port, as controllers reach this agent"
    )))
}

/// The SPIFFE id of a rack.
fn uri(domain: &str, rack: &str) -> Result<String, Usage> {
    let good = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-_".contains(letter)
    };
    if domain.is_empty() || domain.len() > 255 || !domain.chars().all(good) {
        return Err(Usage(format!(
            "--trust-domain {domain}: lower-case letters, digits, dots, dashes and underscores, \
             such as example.org"
        )));
    }
    Ok(format!("spiffe://{domain}/rack/{rack}"))
}

/// The private key in the directory, generated if missing.
fn key(dir: &Path) -> anyhow::Result<(KeyPair, bool)> {
    let file = dir.join(KEY);
    let shown = file.display();
    match fs::read_to_string(&file) {
        Ok(text) => {
            let text = Zeroizing::new(text);
            let key = KeyPair::from_pem(&text)
                .with_context(|| format!("{shown} holds no key that can be used; move it away"))?;
            Ok((key, false))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            private_files::dir(dir)?;
            let key = KeyPair::generate().context("cannot make a key")?;
            let text = Zeroizing::new(key.serialize_pem());
            private_files::file(&file, &text).with_context(|| format!("cannot write {shown}"))?;
            Ok((key, true))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// A certificate request for the rack (PKCS #10, PEM).
fn request(key: &KeyPair, rack: &str, uri: &str) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("rackhand agent {rack}"));
    params.distinguished_name = name;
    params.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params.serialize_request(key)?.pem()?)
}

fn manifest(name: &str, rack: &str, endpoint: &str, networks: &[String]) -> Value {
    let mut spec = json!({"rack": rack, "endpoint": endpoint});
    if !networks.is_empty() {
        spec["bmcNetworks"] = json!(networks);
    }
    json!({
        "apiVersion": "rackhand.dev/v1alpha1",
        "kind": "RackAgent",
        "metadata": {"name": name.to_lowercase()},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_and_trust_domains_are_validated() {
        for good in ["a.example.org:7443", "[2001:db8::1]:7443"] {
            assert!(check_endpoint(good).is_ok(), "{good}");
        }
        for wrong in ["a.example.org", ":7443", "a:", "a:0", "a:99999"] {
            assert!(check_endpoint(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            uri("example.org", "r1").unwrap(),
            "spiffe://example.org/rack/r1"
        );
        for wrong in ["", "Example.org", "spiffe://example.org", "a b"] {
            assert!(uri(wrong, "r1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn manifest_lists_bmc_networks_only_if_given() {
        let plain = manifest("r1", "r1", "a:1", &[]);
        assert!(plain["spec"].get("bmcNetworks").is_none(), "{plain}");
        let open = manifest("R1", "R1", "a:1", &["192.0.2.0/24".to_owned()]);
        assert_eq!(open["spec"]["bmcNetworks"][0], "192.0.2.0/24");
        assert_eq!(open["metadata"]["name"], "r1");
        assert_eq!(open["spec"]["rack"], "R1");
    }
}
