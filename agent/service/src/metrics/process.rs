//! Resource usage of this process.

#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) memory: i64,
    pub(super) descriptors: i64,
    pub(super) most_descriptors: i64,
}

/// Usage as reported by the kernel; 0 where it is not available.
pub(super) fn usage() -> Usage {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let status = read("/proc/self/status");
    let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes: i64 = number(resident.and_then(|line| line.split_whitespace().nth(1)));
    let limits = read("/proc/self/limits");
    let open = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    Usage {
        memory: kilobytes.saturating_mul(1024),
        descriptors: i64::try_from(descriptors).unwrap_or(0),
        most_descriptors: number(open.and_then(|line| line.split_whitespace().nth(3))),
    }
}
