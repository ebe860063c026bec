//! How a client's own tests run against a server: pytest, with the plugin `client_suite` of
//! `tests/interop` in place of what starts servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;
use zk_test_support::foreign::Program;
use zk_test_support::tls::{Authority, Certified};

use super::is_listed;
use super::table::{ClientSuite, KAZOO};
use crate::program::zk_embedded;

/// The digest of `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// How long one test may take. Some of kazoo's wait for ever when they fail, and `test_lock` and
/// `test_rw_lock` of its locks also if the next thread is in the lock before the test looks.
const TEST_SECONDS: u32 = 60;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// How each test ended, as pytest names it: `passed`, `failed` or `skipped`.
pub(super) type Outcomes = BTreeMap<String, String>;

/// A client's tests, and the server to run them against.
pub(super) struct Run<'a> {
    suite: &'a ClientSuite,
    python: PathBuf,
    /// The folder with the tests.
    folder: PathBuf,
    /// The command that starts the server.
    server: String,
    certificates: TempDir,
}

/// The command that starts `zk-embedded` as this release.
fn embedded(release: &str, certificates: &Path) -> Result<String> {
    let program = zk_embedded()?;
    let file = |name| certificates.join(name).display().to_string();
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    Ok(format!(
        "{} --port 0 --stdin --release {release} --max-connections 0 --super-digest {SUPER_DIGEST} \
         --tls-port 0 --tls-cert {cert} --tls-key {key} --tls-client-ca {ca}",
        program.display()
    ))
}

impl<'a> Run<'a> {
    /// The tests of `suite` against `server`: a real one, or the embedded one as that release.
    pub(super) async fn find(suite: &'a ClientSuite, server: &str) -> Result<Self> {
        let python = env::var_os("ZK_INTEROP_PYTHON")
            .context("ZK_INTEROP_PYTHON is not set; tests/run installs the clients and sets it")?;
        let python = PathBuf::from(python);
        let mut command = Command::new(&python);
        let package = suite.package;
        command.args(["-c", &format!("import {package}; print({package}.__path__[0])")]);
        let output = command.stderr(Stdio::inherit()).output().await?;
        let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
        ensure!(folder.is_dir(), "{package} is not installed; see tests/run");
        let certificates = tempfile::tempdir()?;
        // OpenSSL takes a certificate with the name of its authority for one that signed itself.
        let authority = Authority::new("an authority")?;
        let Certified { certificate, key } = authority.sign("kazoo", &["127.0.0.1"])?;
        for (name, pem) in [("ca", authority.root()), ("cert", certificate), ("key", key)] {
            fs::write(certificates.path().join(name), pem)?;
        }
        let server = match server {
            "real" => {
                format!(
                    "{} {}",
                    env!("CARGO_BIN_EXE_interop_server"),
                    certificates.path().display()
                )
            }
            release => embedded(release, certificates.path())?,
        };
        Ok(Self { suite, python, folder, server, certificates })
    }

    /// The result of every test. Many wait for fixed times, so a failure that is not excused counts
    /// only if the test fails again while no other test runs.
    pub(super) async fn outcomes(&self, excused: &[(&str, &str)]) -> Result<Outcomes> {
        let mut together =
            vec!["-n".into(), self.suite.workers.to_string(), "--dist=loadscope".into()];
        together.extend(self.suite.files.iter().map(|file| (*file).to_owned()));
        let mut outcomes = self.run(&together).await?;
        let again: Vec<String> = outcomes
            .iter()
            .filter(|(test, outcome)| *outcome == "failed" && !is_listed(test, excused))
            .map(|(test, _)| test.clone())
            .collect();
        if !again.is_empty() {
            println!("again: {again:#?}");
            let alone = ["-n".into(), "1".into()];
            outcomes.extend(self.run(&[&alone, &again[..]].concat()).await?);
        }
        Ok(outcomes)
    }

    async fn run(&self, arguments: &[String]) -> Result<Outcomes> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("outcomes");
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop");
        let mut command = Command::new(&self.python);
        command
            .current_dir(&self.folder)
            .env("PYTHONPATH", plugin)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ZK_SUITE_SERVER", &self.server)
            .env("ZK_SUITE_CERTIFICATES", self.certificates.path())
            .env("ZK_SUITE_OUTCOMES", &file)
            .env("ZK_SUITE_VARIABLES", self.suite.variables)
            // Only kazoo's harness parses this; the tests ask the servers for their abilities.
            .env("ZOOKEEPER_VERSION", "3.9.3")
            .env_remove("CI")
            .args(["-m", "pytest", "-p", "client_suite", "-p", "no:cacheprovider"])
            .args(["-q", "--rootdir=."])
            // A test that waits for ever may do so again while it is torn down, so it is ended with
            // its worker, which is replaced.
            .arg(format!("--timeout={TEST_SECONDS}"))
            .arg("--timeout-method=thread")
            .args(self.suite.options)
            .args(arguments);
        let ended = Program::start(command)?.within(PATIENCE).finish().await;
        // Tests that are excused fail always. Cargo shows this if any other does.
        if let Err(error) = &ended {
            println!("{error:#}");
        }
        let text = fs::read_to_string(&file).or_else(|error| ended.and(Err(error.into())))?;
        let mut outcomes = Outcomes::new();
        for line in text.lines() {
            let (outcome, test) = line.split_once(' ').context("an outcome and a test")?;
            outcomes.insert(test.to_owned(), outcome.to_owned());
        }
        Ok(outcomes)
    }
}

/// Two classes, of which the larger one runs first. A test of the other one ends the worker.
const CRASHING: &str = "
import os

class TestDone:
    def test_a(self): pass
    def test_b(self): pass
    def test_c(self): pass
    def test_d(self): pass

class TestCrash:
    def test_before(self): pass
    def test_crash(self): os._exit(1)
    def test_behind(self): pass
";

#[tokio::test]
async fn tests_behind_a_crash_of_their_worker_are_run() -> Result<()> {
    let suite = ClientSuite { workers: 1, ..KAZOO };
    let run = Run::find(&suite, "3.9").await?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("test_crashing.py"), CRASHING)?;
    let run = Run { folder: folder.path().to_owned(), ..run };
    let outcomes = run.outcomes(&[("test_crashing.py::TestCrash::test_crash", "it does")]).await?;
    let failed = outcomes.iter().filter(|(_, outcome)| *outcome != "passed");
    let failed: Vec<_> = failed.map(|(test, _)| test.as_str()).collect();
    assert_eq!(failed, ["test_crashing.py::TestCrash::test_crash"]);
    assert_eq!(outcomes.len(), 7);
    Ok(())
}
