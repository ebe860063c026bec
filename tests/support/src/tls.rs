//! Certificates for tests, and a front that puts TLS in front of the embedded server.
//!
//! An [`Authority`] signs every certificate that a test needs, also invalid ones. Real servers get
//! its certificates by [`ServerConfig::tls`](crate::server::ServerConfig::tls).

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::DuplexStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use zk_client::{Connecting, Connector, Host, Pem, TlsOptions, Transport};
use zk_embedded::Server;

/// A certificate of X.509 version 1, as `openssl x509 -req` makes them by default.
pub const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHjCBxQIUOZdH8qRDTXHiAvvIyVI3e1bo7/kwCgYIKoZIzj0EAwIwETEPMA0G
A1UEAwwGc2VydmVyMCAXDTI2MTEyMjIyMzYyN1oYDzIxMjYxMDI5MjIzNjI3WjAR
MQ8wDQYDVQQDDAZzZXJ2ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARvyoJq
XVfEl40yIRXm7srlgtREvcT8A0zAEamnFHwU6is8Gtz0QHRR5ZEFBRQEut7uxfcu
49hbRcsavqWGq8pbMAoGCCqGSM49BAMCA0gAMEUCIQCyzRln3AfX35mj/aABVlVd
s+48vsuJTCY/7pQOsUXSpgIgDeSlm15URtDuvEbBonyIMWSiatiI+4TTAGsaQ+0L
Ij8=
-----END CERTIFICATE-----
";

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its private key, both in PEM.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// An authority that no client or server trusts yet.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its certificate, which a client or a server must trust.
    pub fn root(&self) -> String {
        self.0.pem()
    }

    /// The options of a client that trusts it.
    pub fn trusted(&self) -> TlsOptions {
        TlsOptions::new(Pem::bytes(self.root()))
    }

    /// A certificate for these host names and addresses, whose subject is `CN=common_name`.
    pub fn sign(&self, common_name: &str, names: &[&str]) -> Result<Certified> {
        self.sign_for(common_name, names, 1975..4096)
    }

    /// Like [`sign`](Self::sign), but the certificate is valid only in these years.
    pub fn sign_for(
        &self,
        common_name: &str,
        names: &[&str],
        years: Range<i32>,
    ) -> Result<Certified> {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(Certified { certificate, key: key.serialize_pem() })
    }
}

impl Certified {
    /// Adds it to the options as the client's own certificate.
    pub fn shown(&self, options: TlsOptions) -> TlsOptions {
        let Self { certificate, key } = self;
        options.identity(Pem::bytes(certificate.as_str()), Pem::bytes(key.as_str()))
    }

    /// The key and the certificate in one text.
    pub fn both(&self) -> String {
        format!("{}{}", self.key, self.certificate)
    }

    /// Writes the key and the certificate into one file.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<PathBuf> {
        let path = folder.join(name);
        fs::write(&path, self.both())?;
        Ok(path)
    }
}

/// The embedded server behind TLS, as a connector.
#[derive(Clone)]
pub struct Front {
    acceptor: TlsAcceptor,
    server: Arc<Server>,
}

impl Front {
    /// A front with this certificate. If `clients` is given, it demands a certificate from clients.
    pub fn new(
        server: &Arc<Server>,
        shown: &Certified,
        clients: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let verifier = match clients {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.root().as_bytes())?)?;
                let provider = Arc::clone(&provider);
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build()?
            }
        };
        let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes())?;
        // Use the certificate as it is: rustls itself would refuse some.
        let key = provider.key_provider.load_private_key(key)?;
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(shown));
        Ok(Self { acceptor: Arc::new(config).into(), server: Arc::clone(server) })
    }

    /// A connection to the front.
    pub fn open(&self) -> DuplexStream {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let Self { acceptor, server } = self.clone();
        tokio::spawn(async move {
            // A client that is not accepted sees that in the handshake.
            if let Ok(mut encrypted) = acceptor.accept(there).await {
                let mut inner = server.connect();
                tokio::io::copy_bidirectional(&mut encrypted, &mut inner).await.ok();
            }
        });
        here
    }
}

impl Connector for Front {
    fn connect<'a>(&'a self, _: &'a Host) -> Connecting<'a> {
        Box::pin(async { Ok(Box::new(self.open()) as Box<dyn Transport>) })
    }
}
