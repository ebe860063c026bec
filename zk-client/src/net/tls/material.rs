//! The certificates and the key, as bytes that were read and as a configuration of rustls.
//!
//! While new bytes cannot be used, the last configuration that could be used stays: a file may be
//! read while it is being replaced. This file makes no connection.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::{info, warn};

use crate::net::tls::any_name::AnyName;
use crate::net::tls::error_text::{format_hint, own_flaw};
use crate::net::tls::options::{Pem, ServerName, TlsOptions};
use crate::trace;

/// The certificates that are shown and trusted, as they were last read.
pub(crate) struct Identity {
    pub(crate) options: TlsOptions,
    current: Mutex<Current>,
}

struct Current {
    material: Material,
    /// Kept while the material is the same, since it remembers data of the servers.
    config: Arc<ClientConfig>,
    /// The problem that was last logged, while it persists.
    warned: Option<String>,
}

impl Identity {
    /// Reads and checks what the options name.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, String> {
        let material = Material::read(&options)?;
        let config = Arc::new(material.config(&options)?);
        let current = Mutex::new(Current { material, config, warned: None });
        Ok(Self { options, current })
    }

    /// The configuration that the files give now, or the last one that could be used.
    pub(crate) fn latest(&self) -> Arc<ClientConfig> {
        let read = Material::read(&self.options);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match read {
            Ok(material) if material == current.material => None,
            Ok(material) => match material.config(&self.options) {
                Ok(config) => {
                    info!(target: trace::CONNECTION, "certificates replaced");
                    (current.material, current.config) = (material, Arc::new(config));
                    None
                }
                Err(problem) => Some(problem),
            },
            Err(problem) => Some(problem),
        };
        if let Some(problem) = &problem
            && current.warned.as_ref() != Some(problem)
        {
            warn!(target: trace::CONNECTION, problem, "certificates kept");
        }
        current.warned = problem;
        Arc::clone(&current.config)
    }
}

/// The bytes of all files that were read.
#[derive(PartialEq, Eq)]
struct Material {
    roots: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Material {
    fn read(options: &TlsOptions) -> Result<Self, String> {
        let TlsOptions { roots, identity, server_name: _ } = options;
        let identity = identity
            .as_ref()
            .map(|(certificates, key)| Ok::<_, String>((certificates.read()?, key.read()?)));
        Ok(Self { roots: roots.read()?, identity: identity.transpose()? })
    }

    /// The configuration of rustls for this material; `options` name its sources.
    fn config(&self, options: &TlsOptions) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.roots, &options.roots)? {
            let added = roots.add(root);
            added.map_err(|error| format!("{}: {}", options.roots, own_flaw(&error)))?;
        }
        let roots = Arc::new(roots);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match options.server_name {
            ServerName::Dialled | ServerName::Expected(_) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
                builder.with_webpki_verifier(verifier.build().map_err(|error| error.to_string())?)
            }
            ServerName::Any => {
                let verifier = Arc::new(AnyName { roots, provider });
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
        };
        match (&self.identity, &options.identity) {
            (Some((shown, key)), Some((from, key_from))) => {
                let shown = certificates(shown, from)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
                    format!("{key_from}: no private key: {error}{}", format_hint(key))
                })?;
                let config = builder.with_client_auth_cert(shown, key);
                config.map_err(|error| format!("{from} and {key_from}: {}", own_flaw(&error)))
            }
            _ => Ok(builder.with_no_client_auth()),
        }
    }
}

/// Parses at least one certificate.
fn certificates(pem: &[u8], from: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("{from}: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{from}: no certificate in it{}", format_hint(pem)));
    }
    Ok(certificates)
}
