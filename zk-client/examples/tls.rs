//! Encrypted connections with certificates on both sides, and the errors if one is not accepted.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use zk_client::{Client, CreateOptions, Pem, TlsConnector, TlsOptions};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate authority of our own. With a real ensemble, its certificate and those that it
    // signs are files.
    let authority = CertifiedIssuer::self_signed(params("ours"), KeyPair::generate()?)?;
    let address = serve(&authority).await?;
    println!("a server that wants a certificate is at {address}");

    let (certificate, key) = sign(&authority, &[])?;
    let trusting = TlsOptions::new(Pem::bytes(authority.pem()));
    let options = trusting.clone().identity(Pem::bytes(certificate), Pem::bytes(key));
    let connector = TlsConnector::new(options)?;
    let client = Client::builder().connector(connector).connect(&address).await?;
    client.create("/secret", b"told to nobody", &CreateOptions::persistent()).await?;
    println!("read over TLS: {:?}", client.get_data("/secret").await?.data);
    client.close().await;

    // Without a certificate of its own, a client gets an error that names what is missing.
    let why = refused(trusting, &address).await?;
    println!("without a certificate: {why}");
    assert!(why.contains("wants a client certificate"));

    // A client that trusts another authority does not even complete the handshake.
    let stranger = CertifiedIssuer::self_signed(params("a stranger"), KeyPair::generate()?)?;
    let why = refused(TlsOptions::new(Pem::bytes(stranger.pem())), &address).await?;
    println!("trusting another authority: {why}");
    assert!(why.contains("comes from none of the trusted roots"));
    Ok(())
}

/// Why no server accepted a client.
async fn refused(options: TlsOptions, address: &str) -> Result<String, Box<dyn Error>> {
    let builder = Client::builder().connect_timeout(Duration::from_secs(1));
    match builder.connector(TlsConnector::new(options)?).connect(address).await {
        Ok(_) => Err("it was let in".into()),
        Err(error) => Ok(error.to_string()),
    }
}

/// An authority's certificate, not signed yet.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A certificate for these names, and its key.
fn sign(
    authority: &CertifiedIssuer<'_, KeyPair>,
    names: &[&str],
) -> Result<(String, String), rcgen::Error> {
    let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(names)?.signed_by(&key, authority)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Puts TLS in front of an embedded server, as `secureClientPort` does for a real one.
async fn serve(authority: &CertifiedIssuer<'_, KeyPair>) -> Result<String, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let (certificate, key) = sign(authority, &["127.0.0.1"])?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.build()?)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        )?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let server = Server::start().await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), server.address().to_owned());
            tokio::spawn(async move {
                let mut encrypted = acceptor.accept(stream).await?;
                let mut inner = TcpStream::connect(plain).await?;
                tokio::io::copy_bidirectional(&mut encrypted, &mut inner).await
            });
        }
    });
    Ok(address)
}
