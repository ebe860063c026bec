//! Authentication: the proofs that a client sends to a server.
//!
//! A credential is sent in one request; SASL is an exchange of several tokens, and DIGEST-MD5 is
//! one of its mechanisms. These files compute the bytes that are sent. They know nothing of
//! connections, sessions or errors.

pub(crate) mod credentials;

#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod digest_md5;
pub(crate) mod sasl;
