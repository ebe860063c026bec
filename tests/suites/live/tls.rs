//! TLS with real servers: their secure port, how they check certificates, and the identities that
//! certificates give.

use std::time::Duration;

use anyhow::Result;
use zk_client::{
    Acl, Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Id, Pem, Perms, ServerName,
    TlsConnector, TlsOptions,
};
use zk_test_support::claims::target::Target;
use zk_test_support::claims::{CLIENT, equipped, hold_at_once};
use zk_test_support::server::{Ensemble, ServerConfig, ServerTls, Standalone};
use zk_test_support::tls::{Authority, Certified};

#[tokio::test]
async fn every_claim_holds_on_a_standalone_over_tls() -> Result<()> {
    hold_at_once(standalone().await?, CLIENT).await
}

#[tokio::test]
async fn every_claim_holds_on_an_ensemble_over_tls() -> Result<()> {
    hold_at_once(ensemble().await?, CLIENT).await
}

async fn standalone() -> Result<Target> {
    let authority = Authority::new("root")?;
    let server = Standalone::with(&equipped(config(&authority, None)?)).await?;
    let (secure, connector) = (server.secure_address(), TlsConnector::new(authority.trusted())?);
    Ok(Target::from(server).reached(secure, connector))
}

async fn ensemble() -> Result<Target> {
    let authority = Authority::new("root")?;
    let servers = Ensemble::with(&equipped(config(&authority, None)?), 3).await?;
    let secure = servers.secure_connect_string();
    let connector = TlsConnector::new(authority.trusted())?;
    Ok(Target::from(servers).reached(secure, connector))
}

/// A server with a valid certificate, which requires client certificates from `clients`.
fn config(authority: &Authority, clients: Option<&Authority>) -> Result<ServerConfig> {
    showing(authority.sign("server", &["127.0.0.1", "localhost"])?, clients)
}

fn showing(shown: Certified, clients: Option<&Authority>) -> Result<ServerConfig> {
    let provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider".to_owned();
    Ok(ServerConfig {
        tls: Some(ServerTls { shown, clients: clients.map(Authority::root) }),
        properties: vec![("zookeeper.authProvider.x509".to_owned(), provider)],
        // Sessions must survive the restart of a server and its first handshakes.
        max_session_timeout: Some(Duration::from_secs(60)),
        ..ServerConfig::default()
    })
}

fn builder(options: TlsOptions) -> Result<ClientBuilder> {
    // Enough time for the first handshakes of a Java process that has just started, on a busy
    // machine.
    let builder = Client::builder().session_timeout(Duration::from_secs(15));
    Ok(builder.connect_timeout(Duration::from_secs(15)).connector(TlsConnector::new(options)?))
}

/// The error text of a connect that the server refuses.
async fn refused(options: TlsOptions, servers: &str) -> Result<String> {
    let error = builder(options)?.connect(servers).await.expect_err("it must not be let in");
    assert_eq!(error.kind(), ErrorKind::NoServer);
    Ok(error.attempts()[0].why.clone())
}

#[tokio::test]
async fn a_certificate_is_an_identity_and_a_rotated_one_is_the_next() -> Result<()> {
    let (authority, clients) = (Authority::new("root")?, Authority::new("clients")?);
    let mut server = Standalone::with(&config(&authority, Some(&clients))?).await?;
    let folder = tempfile::tempdir()?;
    let file = clients.sign("ann", &[])?.write(folder.path(), "client.pem")?;
    let options = authority.trusted().identity(Pem::file(&file), Pem::file(&file));
    let client = builder(options)?.connect(&server.secure_address()).await?;
    let session = client.session();

    let ann = Id::new("x509", "CN=ann");
    assert!(client.who_am_i().await?.contains(&ann));
    let acl = [Acl::new(Perms::ALL, ann.clone())];
    client.create("/hers", b"x", &CreateOptions::persistent().with_acl(&acl)).await?;
    assert_eq!(&client.get_data("/hers").await?.data[..], b"x");

    // Half of the next file is not a certificate, so the client keeps the old one.
    let next = clients.sign("bob", &[])?;
    std::fs::write(&file, &next.both()[..300])?;
    server.restart().await?;
    assert_eq!(&client.get_data("/hers").await?.data[..], b"x");

    next.write(folder.path(), "client.pem")?;
    server.restart().await?;
    assert!(client.who_am_i().await?.contains(&Id::new("x509", "CN=bob")));
    let error = client.get_data("/hers").await.expect_err("bob is not ann");
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    assert_eq!(client.session(), session, "the session is the same");
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why() -> Result<()> {
    let (authority, clients) = (Authority::new("root")?, Authority::new("clients")?);
    let server = Standalone::with(&config(&authority, Some(&clients))?).await?;
    let secure = server.secure_address();
    let trusting = || authority.trusted();
    let shown = |authority: &Authority| Ok(authority.sign("client", &[])?.shown(trusting()));

    // Debian's 3.8.0 with TLS 1.2 and 3.9 with TLS 1.3 send different alerts for this.
    let why = refused(trusting(), &secure).await?;
    assert!(why.contains("a client certificate"), "{why}");
    assert!(why.contains("none is set"), "{why}");
    let why = refused(shown(&authority)?, &secure).await?;
    assert!(why.starts_with("TLS: the server refused this client's certificate"), "{why}");
    let good: Result<TlsOptions> = shown(&clients);
    let stranger = clients.sign("client", &[])?.shown(Authority::new("root")?.trusted());
    let why = refused(stranger, &secure).await?;
    assert_eq!(why, "TLS: the server's certificate comes from none of the trusted roots");
    let other = good?.server_name(ServerName::Expected("zk.test".to_owned()));
    let why = refused(other, &secure).await?;
    assert!(why.starts_with("TLS: the server's certificate is for another name"), "{why}");

    let why = refused(trusting(), &server.address()).await?;
    assert_eq!(why, "TLS: the server hung up: is this its secure port?");
    let plain = Client::builder().connect_timeout(Duration::from_secs(1)).connect(&secure).await;
    let error = plain.expect_err("without TLS");
    assert_eq!(error.kind(), ErrorKind::NoServer);
    assert!(error.attempts()[0].why.contains("TLS at this port"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_expired_server_is_refused_and_a_nameless_one_if_the_name_counts() -> Result<()> {
    let authority = Authority::new("root")?;
    let expired = authority.sign_for("server", &["127.0.0.1"], 1975..2020)?;
    let server = Standalone::with(&showing(expired, None)?).await?;
    for rule in [ServerName::Dialled, ServerName::Any] {
        let why = refused(authority.trusted().server_name(rule), &server.secure_address()).await?;
        assert!(why.starts_with("TLS: the server's certificate is expired"), "{why}");
    }
    drop(server);

    let nameless = authority.sign("server", &[])?;
    let server = Standalone::with(&showing(nameless, None)?).await?;
    let why = refused(authority.trusted(), &server.secure_address()).await?;
    assert!(why.starts_with("TLS: the server's certificate has no subjectAltName"), "{why}");
    let any = authority.trusted().server_name(ServerName::Any);
    let client = builder(any)?.connect(&server.secure_address()).await?;
    client.sync("/").await?;
    Ok(())
}
