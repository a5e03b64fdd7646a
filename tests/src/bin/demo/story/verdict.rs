//! The verdict on a scenario, by the counters of the simulator and all versions of the objects, not by
//! Rackhand's own reports.

use std::time::Duration;

use anyhow::{Result, ensure};
use rackhand_tests::rack::{LogEvent, PowerState, power::Change};

use super::Story;

/// Minimum time from the power-off to the taint: two readings of off, 2 s apart (F1).
const PROOF: Duration = Duration::from_secs(2);

impl Story<'_> {
    /// Records the result of a check.
    pub(crate) fn check(&mut self, text: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.checks.push((true, text.to_owned())),
            Err(error) => self.checks.push((false, format!("{text}: {error:#}"))),
        }
    }

    /// Checks that the power of a host was switched off and on exactly by these senders so far.
    pub(crate) fn check_power(&mut self, when: &str, host: &str, offs: &[&str], ons: &[&str]) {
        let told_now = told(offs, ons);
        let text = format!("{when}: power of {host}, counted by the simulator: {told_now}");
        let outcome = self.power_by(host).and_then(|(off, on)| {
            let found = told(&off, &on);
            ensure!(off == offs && on == ons, "it was {found}");
            Ok(())
        });
        self.check(&text, outcome);
    }

    /// The senders of the effective power-offs and power-ons, in order.
    fn power_by(&self, host: &str) -> Result<(Vec<String>, Vec<String>)> {
        let switched = self.stage.host(host)?.switched();
        let by = |wanted| {
            let mine = switched
                .iter()
                .filter(move |s| s.change == Change::Power(wanted));
            mine.map(|s| {
                s.cause
                    .as_ref()
                    .map_or("nobody", |c| c.by.as_str())
                    .to_owned()
            })
            .collect()
        };
        Ok((by(PowerState::Off), by(PowerState::On)))
    }

    /// Checks that the taint was set once, only while the host was off, and removed (F1); with `proven`, not
    /// earlier than two readings of the BMC allow.
    pub(crate) async fn check_tainted_once(&mut self, host: &str, proven: bool) {
        let text = format!("{host} was tainted once, and only while its power was off");
        let outcome = self.tainted_once(host, proven).await;
        self.check(&text, outcome);
    }

    async fn tainted_once(&self, host: &str, proven: bool) -> Result<()> {
        self.stage
            .tainted_only_while_off(self.recorder, host)
            .await?;
        let taints = self.recorder.taints(host);
        let [(came, true), (_, false)] = taints[..] else {
            anyhow::bail!("it came and went otherwise: {taints:?}");
        };
        let log = self.stage.host(host)?.log();
        let off = log.iter().rfind(|entry| {
            entry.stamp.at <= came && entry.event == LogEvent::Power(PowerState::Off)
        });
        let after = off.map(|entry| came - entry.stamp.at).unwrap_or_default();
        ensure!(!proven || after >= PROOF, "already {after:?} after the off");
        Ok(())
    }

    /// Checks that the taint was never set so far.
    pub(crate) async fn check_never_tainted(&mut self, host: &str, text: &str) {
        let outcome = self.stage.never_tainted(self.recorder, host).await;
        self.check(text, outcome);
    }

    /// Checks that nothing is left of a remediation (F9), in the API and at the agent.
    pub(crate) async fn check_nothing_left(&mut self, host: &str) {
        let text =
            format!("nothing is left at {host}: no taint, no hold key, no remediation, power on");
        let outcome = self.nothing_left(host).await;
        self.check(&text, outcome);
    }

    async fn nothing_left(&self, host: &str) -> Result<()> {
        let mut left = self.stage.left_on(host).await?;
        let asked = self.stage.asked_for(host).await?;
        left.extend(asked.into_iter().map(|what| format!("remediation {what}")));
        for rack in self.stage.racks() {
            let held = self.stage.held_by(rack.name()).await?;
            let held = held.into_iter().filter(|(_, by)| !by.is_empty());
            left.extend(held.map(|(name, by)| format!("the agent holds {name} for {by}")));
        }
        ensure!(left.is_empty(), "{}", left.join(", "));
        Ok(())
    }

    /// Checks that no pod ever ran twice, and that only these hosts were commanded.
    pub(crate) fn check_others(&mut self, touched: &[&str]) {
        let twice = self.stage.ran_twice();
        let outcome = if twice.is_empty() {
            Ok(())
        } else {
            Err(anyhow::anyhow!("{twice:?}"))
        };
        self.check("no pod ran twice at the same time", outcome);
        let stage = self.stage;
        let hosts = stage.racks().iter().flat_map(|rack| rack.hosts().keys());
        let mut others = hosts
            .filter(|host| !touched.contains(&host.as_str()))
            .peekable();
        if others.peek().is_some() {
            let outcome = others.try_for_each(|host| stage.untouched(host));
            self.check("no other host received a command", outcome);
        }
    }

    /// The last checks of a scenario in which Rackhand switches the host off and on once, and its verdict.
    ///
    /// # Errors
    /// A check has failed.
    pub(crate) async fn one_cycle_in_all(mut self) -> Result<()> {
        let victim = self.victim.clone();
        self.check_power("in all", &victim, &["rackhand"], &["rackhand"]);
        self.check_tainted_once(&victim, true).await;
        self.check_nothing_left(&victim).await;
        self.check_others(&[&victim]);
        self.verdict()
    }

    /// Prints all checks.
    ///
    /// # Errors
    /// A check has failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        self.screen.title("checked:");
        for (ok, text) in &self.checks {
            let word = if *ok { "ok   " } else { "WRONG" };
            self.screen.print(&format!("  {word}  {text}"));
        }
        judged(&self.checks)
    }
}

/// All checks must have passed, and there must be at least one.
fn judged(checks: &[(bool, String)]) -> Result<()> {
    let wrong = checks.iter().filter(|(ok, _)| !ok);
    let wrong: Vec<&str> = wrong.map(|(_, text)| text.as_str()).collect();
    ensure!(!checks.is_empty(), "nothing was checked");
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

fn told<T: AsRef<str>>(offs: &[T], ons: &[T]) -> String {
    let list = |what: &str, by: &[T]| match by {
        [] => format!("never {what}"),
        by => {
            let by: Vec<&str> = by.iter().map(AsRef::as_ref).collect();
            format!("{} x {what} (by {})", by.len(), by.join(", "))
        }
    };
    format!("{}, {}", list("off", offs), list("on", ons))
}

#[cfg(test)]
mod tests {
    use super::{judged, told};

    #[test]
    fn verdict_fails_with_one_failed_or_no_assertion() {
        let (well, wrong) = ((true, "a".to_owned()), (false, "b: why".to_owned()));
        assert!(judged(std::slice::from_ref(&well)).is_ok());
        let error = judged(&[well, wrong]).unwrap_err();
        assert_eq!(error.to_string(), "b: why");
        assert!(judged(&[]).is_err());
    }

    #[test]
    fn power_commands_are_listed_by_sender_in_order() {
        assert_eq!(told(&["rackhand"], &[]), "1 x off (by rackhand), never on");
        let both = told(&["ironic", "rackhand"], &["ironic"]);
        assert_eq!(both, "2 x off (by ironic, rackhand), 1 x on (by ironic)");
    }
}
