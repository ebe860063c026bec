//! Credentials of a client: a scheme and a secret.
//!
//! Only the request that carries a credential sees its secret half: no `Debug`, trace or error
//! shows it. This file knows no session.

use std::fmt;
use std::hint;

/// An authentication scheme and its secret, as in `digest` and `user:password`.
///
/// The client keeps it as long as the session lasts, and overwrites it in memory when it is
/// dropped. The bytes that went to the socket are not overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    scheme: String,
    secret: Secret,
}

impl Credential {
    /// Makes a credential from a secret in the form that the scheme requires.
    pub fn new(scheme: &str, secret: &[u8]) -> Self {
        Self { scheme: scheme.to_owned(), secret: Secret::new(secret) }
    }

    /// The name of the authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(crate) fn secret(&self) -> &[u8] {
        self.secret.expose()
    }

    /// An upper bound of the bytes that the request with this credential takes of a frame.
    pub(crate) fn size(&self) -> usize {
        const HEADER_AND_LENGTHS: usize = 32;
        HEADER_AND_LENGTHS + self.scheme.len() + self.secret().len()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_shows_its_scheme_alone() {
        let shown = format!("{:?}", Credential::new("digest", b"ann:secret"));
        assert_eq!(shown, r#"Credential { scheme: "digest", secret: .. }"#);
    }
}
