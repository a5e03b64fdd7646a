//! Messages of a remediation in the words of the maintenance that made it.

/// Fields of a PowerRemediation, and the fields of the HostMaintenance that they are written from.
const FIELDS: [(&str, &str); 3] = [
    ("evictionPolicy", "eviction.whenNotFinished"),
    ("timeouts.evictionSeconds", "eviction.seconds"),
    ("timeouts.softOffSeconds", "softOffSeconds"),
];

/// A message of the remediation that names the fields of the object that the user wrote.
pub(super) fn own_fields(message: &str) -> String {
    FIELDS
        .iter()
        .fold(message.to_owned(), |text, (made, wanted)| {
            text.replace(made, wanted)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remediation::Reason;

    #[test]
    fn user_reads_the_field_that_the_user_wrote() {
        for reason in [
            Reason::EvictionWaits("pod a/b".into()),
            Reason::EvictionAborted("pod a/b".into()),
            Reason::EvictionBlocked("pod a/b".into()),
            Reason::EvictionUnfinished("pod a/b".into()),
        ] {
            let text = own_fields(&reason.to_string());
            assert!(!text.contains("evictionPolicy"), "{text}");
            assert!(text.contains("pod a/b"), "{text}");
        }
        let waits = own_fields(&Reason::EvictionWaits("p".into()).to_string());
        assert!(waits.contains("as eviction.whenNotFinished Wait requires"));
    }
}
