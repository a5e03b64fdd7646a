//! Names and help texts of the metrics.

use prometheus_client::{metrics::info::Info, registry::Unit};

use super::Metrics;

impl Metrics {
    pub(super) fn register(&mut self) {
        let m = self;
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        let r = &mut m.registry;
        r.register("build", "This program", version);
        r.register(
            "operations",
            "Finished operations by action and outcome",
            m.operations.clone(),
        );
        r.register_with_unit(
            "operation",
            "Time of operations from their begin, waiting included",
            Unit::Seconds,
            m.operation_seconds.clone(),
        );
        r.register(
            "commands",
            "Power commands sent to BMCs",
            m.commands.clone(),
        );
        r.register(
            "bmc_calls",
            "Calls to BMCs by their result",
            m.calls.clone(),
        );
        r.register_with_unit(
            "bmc_call",
            "Time of calls to BMCs",
            Unit::Seconds,
            m.call_seconds.clone(),
        );
        r.register(
            "pdu_calls",
            "Calls to PDUs by their result",
            m.pdu_calls.clone(),
        );
        r.register_with_unit(
            "pdu_call",
            "Time of calls to PDUs",
            Unit::Seconds,
            m.pdu_call_seconds.clone(),
        );
        r.register(
            "refused_requests",
            "Requests that were refused, by reason",
            m.refused.clone(),
        );
        r.register(
            "overridden_holds",
            "Holds of a remediation that were overridden by force",
            m.overridden.clone(),
        );
        r.register(
            "journal_errors",
            "Failed journal writes",
            m.journal_errors.clone(),
        );
        r.register(
            "journal_writable",
            "1: the journal can be written; 0: it cannot, and no command is accepted",
            m.journal_writable.clone(),
        );
        r.register(
            "journal_reopened",
            "How often the journal was opened again after an error",
            m.journal_reopened.clone(),
        );
        r.register_with_unit(
            "journal_created_timestamp",
            "When the journal was created, and why: first, or because the earlier one was missing \
             or damaged",
            Unit::Seconds,
            m.journal_created.clone(),
        );
        r.register(
            "reloads",
            "Reloads of the configuration: taken, or refused because of a mistake",
            m.reloads.clone(),
        );
        r.register_with_unit(
            "configuration_taken_timestamp",
            "When the configuration in use was taken",
            Unit::Seconds,
            m.reloaded.clone(),
        );
        r.register(
            "configuration_current",
            "1: the configuration in use is that of the files; 0: the last reload was refused",
            m.current.clone(),
        );
        r.register("hosts", "Hosts of the inventory", m.hosts.clone());
        r.register(
            "watched_hosts",
            "Hosts whose power is read for callers that watch them",
            m.watched_hosts.clone(),
        );
        r.register(
            "operations_running",
            "Operations that are not finished",
            m.running.clone(),
        );
        r.register(
            "power_on_waiting",
            "Operations that wait for their PDU's turn",
            m.waiting.clone(),
        );
        r.register("holds", "Hosts that are held off", m.holds.clone());
        r.register_with_unit(
            "certificate_until_timestamp",
            "Until when the certificate of the remote listener is valid",
            Unit::Seconds,
            m.certificate.clone(),
        );
        r.register(
            "connections",
            "Connections of the remote listener whose handshake was good",
            m.accepted.clone(),
        );
        r.register(
            "refused_connections",
            "Connections of the remote listener that did not come to a good handshake, by reason",
            m.handshakes.clone(),
        );
        r.register_with_unit(
            "memory",
            "Resident memory of this process",
            Unit::Bytes,
            m.memory.clone(),
        );
        r.register(
            "open_descriptors",
            "Open file descriptors of this process",
            m.descriptors.clone(),
        );
        r.register(
            "most_descriptors",
            "File descriptors that this process may open",
            m.most_descriptors.clone(),
        );
    }
}
