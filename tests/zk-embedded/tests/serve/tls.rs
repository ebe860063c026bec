//! Encrypted connections, with and without certificates of clients.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use zk_client::{Client, CreateOptions, Pem, TlsConnector, TlsOptions};

use crate::program::{Program, read, run, soon, text};

/// A folder with an authority, and a certificate with its key.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let files = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(files.path("ca"), authority.pem()).unwrap();
        fs::write(files.path("cert"), certificate.pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions::new(Pem::file(self.path("ca")))
    }
}

async fn connect(address: &str, options: TlsOptions) -> Result<Client, zk_client::Error> {
    connect_within(Duration::from_secs(30), address, options).await
}

async fn connect_within(
    time: Duration,
    address: &str,
    options: TlsOptions,
) -> Result<Client, zk_client::Error> {
    let builder = Client::builder().connect_timeout(time);
    soon(builder.connector(TlsConnector::new(options).unwrap()).connect(address)).await
}

#[tokio::test]
async fn clients_connect_in_plain_and_encrypted() {
    let files = Files::new();
    let (cert, key) = (files.path("cert"), files.path("key"));
    let arguments = ["--tls-port", "0", "--tls-cert", text(&cert), "--tls-key", text(&key)];
    let mut program = Program::start(&arguments).await;
    let address = program.announced("tls on ").await;
    let encrypted = connect(&address, files.trusted()).await.unwrap();
    // More than one record of TLS, and than the buffers of a connection.
    let data = vec![7; 1_000_000];
    encrypted.create("/a", &data, &CreateOptions::persistent()).await.unwrap();
    assert_eq!(program.client().await.get_data("/a").await.unwrap().data, data);
    assert_eq!(encrypted.get_data("/a").await.unwrap().data, data);
    program.tell("stop").await;
    program.tell("start").await;
    read(&encrypted, "/a").await;
    program.end().await;
}

#[tokio::test]
async fn clients_without_a_certificate_are_refused_if_it_is_demanded() {
    let files = Files::new();
    let (cert, key, ca) = (files.path("cert"), files.path("key"), files.path("ca"));
    let mut arguments = vec!["--tls-port", "0", "--tls-cert", text(&cert)];
    arguments.extend(["--tls-key", text(&key), "--tls-client-ca", text(&ca)]);
    let mut program = Program::start(&arguments).await;
    let address = program.announced("tls on ").await;
    let refused = connect_within(Duration::from_secs(1), &address, files.trusted()).await;
    assert!(refused.is_err());
    let shown = files.trusted().identity(Pem::file(&cert), Pem::file(&key));
    let client = connect(&address, shown).await.unwrap();
    client.get_data("/").await.unwrap();
    program.end().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let (cert, key, none) = (files.path("cert"), files.path("key"), files.path("none"));
    let other = Files::new();
    for (cert, key, why) in [
        (&none, &key, text(&none).to_owned()),
        (&key, &key, "no certificate".to_owned()),
        (&cert, &other.path("key"), "do not fit".to_owned()),
    ] {
        let arguments =
            ["--port", "0", "--tls-port", "0", "--tls-cert", text(cert), "--tls-key", text(key)];
        let ended = run(&arguments).await;
        assert_eq!((ended.status, ended.errors.lines().count()), (Some(1), 1), "{ended:?}");
        assert!(ended.errors.contains(&why), "{ended:?}");
    }
}
