//! SASL: how a client and a server convince each other, token by token.
//!
//! A mechanism is a state machine over tokens, and the session carries them. Without the cargo
//! feature of one there is none, and nothing of this is in the way.

use crate::auth::{Broken, Step};
#[cfg(feature = "sasl-digest-md5")]
use crate::digest_md5::DigestMd5;

/// What a client proves itself with on every connection, before anything else.
#[derive(Clone, Debug)]
pub struct Sasl(Mechanism);

#[derive(Clone, Debug)]
enum Mechanism {
    #[cfg(feature = "sasl-digest-md5")]
    DigestMd5(DigestMd5),
}

impl Sasl {
    /// DIGEST-MD5 of RFC 2831, as servers that name users in a JAAS configuration ask for.
    ///
    /// `seed` is random: of it are made the numbers that keep a server from choosing what is
    /// hashed with the password.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn digest_md5(user: &str, password: &str, seed: u128) -> Self {
        Self(Mechanism::DigestMd5(DigestMd5::new(user, password, seed)))
    }

    /// A new exchange: the first token.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        match self.0 {
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5(ref mut digest) => digest.begin(),
        }
    }

    /// The server's next token.
    #[cfg_attr(
        not(feature = "sasl-digest-md5"),
        expect(unused_variables, reason = "nobody reads it")
    )]
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Step, Broken> {
        match self.0 {
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5(ref mut digest) => digest.step(token),
        }
    }
}
