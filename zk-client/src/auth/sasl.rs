//! SASL: client and server authenticate each other, token by token.
//!
//! A mechanism is a state machine over tokens, and the session carries the tokens. Without the
//! cargo feature of a mechanism there is none that servers know, and this code does nothing.

use crate::auth::credentials::{Broken, Refusal, Step};
#[cfg(feature = "sasl-digest-md5")]
use crate::auth::digest_md5::DigestMd5;

/// A client's SASL mechanism, which authenticates every connection before anything else.
#[derive(Clone, Debug)]
pub struct Sasl(Mechanism);

#[derive(Clone, Debug)]
enum Mechanism {
    #[cfg(feature = "sasl-digest-md5")]
    DigestMd5(DigestMd5),
    #[cfg_attr(not(feature = "__fuzz"), expect(dead_code, reason = "only fuzzers make it"))]
    Scripted,
}

impl Sasl {
    /// DIGEST-MD5 of RFC 2831, for servers that name users in a JAAS configuration.
    ///
    /// `seed` must be random: the client nonces are made from it. They keep a server from choosing
    /// everything that is hashed with the password.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn digest_md5(user: &str, password: &str, seed: u128) -> Self {
        Self(Mechanism::DigestMd5(DigestMd5::new(user, password, seed)))
    }

    /// A mechanism that obeys the first byte of the server's tokens: for the fuzz target, whose
    /// server knows no mechanism.
    #[cfg(feature = "__fuzz")]
    pub(crate) fn scripted() -> Self {
        Self(Mechanism::Scripted)
    }

    /// Begins a new exchange, and returns the first token.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        match self.0 {
            Mechanism::Scripted => Vec::new(),
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5(ref mut digest) => digest.begin(),
        }
    }

    /// Handles the server's next token.
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Step, Broken> {
        match self.0 {
            Mechanism::Scripted => match token.first() {
                Some(0) => Ok(Step::Answer(token.to_owned())),
                Some(1) => Err(Broken::Refused(Refusal::SaslServer)),
                Some(2) => Err(Broken::Nonsense("as the script says")),
                _ => Ok(Step::Done),
            },
            #[cfg(feature = "sasl-digest-md5")]
            Mechanism::DigestMd5(ref mut digest) => digest.step(token),
        }
    }
}
