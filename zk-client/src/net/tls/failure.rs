//! What TLS failed with, in words for whoever set the client up.
//!
//! Each failure names the side whose certificate or setting is to be changed, and is marked as
//! permanent if another attempt would fail for the same reason. Knows no connections.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InconsistentKeys};

use crate::net::transport::PermanentRefusal;

/// When a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// During TLS's handshake.
    Handshake,
    /// Behind it. With TLS 1.3 a server refuses a client's certificate then.
    Later,
}

/// Explains why a connection failed. `shows_identity` says whether the client has a certificate to
/// show.
pub(super) fn explain(error: io::Error, moment: Moment, shows_identity: bool) -> io::Error {
    let kind = error.kind();
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    let (text, is_permanent) = match source {
        Some(Error::InvalidCertificate(bad)) => {
            (format!("the server's certificate {}", flaw(bad)), !is_not_valid_yet(bad))
        }
        Some(Error::AlertReceived(alert)) => alert_text(*alert, shows_identity),
        Some(Error::InvalidMessage(_)) if moment == Moment::Handshake => {
            ("the server does not speak TLS: is this its secure port?".to_owned(), true)
        }
        Some(other) => (other.to_string(), matches!(other, Error::PeerIncompatible(_))),
        None if moment == Moment::Handshake && kind == io::ErrorKind::UnexpectedEof => {
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

/// What a server means by its alert, and whether it will send it again.
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
        // Some servers have no other word for a missing certificate.
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

/// Why a certificate or key of this client's own, or a root, cannot be used.
pub(super) fn flaw_of_ours(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(bad) => format!("the certificate {}", flaw(bad)),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key is not that of the certificate".to_owned()
        }
        other => other.to_string(),
    }
}

/// What is wrong with a certificate, behind a subject such as "the server's certificate".
fn flaw(bad: &CertificateError) -> String {
    use CertificateError as Bad;
    match bad {
        Bad::Expired | Bad::ExpiredContext { .. } => format!("is expired: {bad}"),
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => format!("is not valid yet: {bad}"),
        // Of a root by the same name there is no more to see than a signature that is not its own.
        Bad::UnknownIssuer | Bad::BadSignature => "comes from none of the trusted roots".to_owned(),
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            format!("is for another name: {bad}")
        }
        Bad::BadEncoding => "is not encoded as X.509 certificates are".to_owned(),
        Bad::InvalidPurposeContext { .. } => format!("is for another purpose: {bad}"),
        // The text of these is made for debugging, and has the bytes of identifiers in it.
        Bad::UnsupportedSignatureAlgorithmContext { .. }
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed by an algorithm that is not supported".to_owned()
        }
        // What rustls has no variant for, it passes on as an error of webpki, which prints its
        // name.
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

/// Whether time alone makes it good.
fn is_not_valid_yet(bad: &CertificateError) -> bool {
    matches!(bad, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })
}
