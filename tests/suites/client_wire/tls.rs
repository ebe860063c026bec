//! Encrypted connections: which servers a client trusts, the certificate that it presents, and the
//! error if it is refused.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use zk_client::{
    Client, ClientBuilder, CreateOptions, ErrorKind, Host, Pem, ServerName, SessionState,
    TlsConnector, TlsOptions,
};
use zk_embedded::{Config, Server};
use zk_test_support::peer::Clock;
use zk_test_support::tls::{Authority, Certified, Front, VERSION_1};

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// PEM that holds no valid certificate.
const NO_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// How long clients search for a server.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server behind TLS.
struct Bench {
    server: Arc<Server>,
    authority: Authority,
}

impl Bench {
    fn new() -> Result<Self> {
        let server = Arc::new(Server::in_memory(Config::new()));
        Ok(Self { server, authority: Authority::new("root")? })
    }

    fn good(&self) -> Result<Certified> {
        self.authority.sign("server", &["zk.test", "127.0.0.1", "::1"])
    }

    fn front(&self, shown: &Certified) -> Result<Front> {
        Front::new(&self.server, shown, None, BOTH)
    }
}

fn builder(options: TlsOptions, front: Front) -> Result<ClientBuilder> {
    let connector = TlsConnector::new(options)?.over(front);
    Ok(Client::builder().connect_timeout(PATIENCE).connector(connector))
}

/// The error text of a connect that finds no server.
async fn refused(options: TlsOptions, front: Front, servers: &str) -> Result<String> {
    let error = builder(options, front)?.connect(servers).await.expect_err("it must not trust");
    assert_eq!(error.kind(), ErrorKind::NoServer);
    Ok(error.attempts()[0].why.clone())
}

#[tokio::test(start_paused = true)]
async fn a_client_talks_to_a_server_that_it_trusts_in_either_version() -> Result<()> {
    for version in [&TLS12, &TLS13] {
        let bench = Bench::new()?;
        let front = Front::new(&bench.server, &bench.good()?, None, &[version])?;
        for (nth, servers) in ["zk.test", "127.0.0.1", "[::1]:2281"].into_iter().enumerate() {
            let client =
                builder(bench.authority.trusted(), front.clone())?.connect(servers).await?;
            let path = format!("/{nth}");
            let large = vec![7; 500_000];
            client.create(&path, &large, &CreateOptions::persistent()).await?;
            assert_eq!(client.get_data(&path).await?.data, large);
            client.close().await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_trusted_is_refused_and_the_error_says_why() -> Result<()> {
    let bench = Bench::new()?;
    let stranger = Authority::new("root")?;
    let forged = stranger.sign("server", &["zk.test"])?;
    let expired = bench.authority.sign_for("server", &["zk.test"], 1975..2020)?;
    let nameless = bench.authority.sign("server", &[])?;
    let version_1 = Certified { certificate: VERSION_1.to_owned(), ..bench.good()? };
    for (shown, servers, expected) in [
        (&version_1, "zk.test", "is one of X.509 version 1 or 2; it must be of version 3"),
        (&forged, "zk.test", "comes from none of the trusted roots"),
        (&expired, "zk.test", "expired"),
        (&bench.good()?, "other.test", "another name"),
        (&bench.good()?, "127.0.0.2", "another name"),
        (&nameless, "zk.test", "no subjectAltName"),
    ] {
        let why = refused(bench.authority.trusted(), bench.front(shown)?, servers).await?;
        assert!(why.starts_with("TLS: the server's certificate"), "{why}");
        assert!(why.contains(expected), "{expected}: {why}");
        assert!(!why.contains("Other("), "made for debugging: {why}");
    }
    assert_eq!(bench.server.sessions(), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_name_that_counts_is_the_expected_one() -> Result<()> {
    let bench = Bench::new()?;
    let front = bench.front(&bench.good()?)?;
    let expecting =
        |name: &str| bench.authority.trusted().server_name(ServerName::Expected(name.to_owned()));
    builder(expecting("zk.test"), front.clone())?.connect("10.0.0.1").await?;
    let why = refused(expecting("other.test"), front, "zk.test").await?;
    assert!(why.contains("another name"), "{why}");
    let error = TlsConnector::new(expecting("no name")).expect_err("a name with a space");
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn any_name_will_do_if_that_is_wanted_and_nothing_else() -> Result<()> {
    let bench = Bench::new()?;
    let any = || bench.authority.trusted().server_name(ServerName::Any);
    let nameless = bench.authority.sign("server", &[])?;
    for servers in ["other.test", "10.0.0.1", "under_score"] {
        builder(any(), bench.front(&nameless)?)?.connect(servers).await?;
    }
    for version in [&TLS12, &TLS13] {
        let front = Front::new(&bench.server, &bench.good()?, None, &[version])?;
        builder(any(), front)?.connect("other.test").await?;
    }
    let forged = Authority::new("root")?.sign("server", &["zk.test"])?;
    let why = refused(any(), bench.front(&forged)?, "zk.test").await?;
    assert!(why.contains("comes from none of the trusted roots"), "{why}");
    let expired = bench.authority.sign_for("server", &["zk.test"], 1975..2020)?;
    let why = refused(any(), bench.front(&expired)?, "zk.test").await?;
    assert!(why.contains("expired"), "{why}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_a_certificate_gets_it_or_the_error_says_so() -> Result<()> {
    for version in [&TLS12, &TLS13] {
        let bench = Bench::new()?;
        let clients = Authority::new("clients")?;
        let front = Front::new(&bench.server, &bench.good()?, Some(&clients), &[version])?;
        let trusting = bench.authority.trusted();
        let shown = clients.sign("client", &[])?.shown(trusting.clone());
        builder(shown, front.clone())?.connect("zk.test").await?;
        let why = refused(trusting.clone(), front.clone(), "zk.test").await?;
        assert_eq!(
            why,
            "TLS: the server wants a client certificate (CertificateRequired), and none is set: \
             see TlsOptions::identity"
        );
        let foreign = bench.authority.sign("client", &[])?.shown(trusting);
        let why = refused(foreign, front, "zk.test").await?;
        assert!(why.contains("the server refused this client's certificate"), "{why}");
    }
    Ok(())
}

/// A server that answers every client with this TLS alert.
fn alerting(code: u8) -> impl Fn(&Host) -> io::Result<DuplexStream> + Send + Sync {
    move |_| {
        let (here, mut there) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            there.read_u8().await.ok();
            there.write_all(&[21, 3, 3, 0, 2, 2, code]).await.ok();
            // The client may send all its data before it reads the alert.
            tokio::io::copy(&mut there, &mut tokio::io::sink()).await.ok();
        });
        Ok(here)
    }
}

#[tokio::test(start_paused = true)]
async fn an_alert_is_told_by_what_this_client_has_set() -> Result<()> {
    let authority = Authority::new("root")?;
    let shown = authority.sign("client", &[])?.shown(authority.trusted());
    let wants = |alert: &str| {
        format!(
            "TLS: the server wants a client certificate ({alert}), and none is set: see \
             TlsOptions::identity"
        )
    };
    let refuses =
        |alert: &str| format!("TLS: the server refused this client's certificate ({alert})");
    let shares = "TLS: the server refused (HandshakeFailure): it has no cipher in common with this \
                  client, or wants";
    let versions = "TLS: the server refused (ProtocolVersion): this client speaks TLS 1.3 and 1.2, \
                    with rustls's ciphers";
    for (code, without, with, permanent) in [
        (42, wants("BadCertificate"), refuses("BadCertificate"), true),
        (46, wants("CertificateUnknown"), refuses("CertificateUnknown"), true),
        (48, wants("UnknownCA"), refuses("UnknownCA"), true),
        (
            40,
            format!("{shares} a client certificate, and none is set"),
            format!("{shares} another client certificate"),
            true,
        ),
        (70, versions.to_owned(), versions.to_owned(), true),
        (
            80,
            "TLS: the server refused (InternalError)".to_owned(),
            "TLS: the server refused (InternalError)".to_owned(),
            false,
        ),
    ] {
        for (options, expected) in [(authority.trusted(), &without), (shown.clone(), &with)] {
            let connector = TlsConnector::new(options)?.over(alerting(code));
            let builder = Client::builder().connect_timeout(PATIENCE).connector(connector);
            let clock = Clock::start();
            let error = builder.connect("zk.test").await.expect_err("an alert");
            assert_eq!(&error.attempts()[0].why, expected);
            assert_eq!(clock.elapsed() < PATIENCE, permanent, "{error}");
        }
    }
    Ok(())
}

/// A connector to servers of several kinds, by name.
struct Servers {
    front: Front,
}

impl zk_client::Connector for Servers {
    fn connect<'a>(&'a self, host: &'a Host) -> zk_client::Connecting<'a> {
        match host.name.as_str() {
            "down.test" => Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) }),
            _ => self.front.connect(host),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connect_gives_up_when_every_server_has_refused_for_good() -> Result<()> {
    let bench = Bench::new()?;
    let forged = Authority::new("root")?.sign("server", &["zk.test"])?;
    let early = bench.authority.sign_for("server", &["zk.test"], 4000..4096)?;
    let connect = async |shown: &Certified, servers: &str| {
        let servers_of = Servers { front: bench.front(shown)? };
        let connector = TlsConnector::new(bench.authority.trusted())?.over(servers_of);
        let builder = Client::builder().connect_timeout(PATIENCE).connector(connector).seed(1);
        let clock = Clock::start();
        let error = builder.connect(servers).await.expect_err("it must not trust");
        assert_eq!(error.kind(), ErrorKind::NoServer);
        anyhow::Ok((clock.elapsed(), error.attempts().len(), error.to_string()))
    };
    let (elapsed, attempts, text) = connect(&forged, "one.test,two.test,three.test").await?;
    assert!(elapsed < PATIENCE / 2, "{elapsed:?}");
    assert_eq!(attempts, 3, "each was tried");
    assert!(text.starts_with("no server lets the session in: "), "{text}");

    // Another server may come up, and a certificate may become valid.
    for (shown, servers) in [(&forged, "zk.test,down.test"), (&early, "zk.test")] {
        let (elapsed, _, text) = connect(shown, servers).await?;
        assert_eq!(elapsed, PATIENCE, "{text}");
        assert!(text.contains("gave up after 2s"), "{text}");
    }
    Ok(())
}

/// An established session or a lazily connected client waits until the server is repaired.
#[tokio::test(start_paused = true)]
async fn a_lazy_client_goes_on_after_refusals_for_good() -> Result<()> {
    let bench = Bench::new()?;
    let forged = Authority::new("root")?.sign("server", &["zk.test"])?;
    let (front, switch) = switched(bench.front(&forged)?);
    let connector = TlsConnector::new(bench.authority.trusted())?.over(front);
    let client = Client::builder().connector(connector).connect_lazily("zk.test")?;
    assert!(client.sync("/").within(PATIENCE).await.is_err());
    switch(bench.front(&bench.good()?)?);
    client.sync("/").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn certificates_that_were_replaced_count_from_the_next_connection_on() -> Result<()> {
    let bench = Bench::new()?;
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    let folder = tempfile::tempdir()?;
    let file = old.sign("client", &[])?.write(folder.path(), "client.pem")?;
    let options = bench.authority.trusted().identity(Pem::file(&file), Pem::file(&file));
    let (front, switch) = switched(Front::new(&bench.server, &bench.good()?, Some(&old), BOTH)?);
    let connector = TlsConnector::new(options)?.over(front);
    let client = Client::builder().connector(connector).connect("zk.test").await?;
    let session = client.session();

    // With a file that is half written, or a certificate with the wrong key, the client keeps the
    // old ones.
    let next = new.sign("client", &[])?;
    let mixed = Certified { key: new.sign("client", &[])?.key, ..next.clone() };
    let half = &next.both()[..next.both().len() - 40];
    for broken in [half, "", mixed.both().as_str()] {
        fs::write(&file, broken)?;
        reconnect(&bench.server, &client).await?;
    }

    // The servers now trust the new certificates only.
    fs::write(&file, next.both())?;
    switch(Front::new(&bench.server, &bench.good()?, Some(&new), BOTH)?);
    reconnect(&bench.server, &client).await?;
    // A missing file does no harm either.
    fs::remove_file(&file)?;
    reconnect(&bench.server, &client).await?;
    assert_eq!(client.session(), session);
    Ok(())
}

/// A connector to the last front that was set.
fn switched(front: Front) -> (impl zk_client::Connector, impl Fn(Front)) {
    struct Switched(Arc<std::sync::Mutex<Front>>);
    impl zk_client::Connector for Switched {
        fn connect<'a>(&'a self, host: &'a Host) -> zk_client::Connecting<'a> {
            let front = self.0.lock().unwrap().clone();
            Box::pin(async move { front.connect(host).await })
        }
    }
    let shared = Arc::new(std::sync::Mutex::new(front));
    (Switched(Arc::clone(&shared)), move |front| *shared.lock().unwrap() = front)
}

async fn reconnect(server: &Server, client: &Client) -> Result<()> {
    let mut states = client.states();
    server.disconnect_all();
    states.wait_for(|state| *state == SessionState::Disconnected).await?;
    client.sync("/").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tls_is_told_from_one_that_is_not_there() -> Result<()> {
    let server = Server::in_memory(Config::new());
    let connector =
        TlsConnector::new(Authority::new("root")?.trusted())?.over(server.connector::<Host>());
    let builder = Client::builder().connect_timeout(PATIENCE).connector(connector);
    let error = builder.connect("zk.test").await.expect_err("it does not speak TLS");
    let why = &error.attempts()[0].why;
    assert_eq!(why, "TLS: the server hung up: is this its secure port?");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_without_tls_is_told_that_a_port_may_want_it() -> Result<()> {
    let bench = Bench::new()?;
    let front = bench.front(&bench.good()?)?;
    let builder = Client::builder().connect_timeout(PATIENCE);
    let error = builder.connector(front).connect("zk.test").await.expect_err("it speaks TLS");
    let why = &error.attempts()[0].why;
    assert!(why.starts_with("the server closed the connection instead of answering"), "{why}");
    assert!(why.ends_with("or wants TLS at this port"), "{why}");
    Ok(())
}

const ENCRYPTED: &str =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";

#[test]
fn what_cannot_be_used_is_refused_at_once_and_named() -> Result<()> {
    let authority = Authority::new("root")?;
    let client = authority.sign("client", &[])?;
    let other = authority.sign("other", &[])?;
    let pem = |text: &str| Pem::bytes(text);
    let trusting = || authority.trusted();
    for (options, expected) in [
        (TlsOptions::new(Pem::file("/nowhere/ca.pem")), "/nowhere/ca.pem"),
        (TlsOptions::new(pem("")), "no certificate in it"),
        (TlsOptions::new(pem(&client.key)), "no certificate in it"),
        (TlsOptions::new(pem("-----BEGIN CERTIFICATE-----\nAAAA\n")), "bytes in PEM"),
        (trusting().identity(pem(&client.certificate), pem("")), "no private key"),
        (trusting().identity(pem(&client.certificate), pem(ENCRYPTED)), "openssl pkey"),
        (TlsOptions::new(pem("0\u{5}binary")), "openssl pkcs12"),
        (trusting().identity(pem(&client.certificate), pem(&other.key)), "bytes in PEM"),
        (
            trusting().identity(pem(&client.certificate), pem(&other.key)),
            "the key is not that of the certificate",
        ),
        (
            trusting().identity(pem(VERSION_1), pem(&other.key)),
            "bytes in PEM and bytes in PEM: the certificate is one of X.509 version 1 or 2",
        ),
        (
            trusting().identity(pem(NO_CERTIFICATE), pem(&other.key)),
            "the certificate is not encoded as X.509 certificates are",
        ),
        (
            TlsOptions::new(pem(NO_CERTIFICATE)),
            "the certificate is not encoded as X.509 certificates are",
        ),
        (trusting().identity(pem(&client.certificate), Pem::file("/nowhere/key")), "/nowhere/key"),
    ] {
        let error = TlsConnector::new(options).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("peer"), "it is this client's: {error}");
    }
    Ok(())
}

#[test]
fn nothing_shows_a_key() -> Result<()> {
    let authority = Authority::new("root")?;
    let client = authority.sign("client", &[])?;
    let connector = TlsConnector::new(client.shown(authority.trusted()))?;
    let shown = format!("{connector:?} {:?}", client.shown(authority.trusted()));
    assert!(!shown.contains("BEGIN") && !shown.contains("45, 45"), "{shown}");
    Ok(())
}
