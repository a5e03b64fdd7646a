//! The identify LED.
//!
//! Owns: the property and the resource of the LED. Must never: switch it on for a limited time;
//! Redfish has no timer, and a timer here would not survive this process.

use reqwest::StatusCode;
use serde_json::{Value, json};
use url::Url;

use super::resources::{Reader, Writer};
use crate::{
    Accepted, BmcError, ErrorKind, Identify, SystemIdentity,
    redfish::{
        protocol::{
            document::{links, text, values},
            errors,
        },
        vendor,
    },
};

const DOING: &str = "setting the identify LED";

/// Maximum number of chassis that are read if the system has no LED.
const MAX_CHASSIS: usize = 4;

/// The LED property of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Led {
    /// `LocationIndicatorActive`.
    Location,
    /// `IndicatorLED`, deprecated since 2020, but the only one on many BMCs; with its allowable
    /// values.
    Indicator(Option<Vec<String>>),
}

/// The LED of a document; the newer property is preferred.
fn led(body: &Value) -> Option<Led> {
    if body
        .get("LocationIndicatorActive")
        .is_some_and(Value::is_boolean)
    {
        return Some(Led::Location);
    }
    let led = text(body, "IndicatorLED")?;
    let allowed = values(body.get("IndicatorLED@Redfish.AllowableValues"));
    (led != "Unknown" || allowed.is_some()).then_some(Led::Indicator(allowed))
}

/// Whether the LED of a document is lit or blinks; `None`: it is not reported.
pub(super) fn is_lit(body: &Value) -> Option<bool> {
    if let Some(lit) = body.get("LocationIndicatorActive").and_then(Value::as_bool) {
        return Some(lit);
    }
    match text(body, "IndicatorLED")?.as_str() {
        "Lit" | "Blinking" => Some(true),
        "Off" => Some(false),
        _ => None,
    }
}

/// Bodies to write, best first; empty if no allowable value fits.
fn requests(led: &Led, lit: bool, identity: &SystemIdentity) -> Vec<Value> {
    match led {
        Led::Location => vec![json!({ "LocationIndicatorActive": lit })],
        Led::Indicator(allowed) => vendor::led_words(lit, identity)
            .iter()
            .filter(|word| {
                allowed
                    .as_ref()
                    .is_none_or(|allowed| allowed.iter().any(|offer| offer == *word))
            })
            .map(|word| json!({ "IndicatorLED": word }))
            .collect(),
    }
}

pub(super) async fn set(writer: Writer<'_>, wanted: Identify) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let lit = match wanted {
        Identify::On => true,
        Identify::Off => false,
        Identify::For(_) => {
            let message = "Redfish has no timer for the identify LED; switch it on, and off later";
            return Err(reader.error(ErrorKind::Unsupported, message));
        }
    };
    let found = reader.system().await?;
    let identity = &found.system.identity;
    if let Some(led) = led(&found.body) {
        let requests = requests(&led, lit, identity);
        return set_led(writer, &found.url, found.etag.as_deref(), &requests).await;
    }
    let chassis = links(&found.body, &["Links", "Chassis"]);
    for link in chassis.iter().take(MAX_CHASSIS) {
        let url = reader.resolve(link)?;
        let answer = reader.get(&url).await?;
        let in_header = answer.etag();
        let Ok(body) = errors::document(reader.reporter(), DOING, answer) else {
            continue;
        };
        if let Some(led) = led(&body) {
            let etag = in_header.or_else(|| text(&body, "@odata.etag"));
            let requests = requests(&led, lit, identity);
            return set_led(writer, &url, etag.as_deref(), &requests).await;
        }
    }
    Err(no_led(reader))
}

/// Writes the first body that the BMC accepts.
async fn set_led(
    writer: Writer<'_>,
    url: &Url,
    etag: Option<&str>,
    requests: &[Value],
) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let mut refusal = None;
    for request in requests {
        let answer = writer.patch(url, etag, request).await?;
        let is_wrong_value = answer.status == StatusCode::BAD_REQUEST;
        match writer.changed(DOING, &answer).await {
            Ok(answer) => {
                let command = request.to_string();
                return Ok(Accepted::taken(command, answer));
            }
            Err(error) if is_wrong_value && error.kind != ErrorKind::Busy => {
                refusal.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refusal.unwrap_or_else(|| no_led(reader)))
}

fn no_led(reader: Reader<'_>) -> BmcError {
    reader.error(
        ErrorKind::Unsupported,
        "the BMC has no identify LED that supports this setting",
    )
}

/// Parses a document as one with an LED.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    is_lit(body);
    if let Some(led) = led(body) {
        requests(&led, true, &SystemIdentity::default());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redfish::protocol::document_tests::any_json;

    #[test]
    fn led_is_lit_by_either_property() {
        for (body, lit) in [
            (json!({"LocationIndicatorActive": true}), Some(true)),
            (
                json!({"LocationIndicatorActive": false, "IndicatorLED": "Lit"}),
                Some(false),
            ),
            (json!({"IndicatorLED": "Blinking"}), Some(true)),
            (json!({"IndicatorLED": "Off"}), Some(false)),
            (json!({"IndicatorLED": "Unknown"}), None),
            (json!({}), None),
        ] {
            assert_eq!(is_lit(&body), lit, "{body}");
        }
    }

    #[test]
    fn location_indicator_active_is_preferred() {
        let both = json!({"LocationIndicatorActive": false, "IndicatorLED": "Off"});
        assert_eq!(led(&both), Some(Led::Location));
        let null = json!({"LocationIndicatorActive": null, "IndicatorLED": "Off"});
        assert_eq!(led(&null), Some(Led::Indicator(None)));
        for body in [
            json!({}),
            json!({"IndicatorLED": null}),
            json!({"IndicatorLED": "Unknown"}),
        ] {
            assert_eq!(led(&body), None, "{body}");
        }
    }

    #[test]
    fn only_allowable_led_values_are_written() {
        let nobody = SystemIdentity::default();
        let with = |allowed: &[&str]| {
            Led::Indicator(Some(allowed.iter().map(|&word| word.to_owned()).collect()))
        };
        let on = |led: &Led| requests(led, true, &nobody);
        assert_eq!(
            on(&with(&["Blinking", "Off"])),
            [json!({"IndicatorLED": "Blinking"})]
        );
        assert_eq!(on(&with(&["Off"])), Vec::<Value>::new());
        assert_eq!(on(&Led::Indicator(None)).len(), 2);
        assert_eq!(
            on(&Led::Location),
            [json!({"LocationIndicatorActive": true})]
        );
    }

    proptest! {
        #[test]
        fn arbitrary_documents_do_not_panic(body in any_json(
            &["IndicatorLED", "LocationIndicatorActive", "IndicatorLED@Redfish.AllowableValues"],
            &["Lit", "Off", "Unknown"],
        )) {
            if let Some(led) = led(&body) {
                prop_assert!(requests(&led, true, &SystemIdentity::default()).len() <= 2);
            }
        }
    }
}
