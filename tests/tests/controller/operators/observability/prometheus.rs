//! A Prometheus server for a stage.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use rackhand_tests::{
    process::{Process, free_port},
    stage::{LONG, Stage, wait_until},
};
use serde_json::{Value, json};

/// The metric that exists only while hosts fail for one cause. The test of shared causes reads it.
pub const ONLY_OF_A_CAUSE: &str = "rackhand_shared_cause_failed_hosts";

/// Value of the dashboard's rate interval, which Grafana would set.
const RATE: &str = "5m";

/// Path of a file in deploy/prometheus.
pub fn deployed(name: &str) -> PathBuf {
    let deploy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus");
    deploy.canonicalize().unwrap_or(deploy).join(name)
}

/// Path of a program of Prometheus: `prometheus` or `promtool`.
pub fn program(name: &str) -> PathBuf {
    std::env::var_os("RACKHAND_PROMETHEUS")
        .map(PathBuf::from)
        .unwrap_or_default()
        .join(name)
}

/// Runs promtool with this on its standard input; returns what it prints.
///
/// # Errors
/// promtool fails.
pub fn promtool(args: &[&str], input: &str) -> Result<String> {
    use std::{io::Write as _, process::Stdio};
    let mut child = Command::new(program("promtool"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(
            "promtool is missing; run hack/setup and set RACKHAND_PROMETHEUS as hack/test does",
        )?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    ensure!(output.status.success(), "promtool {args:?}: {printed}");
    Ok(printed)
}

/// The queries of the dashboard.
pub fn dashboard() -> Result<Vec<String>> {
    let text = fs::read_to_string(deployed("dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let queries: Vec<String> = targets
        .filter_map(|target| target["expr"].as_str())
        .map(|query| query.replace("$__rate_interval", RATE))
        .collect();
    ensure!(queries.len() > 40, "{queries:?}");
    Ok(queries)
}

pub struct Prometheus {
    process: Process,
    url: String,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes a controller over HTTPS with a token, and the agents of all racks.
    pub async fn start(stage: &Stage, controller: u16, token: &str) -> Result<Self> {
        let dir = stage.dir().join("prometheus");
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("token"), token)?;
        let racks = &stage.config().racks;
        let agents: Result<Vec<String>> =
            racks.iter().map(|r| stage.agent_admin(&r.name)).collect();
        // JSON is YAML.
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [deployed("alerts.yaml")],
            "scrape_configs": [
                {
                    "job_name": "rackhand-controller",
                    "scheme": "https",
                    "authorization": { "credentials_file": dir.join("token") },
                    // The controller creates its own certificate at each start.
                    "tls_config": { "insecure_skip_verify": true },
                    "static_configs": [{ "targets": [format!("127.0.0.1:{controller}")] }],
                },
                { "job_name": "rackhand-agent", "static_configs": [{ "targets": agents? }] },
            ],
        });
        let path = dir.join("prometheus.yaml");
        fs::write(&path, serde_json::to_string_pretty(&config)?)?;
        let path = path.display().to_string();
        promtool(
            &["check", "config", "--lint=all", "--lint-fatal", &path],
            "",
        )?;
        let port = free_port()?;
        let command = [
            program("prometheus").display().to_string(),
            format!("--config.file={path}"),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let process = Process::start("prometheus", &command, &[], stage.dir())?;
        let url = format!("http://127.0.0.1:{port}/api/v1/");
        Ok(Self { process, url })
    }

    /// Queries the API; returns `data` of the response.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let url = url::Url::parse_with_params(&format!("{}{path}", self.url), query)?;
        let answer = reqwest::get(url).await;
        let answer = answer.with_context(|| self.process.log_tail())?;
        let mut body: Value = serde_json::from_str(&answer.text().await?)?;
        ensure!(body["status"] == "success", "{path} {query:?}: {body}");
        Ok(body["data"].take())
    }

    /// Number of samples that a query returns now, without NaN.
    async fn samples(&self, query: &str) -> Result<usize> {
        let data = self.get("query", &[("query", query)]).await?;
        let result = data["result"].as_array().context("no result")?;
        Ok(result.iter().filter(|one| one["value"][1] != "NaN").count())
    }

    /// Waits until every target has been scraped twice, so that there are rates.
    pub async fn wait_scraped(&self) -> Result<()> {
        wait_until("every target is scraped", LONG, || async {
            let data = self.get("targets", &[("state", "active")]).await?;
            let targets = data["activeTargets"].as_array().context("no targets")?;
            let down: Vec<_> = targets.iter().filter(|t| t["health"] != "up").collect();
            Ok(if targets.len() == 3 && down.is_empty() {
                Ok(())
            } else {
                Err(format!("{down:?}"))
            })
        })
        .await
    }

    /// Waits until every query returns a number, but for those that contain one of `empty`, which
    /// must be answered as well.
    pub async fn wait_answered(&self, queries: &[String], empty: &[&str]) -> Result<()> {
        for word in empty {
            let Some(query) = queries.iter().find(|query| query.contains(word)) else {
                bail!("no query contains {word}");
            };
            self.samples(query).await?;
        }
        wait_until("every query returns something", LONG, || async {
            let mut without = Vec::new();
            for query in queries {
                let may_be_empty = empty.iter().any(|word| query.contains(word));
                if !may_be_empty && self.samples(query).await? == 0 {
                    without.push(query);
                }
            }
            Ok(if without.is_empty() {
                Ok(())
            } else {
                Err(format!("{without:#?}"))
            })
        })
        .await
    }

    /// Waits until exactly these alerts are raised, pending or firing, and checks that all are
    /// evaluated and that every metric that they name exists.
    pub async fn check_alerts(&self, raised: &[&str]) -> Result<()> {
        let raised: BTreeSet<&str> = raised.iter().copied().collect();
        wait_until("the alerts that are due are raised", LONG, || async {
            let data = self.get("alerts", &[]).await?;
            let alerts = data["alerts"].as_array().context("no alerts")?;
            let names = alerts
                .iter()
                .filter_map(|a| a["labels"]["alertname"].as_str());
            let names: BTreeSet<&str> = names.collect();
            Ok(if names == raised {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            })
        })
        .await?;
        let data = self.get("rules", &[("type", "alert")]).await?;
        let groups = data["groups"].as_array().context("no groups")?;
        let rules: Vec<&Value> = groups
            .iter()
            .filter_map(|group| group["rules"].as_array())
            .flatten()
            .collect();
        ensure!(rules.len() > 10, "{rules:?}");
        for rule in rules {
            ensure!(rule["health"] == "ok", "{rule}");
            let query = rule["query"].as_str().unwrap_or_default();
            let metrics = crate::operators::alerts::metrics(query);
            for metric in metrics.filter(|metric| *metric != ONLY_OF_A_CAUSE) {
                ensure!(self.samples(metric).await? > 0, "{rule}: no {metric}");
            }
        }
        Ok(())
    }
}
