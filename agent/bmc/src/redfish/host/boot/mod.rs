//! The boot override.
//!
//! Owns: its resource (the system, or its settings), the order of requests, and reading it back.
//! Must never: report an override as set if the BMC shows another.

mod document;
pub(super) mod progress;

use reqwest::StatusCode;
use serde_json::Value;
use url::Url;

use self::document::{Boot, Refusal};
use super::resources::{Reader, SystemResource, Writer};
use crate::{
    Accepted, BmcError, BootDevice, BootOverride, ErrorKind,
    redfish::protocol::{
        document::{link, text},
        response::{Answer, Body},
    },
};

const DOING: &str = "setting the boot override";

/// A resource that contains the boot override.
struct BootDocument {
    url: Url,
    etag: Option<String>,
    boot: Boot,
}

/// Link to the settings that take effect at the next reset.
fn settings_link(body: &Value) -> Option<String> {
    link(body, &["@Redfish.Settings", "SettingsObject"])
}

pub(super) async fn read(reader: Reader<'_>) -> Result<BootOverride, BmcError> {
    let found = reader.system().await?;
    let now = Boot::of(&found.body);
    // A pending override takes precedence.
    let pending = settings(reader, &found).await?.map(|place| place.boot);
    let boot = pending.filter(Boot::is_active).or(now);
    let boot = boot.ok_or_else(|| no_override(reader))?;
    boot.shown().map_err(|target| {
        let target = reader.reporter().quote(target);
        let message = format!("the boot override is {target:?}, which is not supported here");
        reader.error(ErrorKind::Unsupported, message)
    })
}

pub(super) async fn write(writer: Writer<'_>, wanted: BootOverride) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let found = reader.system().await?;
    let identity = found.system.identity.clone();
    let settings = settings(reader, &found).await?;
    let now = Boot::of(&found.body).map(|boot| BootDocument {
        url: found.url.clone(),
        etag: found.etag.clone(),
        boot,
    });
    let settings = settings.map(|place| BootDocument {
        boot: place.boot.with_lists_of(now.as_ref().map(|now| &now.boot)),
        ..place
    });
    let mut refusal = None;
    // iDRAC10 accepts it in the settings only, iDRAC9 has settings and accepts it in the
    // system.
    for place in [settings, now].into_iter().flatten() {
        let body = place
            .boot
            .request(wanted, &identity)
            .map_err(|refusal| not_offered(reader, wanted.device, refusal))?;
        let answer = writer
            .patch(&place.url, place.etag.as_deref(), &body)
            .await?;
        match writer.changed(DOING, &answer).await {
            Ok(short) => {
                let no_mode = match wanted.mode {
                    Some(_) if !place.boot.has_mode() => "; it has no boot mode to choose",
                    _ => "",
                };
                let note = read_back(reader, wanted, &found, &place).await;
                let command = boot_command(&body);
                let answer = format!("{short}{no_mode}{note}");
                return Ok(Accepted::taken(command, answer));
            }
            Err(error) if is_wrong_place(&answer, &error) => {
                refusal.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refusal.unwrap_or_else(|| no_override(reader)))
}

/// The settings resource, if it contains a boot override.
async fn settings(
    reader: Reader<'_>,
    found: &SystemResource,
) -> Result<Option<BootDocument>, BmcError> {
    let Some(link) = settings_link(&found.body) else {
        return Ok(None);
    };
    let url = reader.resolve(&link)?;
    let answer = reader.get(&url).await?;
    let in_header = answer.etag();
    Ok(match &answer.body {
        Body::Json(body) if answer.status.is_success() => Boot::of(body).map(|boot| BootDocument {
            url,
            etag: in_header.or_else(|| text(body, "@odata.etag")),
            boot,
        }),
        _ => None,
    })
}

/// Text to append to the answer after reading the override back.
async fn read_back(
    reader: Reader<'_>,
    wanted: BootOverride,
    found: &SystemResource,
    place: &BootDocument,
) -> String {
    let read = async |url: &Url| {
        let body = reader.fetch(url, "reading the boot override").await;
        body.map(|body| Boot::of(&body).unwrap_or_default())
    };
    let now = match read(&found.url).await {
        Ok(now) if now.shows(wanted) => return String::new(),
        Ok(now) => now,
        Err(error) => return format!("; not read back: {}", error.message),
    };
    if place.url != found.url && read(&place.url).await.is_ok_and(|b| b.shows(wanted)) {
        return "; takes effect at the next reset".to_owned();
    }
    let words = reader.reporter().quote(&now.words());
    format!("; but the BMC shows {words:?}")
}

fn no_override(reader: Reader<'_>) -> BmcError {
    let message = "the BMC offers no boot override; update it, or set the order in the firmware";
    reader.error(ErrorKind::Unsupported, message)
}

fn not_offered(reader: Reader<'_>, device: BootDevice, refusal: Refusal) -> BmcError {
    let quote = |list: Vec<String>| reader.reporter().quote(&list.join(", "));
    let message = match refusal {
        Refusal::Device(offer) => {
            format!("no boot from {device:?}; the BMC offers {}", quote(offer))
        }
        Refusal::Period(offer) => {
            format!(
                "the BMC does not support this persistence of a boot override; it offers {}",
                quote(offer)
            )
        }
    };
    reader.error(ErrorKind::Unsupported, message)
}

/// Whether an error means that the override must be written to another resource.
fn is_wrong_place(answer: &Answer, error: &BmcError) -> bool {
    let by_status = [
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_IMPLEMENTED,
    ];
    error.kind == ErrorKind::Unsupported
        || (by_status.contains(&answer.status) && error.kind != ErrorKind::Busy)
}

/// The written override, for messages.
fn boot_command(body: &Value) -> String {
    let word = |name: &str| text(body.get("Boot")?, &format!("BootSourceOverride{name}"));
    let words = ["Target", "Enabled", "Mode"].map(word);
    let words: Vec<String> = words.into_iter().flatten().collect();
    format!("Boot {}", words.join(" "))
}

/// Parses a document as one with a boot override.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    let boot = Boot::of(body).unwrap_or_default();
    let _ = (boot.shown(), boot.words(), boot.is_active());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn boot_command_contains_target_and_persistence() {
        let boot = json!({"Boot": {
            "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once",
        }});
        assert_eq!(boot_command(&boot), "Boot Pxe Once");
    }

    #[test]
    fn settings_resource_is_found_by_its_link() {
        let body = json!({"@Redfish.Settings": {"SettingsObject": {"@odata.id": "/s"}}});
        assert_eq!(settings_link(&body).as_deref(), Some("/s"));
        assert_eq!(settings_link(&json!({"@Redfish.Settings": 1})), None);
    }
}
