//! Kerberos with a real KDC and real servers, which have a keytab.
//!
//! Only the feature `gssapi` builds this, since it needs the headers of a Kerberos library; see
//! `tests/run`. Each client is a process of its own, because the library takes its settings from
//! variables.

use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use zk_client::{Client, ErrorCode};
use zk_test_support::kdc::{Kdc, REALM};
use zk_test_support::server::{ServerConfig, Standalone};

/// The principal of the server.
const SERVER: &str = "zookeeper/localhost";
/// How long a client may take for a line. None of its own timeouts is longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The credential cache, a folder that can have tickets of several principals.
const CACHES: &str = "caches";

/// A KDC that knows the server, two clients and a service without a server.
async fn kdc() -> Result<Kdc> {
    let kdc = Kdc::start().await?;
    for principal in [SERVER, "client", "other", "another/localhost"] {
        kdc.administer(&format!("addprinc -randkey {principal}"))?;
    }
    kdc.keytab("server.keytab", &[SERVER])?;
    kdc.keytab("client.keytab", &["client", "other"])?;
    fs::create_dir(kdc.path(CACHES))?;
    Ok(kdc)
}

async fn server(kdc: &Kdc, insists: bool) -> Result<Standalone> {
    let (jaas, keytab) = (kdc.path("jaas.conf"), kdc.path("server.keytab"));
    let section = format!(
        "Server {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true \
         storeKey=true useTicketCache=false keyTab=\"{}\" principal=\"{SERVER}@{REALM}\"; }};\n",
        keytab.display()
    );
    fs::write(&jaas, section)?;
    let provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned();
    let mut properties = vec![
        ("java.security.krb5.conf".to_owned(), kdc.configuration().display().to_string()),
        ("java.security.auth.login.config".to_owned(), jaas.display().to_string()),
        ("zookeeper.authProvider.1".to_owned(), provider),
    ];
    if insists {
        let name = "zookeeper.sessionRequireClientSASLAuth".to_owned();
        properties.push((name, "true".to_owned()));
    }
    let config = ServerConfig { properties, ..ServerConfig::lasting() };
    Standalone::with(&config).await
}

/// The server's address with the host's name in its principal.
fn by_name(server: &Standalone) -> String {
    server.address().replace("127.0.0.1", "localhost")
}

/// A client in a process of its own. Dropping it kills the process.
struct User {
    _process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Where a client finds its credential: a keytab and a cache.
type Credential = [(&'static str, OsString); 2];

/// A credential that the library gets by itself, with a keytab.
fn by_keytab(kdc: &Kdc) -> Credential {
    let caches = format!("DIR:{}", kdc.path(CACHES).display());
    [("KRB5_CLIENT_KTNAME", kdc.path("client.keytab").into()), ("KRB5CCNAME", caches.into())]
}

/// A credential that is in a cache, or missing.
fn by_cache(kdc: &Kdc, cache: &str) -> Credential {
    [("KRB5_CLIENT_KTNAME", kdc.path("no.keytab").into()), ("KRB5CCNAME", cache.into())]
}

impl User {
    fn start(kdc: &Kdc, credential: Credential, arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kerberos_client"))
            .args(arguments)
            .envs(kdc.environment())
            .envs(credential)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = process.stdin.take().context("stdin")?;
        let stdout = process.stdout.take().context("stdout")?;
        Ok(Self { _process: process, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// What it prints next.
    async fn says(&mut self) -> Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.context("it hangs")??;
        line.context("it has ended")
    }

    async fn does(&mut self, order: &str) -> Result<String> {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await?;
        self.says().await
    }
}

#[tokio::test]
async fn a_user_may_what_others_may_not_and_still_after_a_reconnect() -> Result<()> {
    let kdc = kdc().await?;
    for insists in [false, true] {
        let mut server = server(&kdc, insists).await?;
        let servers = format!("servers={}", by_name(&server));
        let mut owner =
            User::start(&kdc, by_keytab(&kdc), &[&servers, "principal=client@EXAMPLE.COM"])?;
        let connected = owner.says().await?;
        ensure!(connected.contains("sasl:client@EXAMPLE.COM"), "{connected}");
        assert_eq!(owner.does("create /his").await?, "ok");
        assert_eq!(owner.does("read /his").await?, "ok");

        let mut other =
            User::start(&kdc, by_keytab(&kdc), &[&servers, "principal=other@EXAMPLE.COM"])?;
        let connected = other.says().await?;
        ensure!(connected.contains("sasl:other@EXAMPLE.COM"), "{connected}");
        let refused = other.does("read /his").await?;
        ensure!(refused.starts_with("error: ") && refused.contains("NoAuth"), "{refused}");

        // Without SASL the client is nobody, or not let in at all.
        let nobody = Client::connect(&server.address()).await?;
        let error = nobody.get_data("/his").await.expect_err("it is his");
        let required = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        assert_eq!(error.code(), Some(if insists { required } else { ErrorCode::NO_AUTH }));

        // The next connection does not have the identity unless the client authenticates again.
        server.restart().await?;
        assert_eq!(owner.does("read /his").await?, "ok");
        let refused = other.does("read /his").await?;
        ensure!(refused.starts_with("error: ") && refused.contains("NoAuth"), "{refused}");
    }
    Ok(())
}

#[tokio::test]
async fn a_credential_that_is_missing_wrong_or_expired_is_an_error_that_says_so() -> Result<()> {
    let mut kdc = kdc().await?;
    let server = server(&kdc, true).await?;
    let servers = format!("servers={}", by_name(&server));
    let check = async |credential: Credential, arguments: &[&str], words: &[&str]| {
        let arguments = [&[&*servers], arguments].concat();
        let said = User::start(&kdc, credential, &arguments)?.says().await?;
        for word in words {
            ensure!(said.contains(word), "{arguments:?}: {word:?} is not in {said:?}");
        }
        anyhow::Ok(())
    };
    let lacks = "failed: AuthFailed: no server lets the session in: ";

    let missing = format!("FILE:{}", kdc.path("none").display());
    let kinit = "; get a ticket by kinit, or name a keytab by KRB5_CLIENT_KTNAME";
    check(by_cache(&kdc, &missing), &[], &[lacks, ": GSSAPI: ", "No Kerberos", kinit]).await?;

    let keytab = kdc.path("client.keytab");
    let brief = kdc.ticket("client", &keytab, Duration::from_secs(1))?;
    kdc.expired(&brief).await?;
    check(by_cache(&kdc, &brief), &[], &[lacks, ": GSSAPI: Ticket expired", kinit]).await?;

    let no_service = ["service=nobody"];
    let unknown = "Server nobody/localhost@EXAMPLE.COM not found in Kerberos database";
    check(by_keytab(&kdc), &no_service, &[lacks, &format!(": GSSAPI: {unknown}")]).await?;

    // The server has no key for a ticket of another service.
    let another = ["server=another/localhost@EXAMPLE.COM"];
    let refused = "failed: AuthFailed: authentication failed: the server refused the user of SASL";
    check(by_keytab(&kdc), &another, &[refused]).await?;

    kdc.administer("cpw -randkey other")?;
    let principal = ["principal=other@EXAMPLE.COM"];
    check(by_keytab(&kdc), &principal, &[lacks, ": GSSAPI: ", "Decrypt integrity check failed"])
        .await?;

    // A KDC may come back, so the client tries until its time is over.
    kdc.kill();
    let check = async |arguments: &[&str], words: &[&str]| {
        let arguments = [&[&*servers], arguments].concat();
        let said = User::start(&kdc, by_keytab(&kdc), &arguments)?.says().await?;
        for word in words {
            ensure!(said.contains(word), "{word:?} is not in {said:?}");
        }
        anyhow::Ok(())
    };
    let no_server = "failed: NoServer: no server let the session in, gave up after 2s: ";
    let arguments = ["service=nobody", "timeout=2000"];
    check(&arguments, &[no_server, ": GSSAPI: ", "annot contact any KDC"]).await
}

#[tokio::test]
async fn a_server_without_sasl_is_an_error_that_says_so() -> Result<()> {
    let kdc = kdc().await?;
    let server = Standalone::start().await?;
    let servers = format!("servers={}", by_name(&server));
    let principal = "principal=client@EXAMPLE.COM";
    let said = User::start(&kdc, by_keytab(&kdc), &[&servers, principal])?.says().await?;
    assert_eq!(said, "failed: AuthFailed: authentication failed: the server has no SASL");
    Ok(())
}
