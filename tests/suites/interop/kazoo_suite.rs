//! kazoo's own test suite: all tests that pass on one real server that keeps its data must pass on
//! the embedded server, which runs as the program `zk-embedded`.
//!
//! By default it runs only against the embedded server, and [`NOT_ON_A_REAL_SERVER`] lists the
//! tests that do not pass on a real one. With `ZK_SOAK=1` it also runs against a real server, whose
//! results must agree with the list, and against the embedded server that follows 3.8.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;
use zk_tests::foreign::Program;
use zk_tests::tls::{Authority, Certified};

use crate::program::zk_embedded;

/// Tests, by the start of their names, that fail or are skipped on one real server, and why.
const NOT_ON_A_REAL_SERVER: &[(&str, &str)] = &[
    ("test_build.py::", "it tests kazoo's own CI"),
    ("test_client.py::TestClient::test_update_host_list", "it takes a second server"),
    ("test_client.py::TestReconfig::", "it takes an ensemble"),
    ("test_connection.py::TestReadOnlyMode::", "it takes an ensemble"),
    ("test_eventlet_handler.py::", "it takes eventlet"),
    ("test_gevent_handler.py::", "it takes gevent"),
    ("test_sasl.py::", "it takes SASL"),
    ("test_utils.py::TestCreateTCPConnection::test_timeout_arg_eventlet", "it takes eventlet"),
];

/// Tests that a real server may fail on a busy machine, and why.
const SLOW_ON_A_REAL_SERVER: &[(&str, &str)] = &[(
    "test_client.py::TestClient::test_request_queuing_session_",
    "it gives a server five seconds to stop, to start again and to let the client in",
)];

/// Tests that pass on a real server and not on the embedded one, and why.
const NOT_ON_THE_EMBEDDED_SERVER: &[(&str, &str)] = &[];

/// Tests that the embedded server may pass or fail, and why.
const RACES: &[(&str, &str)] = &[(
    "test_connection.py::TestConnectionDrop::test_connection_dropped",
    "it drops the connection behind a write of 1 MB and expects no answer to be there yet",
)];

/// The digest of `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// The least number of tests that must pass.
const PASSING: usize = 300;

/// How long one test may take. Some of kazoo's wait for ever when they fail, and `test_lock` of its
/// locks also if the next thread is in the lock before the test looks.
const TEST_SECONDS: u32 = 60;

/// How many of kazoo's test classes run at once. Most of the time they wait.
const WORKERS: u32 = 6;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(900);

#[tokio::test]
async fn what_passes_on_a_real_server_passes_on_the_embedded_one() -> Result<()> {
    let soak = env::var_os("ZK_SOAK").is_some();
    let servers: &[&str] = if soak { &["3.9", "3.8"] } else { &["3.9"] };
    for server in servers {
        let excused = [NOT_ON_A_REAL_SERVER, NOT_ON_THE_EMBEDDED_SERVER, RACES].concat();
        let suite = Suite::find(server).await?;
        let outcomes = suite.outcomes(&excused).await?;
        // A failure on a real server says nothing about the embedded one.
        check(server, &outcomes, &excused, NOT_ON_THE_EMBEDDED_SERVER)?;
    }
    if soak {
        let suite = Suite::find("real").await?;
        let excused = [NOT_ON_A_REAL_SERVER, SLOW_ON_A_REAL_SERVER].concat();
        let outcomes = suite.outcomes(&excused).await?;
        check("real", &outcomes, &excused, NOT_ON_A_REAL_SERVER)?;
    }
    Ok(())
}

/// How each test ended, as pytest names it: `passed`, `failed` or `skipped`.
type Outcomes = BTreeMap<String, String>;

fn is_listed(test: &str, list: &[(&str, &str)]) -> bool {
    list.iter().any(|(name, _)| test.starts_with(name))
}

/// Fails unless every test passed that is not `excused`, and every `different` test did not.
fn check(
    server: &str,
    outcomes: &Outcomes,
    excused: &[(&str, &str)],
    different: &[(&str, &str)],
) -> Result<()> {
    let passed = |test: &str| outcomes.get(test).is_some_and(|outcome| outcome == "passed");
    let failures: Vec<_> = outcomes
        .iter()
        .filter(|(test, outcome)| *outcome != "passed" && !is_listed(test, excused))
        .collect();
    ensure!(failures.is_empty(), "on the {server} server: {failures:#?}");
    let outdated: Vec<_> = different
        .iter()
        .filter(|(name, _)| {
            let mut tests = outcomes.keys().filter(|test| test.starts_with(name)).peekable();
            tests.peek().is_none() || tests.any(|test| passed(test))
        })
        .collect();
    ensure!(outdated.is_empty(), "these do pass on the {server} server: {outdated:#?}");
    let count = outcomes.keys().filter(|test| passed(test)).count();
    ensure!(count >= PASSING, "only {count} tests passed on the {server} server");
    Ok(())
}

/// kazoo's tests, and the server to run them against.
struct Suite {
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

impl Suite {
    async fn find(server: &str) -> Result<Self> {
        let python = env::var_os("ZK_INTEROP_PYTHON")
            .context("ZK_INTEROP_PYTHON is not set; tests/run installs kazoo and sets it")?;
        let python = PathBuf::from(python);
        let mut command = Command::new(&python);
        command.args(["-c", "import kazoo.tests; print(kazoo.tests.__path__[0])"]);
        let output = command.stderr(Stdio::inherit()).output().await?;
        let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
        ensure!(folder.is_dir(), "kazoo's tests are not installed");
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
        Ok(Self { python, folder, server, certificates })
    }

    /// The result of every test. kazoo's tests wait for fixed times, so a failure that is not
    /// excused counts only if the test fails again while no other test runs.
    async fn outcomes(&self, excused: &[(&str, &str)]) -> Result<Outcomes> {
        let together = ["-n".into(), WORKERS.to_string(), "--dist=loadscope".into()];
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
            // Only kazoo's harness parses this; the tests ask the servers for their abilities.
            .env("ZOOKEEPER_VERSION", "3.9.3")
            .env_remove("CI")
            .args(["-m", "pytest", "-p", "kazoo_suite", "-p", "no:cacheprovider"])
            .args(["-q", "--rootdir=."])
            // A test that waits for ever may do so again while it is torn down, so it is ended with
            // its worker, which is replaced.
            .arg(format!("--timeout={TEST_SECONDS}"))
            .arg("--timeout-method=thread")
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
