//! Explains TLS failures in words for the person who configures the client.
//!
//! Each text names the side whose certificate or setting must be changed. A failure is marked as
//! permanent if another attempt would fail for the same reason. This file knows no connections.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InconsistentKeys};

use crate::net::transport::PermanentRefusal;

/// The phase in which a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsPhase {
    /// During TLS's handshake.
    Handshake,
    /// After the handshake. With TLS 1.3 a server refuses a client's certificate then.
    Later,
}

/// Explains why a connection failed. `shows_identity` is true if the client has a certificate to
/// show.
pub(crate) fn explain(error: io::Error, phase: TlsPhase, shows_identity: bool) -> io::Error {
    let kind = error.kind();
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    let (text, is_permanent) = match source {
        Some(Error::InvalidCertificate(bad)) => {
            (format!("the server's certificate {}", flaw(bad)), !is_not_valid_yet(bad))
        }
        Some(Error::AlertReceived(alert)) => alert_text(*alert, shows_identity),
        Some(Error::InvalidMessage(_)) if phase == TlsPhase::Handshake => {
            ("the server does not speak TLS: is this its secure port?".to_owned(), true)
        }
        Some(other) => (other.to_string(), matches!(other, Error::PeerIncompatible(_))),
        None if phase == TlsPhase::Handshake && kind == io::ErrorKind::UnexpectedEof => {
            ("the server hung up: is this its secure port?".to_owned(), false)
        }
        None => return error,
    };
    let text = format!("TLS: {text}");
    if is_permanent {
        io::Error::new(kind, PermanentRefusal(text))
    } else {
        io::Error::new(kind, text)
    }
}

/// What a server's alert means, and whether the server would send it again.
fn alert_text(alert: AlertDescription, shows_identity: bool) -> (String, bool) {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => {
            let text = match shows_identity {
                true => format!("the server refused this client's certificate ({alert:?})"),
                false => format!(
                    "the server wants a client certificate ({alert:?}), and none is set: see \
                     TlsOptions::identity"
                ),
            };
            (text, true)
        }
        // Some servers send this alert for a missing certificate.
        Alert::HandshakeFailure => {
            let certificate = match shows_identity {
                true => "another client certificate",
                false => "a client certificate, and none is set",
            };
            let text = format!(
                "the server refused ({alert:?}): it has no cipher in common with this client, or \
                 wants {certificate}"
            );
            (text, true)
        }
        Alert::ProtocolVersion | Alert::InsufficientSecurity => {
            let text = format!(
                "the server refused ({alert:?}): this client speaks TLS 1.3 and 1.2, with rustls's \
                 ciphers"
            );
            (text, true)
        }
        _ => (format!("the server refused ({alert:?})"), false),
    }
}

/// What to do about a file that is not PEM, or whose key is encrypted.
pub(crate) fn format_hint(file: &[u8]) -> &'static str {
    // DER begins with the tag of a sequence.
    if file.first() == Some(&0x30) {
        "; it is binary, as PKCS#12 and DER are: `openssl pkcs12 -in FILE -nodes` makes PEM of the \
         former, `openssl x509 -inform DER` or `openssl pkey -inform DER` of the latter"
    } else if file.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
        "; it is encrypted: `openssl pkey -in FILE` asks for the password and prints the key as it \
         is, for a file that only its owner may read"
    } else {
        ""
    }
}

/// The word in the header of a key that is encrypted, both in PKCS#8 and in the format before it.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Why the client's own certificate or key, or a root, cannot be used.
pub(crate) fn own_flaw(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(bad) => format!("the certificate {}", flaw(bad)),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key is not that of the certificate".to_owned()
        }
        other => other.to_string(),
    }
}

/// What is wrong with a certificate, as a predicate of a subject such as "the server's
/// certificate".
fn flaw(bad: &CertificateError) -> String {
    use CertificateError as Bad;
    match bad {
        Bad::Expired | Bad::ExpiredContext { .. } => format!("is expired: {bad}"),
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => format!("is not valid yet: {bad}"),
        // For another root of the same name, only the wrong signature shows.
        Bad::UnknownIssuer | Bad::BadSignature => "comes from none of the trusted roots".to_owned(),
        Bad::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "has no subjectAltName, in which the names that it is for must be".to_owned()
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            format!("is for another name: {bad}")
        }
        Bad::BadEncoding => "is not encoded as X.509 certificates are".to_owned(),
        Bad::InvalidPurposeContext { .. } => format!("is for another purpose: {bad}"),
        // The text of these is meant for debugging, and contains the bytes of identifiers.
        Bad::UnsupportedSignatureAlgorithmContext { .. }
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed by an algorithm that is not supported".to_owned()
        }
        // Errors for which rustls has no variant are errors of webpki, which print their names.
        Bad::Other(other) => match other.0.to_string().as_str() {
            "UnsupportedCertVersion" => {
                "is one of X.509 version 1 or 2; it must be of version 3, which has extensions \
                 such as the names that it is for"
                    .to_owned()
            }
            "CaUsedAsEndEntity" => {
                "is that of an authority, which must not be shown by a server or client".to_owned()
            }
            name => format!("cannot be used: {name}"),
        },
        other => format!("cannot be used: {other}"),
    }
}

/// Whether the certificate becomes valid with time.
fn is_not_valid_yet(bad: &CertificateError) -> bool {
    matches!(bad, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
}
