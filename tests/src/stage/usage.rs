//! Resource usage of processes, by the kernel and the API server.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};

use super::Stage;
use crate::process::Process;

/// Clock ticks per second in /proc, which are 100 on Linux.
const TICKS: u64 = 100;
/// Flow schemas of the API server's priority and fairness for ServiceAccounts. The test itself is an
/// administrator and in neither of them.
const MANAGEMENT: &str = "service-accounts";
const WORKLOAD: &str = "kube-system-service-accounts";
/// The same for Leases that a ServiceAccount of kube-system reads. Here that is the controller with its account of the
/// workload cluster, which reads those of kubelets.
const LEASES: &str = "system-leader-election";

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Peak of the resident set (VmHWM), in KiB.
    pub peak_kib: u64,
    /// The resident set now, in KiB.
    pub now_kib: u64,
}

impl Usage {
    /// The peak in MiB.
    #[must_use]
    pub fn peak_mib(&self) -> f64 {
        // A process of 2^52 KiB there is none.
        #[allow(clippy::cast_precision_loss)]
        let kib = self.peak_kib as f64;
        kib / 1024.0
    }

    /// Reads the usage of a process from /proc.
    ///
    /// # Errors
    /// The process has ended.
    pub fn of(process: &Process) -> Result<Self> {
        let pid = process.pid();
        let stat = read(pid, "stat")?;
        // The name is in parentheses and may contain spaces.
        let (_, rest) = stat.rsplit_once(')').context("stat")?;
        let ticks = |index: usize| -> Result<u64> {
            let value = rest.split_whitespace().nth(index).context("stat")?;
            Ok(value.parse()?)
        };
        Ok(Self {
            cpu: Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS),
            peak_kib: memory_kib(pid, "VmHWM:")?,
            now_kib: memory_kib(pid, "VmRSS:")?,
        })
    }
}

/// A value from the status of a process (proc(5)), such as `RssAnon:`, in KiB.
///
/// # Errors
/// The process has ended, or its status has no such value.
pub fn memory_kib(pid: i32, name: &str) -> Result<u64> {
    let status = read(pid, "status")?;
    let line = status.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(value.with_context(|| name.to_owned())?.parse()?)
}

fn read(pid: i32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| path.clone())
}

/// API calls, counted by the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiCalls {
    /// Calls of the controller with its account of the management cluster.
    pub management: u64,
    /// Calls of the controller with its account of the workload cluster.
    pub workload: u64,
    /// Calls of all clients by verb and resource.
    pub by_kind: BTreeMap<String, u64>,
    /// Bytes of the responses to GET and LIST of all clients, by verb and resource.
    pub bytes_read: BTreeMap<String, u64>,
}

impl ApiCalls {
    /// The calls since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            management: self.management - before.management,
            workload: self.workload - before.workload,
            by_kind: grown(&self.by_kind, &before.by_kind),
            bytes_read: grown(&self.bytes_read, &before.bytes_read),
        }
    }

    fn read(text: &str) -> Self {
        let mut calls = Self::default();
        for line in text.lines() {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\""))?;
                rest.split('"').next()
            };
            let value = line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok());
            // Counters are whole numbers, and Prometheus prints large ones with an exponent.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = value.unwrap_or(0.0) as u64;
            if line.starts_with("apiserver_flowcontrol_dispatched_requests_total{") {
                match label("flow_schema") {
                    Some(MANAGEMENT) => calls.management += count,
                    Some(WORKLOAD | LEASES) => calls.workload += count,
                    _ => {}
                }
            }
            let by_kind = if line.starts_with("apiserver_request_total{") {
                &mut calls.by_kind
            } else if line.starts_with("apiserver_response_sizes_sum{") {
                &mut calls.bytes_read
            } else {
                continue;
            };
            let (verb, resource) = (label("verb"), label("resource"));
            let (verb, resource) = (verb.unwrap_or_default(), resource.unwrap_or_default());
            let kind = match label("subresource").unwrap_or_default() {
                "" => format!("{verb} {resource}"),
                part => format!("{verb} {resource}/{part}"),
            };
            *by_kind.entry(kind).or_default() += count;
        }
        calls
    }
}

/// What has grown between two readings of counters.
fn grown(after: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let old = |kind: &String| before.get(kind).copied().unwrap_or(0);
    let grown = after.iter().map(|(k, n)| (k.clone(), n - old(k)));
    grown.filter(|(_, n)| *n > 0).collect()
}

impl Stage {
    /// The API calls so far.
    ///
    /// # Errors
    /// The API server does not report them.
    pub async fn api_calls(&self) -> Result<ApiCalls> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(ApiCalls::read(&self.client.request_text(request).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_calls_are_counted_by_client_and_kind() {
        let text = "\
apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"service-accounts\",priority_level=\"workload-low\"} 12
apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"kube-system-service-accounts\",priority_level=\"workload-high\"} 3
apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"system-leader-election\",priority_level=\"leader-election\"} 4
apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"exempt\",priority_level=\"exempt\"} 99
apiserver_request_total{code=\"200\",resource=\"nodes\",verb=\"GET\"} 5
apiserver_request_total{code=\"404\",resource=\"nodes\",verb=\"GET\"} 1e+03
apiserver_request_total{code=\"200\",resource=\"nodes\",subresource=\"status\",verb=\"PATCH\"} 7
apiserver_response_sizes_sum{resource=\"nodes\",verb=\"GET\"} 2048
apiserver_response_sizes_sum{resource=\"pods\",verb=\"LIST\"} 52
";
        let calls = ApiCalls::read(text);
        assert_eq!((calls.management, calls.workload), (12, 7));
        let bytes = [("GET nodes", 2048), ("LIST pods", 52)];
        let bytes = bytes.map(|(kind, bytes)| (kind.to_owned(), bytes));
        assert_eq!(calls.bytes_read, bytes.into());
        assert_eq!(calls.by_kind["GET nodes"], 1005);
        assert_eq!(calls.by_kind["PATCH nodes/status"], 7);
        let none = calls.since(&calls);
        assert!(none.by_kind.is_empty() && none.bytes_read.is_empty());
    }
}
