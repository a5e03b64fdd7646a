//! Rules about what the controller observes: each kind that it lists and watches (F12).

use super::{Row, WatchFacts, WatchTrial};

/// A kind that cannot be read is not absent: what depends on it does not act.
pub(super) fn watches(all: &[WatchFacts]) -> Vec<Row> {
    let mut rows: Vec<Row> = all.iter().filter_map(lost).collect();
    let is_watched = |facts: &&WatchFacts| facts.trial == WatchTrial::Watched;
    let watched = all.iter().filter(is_watched).count();
    if watched > 0 {
        let message = format!("{watched} kinds can be listed and watched");
        rows.push(Row::ok("watches", "all", message));
    }
    rows
}

fn lost(facts: &WatchFacts) -> Option<Row> {
    let check = "watches";
    let target = match &facts.cluster {
        Some(cluster) => format!("{} of {cluster}", facts.kind),
        None => facts.kind.clone(),
    };
    let (what, why) = match &facts.trial {
        WatchTrial::Watched => return None,
        WatchTrial::Forbidden(verb) => {
            return Some(Row::warning(
                check,
                target,
                format!(
                    "whoever runs this command may not {verb} it, so it is not known whether the controller can \
                     (row rights)"
                ),
                format!("grant {verb}, or run this command in the Pod of the controller"),
            ));
        }
        WatchTrial::NotListed(why) => ("listed", why),
        WatchTrial::NotWatched(why) => ("watched", why),
    };
    Some(Row::failed(
        check,
        target,
        format!("it cannot be {what}: {why}; what depends on it is not remediated"),
        "see that the API server answers and serves the kind, and that its CRD's conversion webhook runs: \
         kubectl api-resources; metric rackhand_watches_lost",
    ))
}
