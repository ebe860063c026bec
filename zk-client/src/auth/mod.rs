//! Proofs of identity: what a client shows a server to be let in.
//!
//! Credentials are sent as they are; SASL is a conversation, of which DIGEST-MD5 is one kind. These
//! files compute what is said. They know nothing of connections, sessions or errors.

pub(crate) mod credentials;

#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod digest_md5;
pub(crate) mod sasl;
