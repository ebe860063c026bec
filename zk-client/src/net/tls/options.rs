//! What a user sets for TLS: the trusted roots, the client's certificate, the server's name.
//!
//! Each certificate or key is bytes or a file, which is read again for every connection. This file
//! parses none of them.

use std::fmt;
use std::path::PathBuf;

/// Certificates or a key in PEM: the bytes, or a file that holds them.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    /// Uses bytes that stay the same.
    pub fn bytes(pem: impl Into<Vec<u8>>) -> Self {
        Self(Source::Bytes(pem.into()))
    }

    /// Uses a file, which is read again for every connection.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        match &self.0 {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::File(path) => {
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

impl fmt::Debug for Pem {
    /// Shows the file name and nothing of the contents, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Bytes(_) => f.write_str("Pem(bytes)"),
            Source::File(path) => write!(f, "Pem({})", path.display()),
        }
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Bytes(_) => f.write_str("bytes in PEM"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

/// Which name a server's certificate must be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerName {
    /// The name or address of the connect string. The client makes no reverse lookups.
    #[default]
    Dialled,
    /// This name or address, whatever the connect string says: for servers behind a proxy, or
    /// servers that share one certificate.
    Expected(String),
    /// Any name or none. **Anyone who has a certificate that the trusted roots have signed can
    /// impersonate a server**, so these roots must have signed the servers' certificates and no
    /// others: use no public authority, and none that also signs the clients' certificates. This is
    /// for ensembles whose certificates do not name the addresses that clients connect to.
    /// Everything else is checked as usual.
    Any,
}

/// The roots that a client trusts and its own certificate, for a connector of TLS.
///
/// See [`TlsConnector::new`](crate::TlsConnector::new).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a connector is made of them"]
pub struct TlsOptions {
    pub(crate) roots: Pem,
    pub(crate) identity: Option<(Pem, Pem)>,
    pub(crate) server_name: ServerName,
}

impl TlsOptions {
    /// Trusts servers whose certificates come from these roots, and no others.
    ///
    /// The roots of the system and of the web are not trusted. The client shows no certificate of
    /// its own.
    pub fn new(roots: Pem) -> Self {
        Self { roots, identity: None, server_name: ServerName::default() }
    }

    /// Sets the client's certificate and private key, for servers that ask for them.
    ///
    /// The chain of certificates up to the root follows the client's own. The key is unencrypted,
    /// as PKCS #8, PKCS #1 or SEC 1. Certificates and key may be in one file.
    ///
    /// Servers ask by default (`ssl.clientAuth`). A server with the authentication provider for
    /// X.509 then identifies the client by the scheme `x509` and the certificate's subject, without
    /// [`add_auth`](crate::Client::add_auth).
    pub fn identity(self, certificates: Pem, key: Pem) -> Self {
        Self { identity: Some((certificates, key)), ..self }
    }

    /// Sets which name the servers' certificates must be for. Default: [`ServerName::Dialled`].
    pub fn server_name(self, server_name: ServerName) -> Self {
        Self { server_name, ..self }
    }
}
