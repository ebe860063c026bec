//! The ways in which servers refuse the authentication of a client.
//!
//! Sessions and errors copy these values freely, so they hold no text on the heap. This file knows
//! no credential and no session.

use std::fmt;
use std::str;

/// Which part of a client's authentication was refused. That ends the client for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AuthFailure {
    /// The server refused a credential of this scheme: it does not know the scheme, or the secret
    /// is not valid. Servers never refuse a `digest`: anyone who knows the password is that user.
    #[error("the server refused a credential of the scheme {0}")]
    Credential(Scheme),
    /// The server does not accept the SASL user, or the password or ticket of that user.
    #[error("the server refused the user of SASL, or the user's password or ticket")]
    SaslUser,
    /// The server has no SASL. It would accept the client without any identity.
    #[error("the server has no SASL")]
    SaslUnsupported,
    /// The server did not authenticate itself to the client, so it is not the expected server.
    #[error("the server did not authenticate itself by SASL, so it may be another server")]
    SaslServer,
}

/// The name of a scheme in an error, cut off after 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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
