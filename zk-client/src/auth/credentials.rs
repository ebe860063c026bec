//! Credentials of a client, and the ways in which servers refuse them.
//!
//! Only the request that carries a credential sees its secret half: no `Debug`, trace or error
//! shows it. This file knows no session.

use std::fmt;
use std::hint;
use std::str;

/// An authentication scheme and its proof, as in `digest` and `user:password`.
///
/// The client keeps it as long as the session lasts, and overwrites it in memory when it is
/// dropped. The bytes that went to the socket are not overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    scheme: String,
    proof: Secret,
}

impl Credential {
    /// Makes a credential from a proof in the form that the scheme requires.
    pub fn new(scheme: &str, proof: &[u8]) -> Self {
        Self { scheme: scheme.to_owned(), proof: Secret::new(proof) }
    }

    /// The name of the authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(crate) fn proof(&self) -> &[u8] {
        self.proof.expose()
    }

    /// An upper bound of the bytes that the request with this credential takes of a frame.
    pub(crate) fn size(&self) -> usize {
        const HEADER_AND_LENGTHS: usize = 32;
        HEADER_AND_LENGTHS + self.scheme.len() + self.proof().len()
    }
}

/// Bytes that no `Debug` shows, and that are overwritten when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Nothing reads the zeros, so without this the compiler may omit the writes.
        hint::black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// The client's next step after a token of the server, in a SASL exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this token.
    Answer(Vec<u8>),
    /// Both sides have authenticated.
    Done,
}

/// Why a SASL exchange cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is refused for good.
    Refused(Refusal),
    /// The server's token makes no sense, with the reason.
    Nonsense(&'static str),
}

/// Which part of a client's authentication was refused. That ends the client for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server refused a credential of this scheme: it does not know the scheme, or the proof is
    /// not valid. Servers never refuse a proof of `digest`: anyone who knows the password is that
    /// user.
    #[error("the server refused a credential of the scheme {0}")]
    Credential(Scheme),
    /// The server does not know the SASL user, or the password is wrong.
    #[error("the server refused the user or the password of SASL")]
    SaslUser,
    /// The server has no SASL. It would accept the client without any identity.
    #[error("the server has no SASL")]
    SaslUnsupported,
    /// The server did not prove that it knows the password, so it is not the expected server.
    #[error("the server did not show that it knows the password of SASL")]
    SaslServer,
}

/// The name of a scheme in an error, cut off after 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    name: [u8; Self::MAX],
    len: usize,
}

impl Scheme {
    const MAX: usize = 16;

    pub(crate) fn new(name: &str) -> Self {
        let fits = |len: &usize| name.is_char_boundary(*len);
        let len = (0..=Self::MAX).rev().find(fits).unwrap_or_default();
        let mut short = [0; Self::MAX];
        for (to, from) in short.iter_mut().zip(name.bytes().take(len)) {
            *to = from;
        }
        Self { name: short, len }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        self.name.get(..self.len).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_shows_its_scheme_alone() {
        let shown = format!("{:?}", Credential::new("digest", b"ann:secret"));
        assert_eq!(shown, r#"Credential { scheme: "digest", proof: .. }"#);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        for (name, shown) in [
            ("", ""),
            ("digest", "digest"),
            ("sixteen-letters!", "sixteen-letters!"),
            ("seventeen-letters", "seventeen-letter"),
            ("fifteen-letters\u{e9}", "fifteen-letters"),
        ] {
            assert_eq!(Scheme::new(name).to_string(), shown);
        }
    }
}
