//! Runs the commands of a page in its fixture.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
};

use anyhow::{Result, bail, ensure};
use rackhand_tests::{process::Process, stage::wait_until};

use super::{
    blocks::{Block, File, Treatment},
    fixture::{LONG, PageFixture},
    placeholders::with_placeholders,
};

impl PageFixture {
    /// Runs a block as its marker says.
    ///
    /// # Errors
    /// A script or a command does not do what the page shows.
    pub async fn run(&self, block: &Block) -> Result<()> {
        let folder = self.folder(&block.page)?;
        for command in &block.commands {
            let script = self.localised(&command.text)?;
            if block.treatment == Treatment::Background {
                self.start_in_background(&script, &folder).await?;
                continue;
            }
            let output = self.bash(&script, &folder).await?;
            let told = || {
                format!(
                    "{script}\n{}\n{}{}",
                    output.status,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            };
            // A transcript may show how something fails; a command line that is not understood
            // ends with 2, and one that does not exist with 127.
            let fine = match output.status.code() {
                Some(0) => true,
                Some(code) => block.is_transcript && code != 2 && code < 126,
                None => false,
            };
            ensure!(fine, "{}", told());
            if let Some(shown) = command.shown.as_deref().and_then(header) {
                let out = String::from_utf8_lossy(&output.stdout);
                let found = out.lines().next().and_then(header);
                ensure!(
                    found.as_ref() == Some(&shown),
                    "not headed {shown:?}: {}",
                    told()
                );
            }
        }
        Ok(())
    }

    /// Whether an API server with the kinds of this world accepts the objects of a file.
    ///
    /// # Errors
    /// It refuses one.
    pub async fn check_manifest(&self, file: &File) -> Result<()> {
        let folder = self.folder(&file.page)?;
        fs::write(folder.join("shown.yaml"), with_placeholders(&file.text))?;
        self.succeed("kubectl apply --dry-run=server -f shown.yaml", &folder)
            .await
    }

    /// Whether the agent accepts the configuration of a file, beside the files that it names.
    ///
    /// # Errors
    /// It finds a mistake.
    pub async fn check_configuration(&self, file: &File) -> Result<()> {
        let folder = self.dir.join("etc/rackhand");
        fs::create_dir_all(folder.join("hosts.d"))?;
        fs::write(folder.join("shown.toml"), self.in_own_folders(&file.text))?;
        self.succeed("rackhand-agent check --config shown.toml", &folder)
            .await
    }

    pub(super) async fn succeed(&self, script: &str, folder: &Path) -> Result<()> {
        let output = self.bash(script, folder).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{script}: {errors}");
        Ok(())
    }

    async fn bash(&self, script: &str, folder: &Path) -> Result<Output> {
        let running = tokio::process::Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(folder)
            .envs(self.environment())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(LONG, running).await {
            Ok(output) => Ok(output?),
            Err(_) => bail!("does not end within {} s: {script}", LONG.as_secs()),
        }
    }

    /// The only programs that a page lets run are simulated racks.
    async fn start_in_background(&self, script: &str, folder: &Path) -> Result<()> {
        let command = ["bash", "-c", &format!("exec {script}")].map(str::to_owned);
        let process = Process::start("background", &command, &self.environment(), folder)?;
        self.keep(process);
        wait_until("the simulated rack is there", LONG, || async {
            Ok(self
                .simulated_socket()
                .map(drop)
                .ok_or_else(|| "no socket".to_owned()))
        })
        .await
    }
}

/// The columns of a table's first line.
fn header(line: &str) -> Option<Vec<String>> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let is_header = words.len() > 1
        && words
            .iter()
            .all(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '-'));
    is_header.then_some(words)
}
