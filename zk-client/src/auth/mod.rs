//! Authentication: the credentials that a client sends to a server.
//!
//! A credential is sent in one request; SASL is an exchange of several tokens, and its mechanisms
//! have a file each. These files compute the bytes that are sent. They know nothing of connections
//! or sessions.

pub(crate) mod credentials;
pub(crate) mod failure;
pub(crate) mod sasl;

#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod digest_md5;
#[cfg(feature = "sasl-gssapi")]
pub(crate) mod gssapi;
