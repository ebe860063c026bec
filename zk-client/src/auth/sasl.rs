//! SASL: client and server authenticate each other, token by token.
//!
//! A mechanism starts one exchange for each connection, and an exchange is a state machine over
//! tokens, which the session carries. Only the start may block, so the session needs no I/O. This
//! file knows no mechanism that servers know.

use std::fmt;
use std::sync::Arc;

/// A mechanism of SASL, which authenticates every connection ahead of everything else.
///
/// Give it to [`ClientBuilder::sasl`](crate::ClientBuilder::sasl). ZooKeeper has no negotiation of
/// mechanisms: the servers' configuration decides which one they expect. `Gssapi` (feature
/// `sasl-gssapi`) and DIGEST-MD5 (feature `sasl-digest-md5`, with a method of the builder of its
/// own) are the mechanisms of ZooKeeper's own servers; a plug-in of the servers may need another:
///
/// ```
/// use zk_client::{Client, SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep};
///
/// /// Sends a token, which the server answers with an empty one.
/// struct Bearer(String);
///
/// impl SaslMechanism for Bearer {
///     fn name(&self) -> &str {
///         "BEARER"
///     }
///
///     fn start(&self, _host: &str) -> Result<SaslStart, SaslError> {
///         Ok(SaslStart::new(self.0.clone().into_bytes(), Sent))
///     }
///
///     fn may_block(&self) -> bool {
///         false
///     }
/// }
///
/// struct Sent;
///
/// impl SaslExchange for Sent {
///     fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError> {
///         match challenge {
///             [] => Ok(SaslStep::Done),
///             _ => Err(SaslError::Malformed("a challenge, although none was due")),
///         }
///     }
/// }
///
/// let builder = Client::builder().sasl(Bearer("secret".to_owned()));
/// # drop(builder);
/// ```
pub trait SaslMechanism: Send + Sync + 'static {
    /// The registered name, as in `GSSAPI`. Traces and errors show it.
    fn name(&self) -> &str;

    /// Starts an exchange with the server at `host`, and returns the client's first token.
    ///
    /// `host` is the server's name or address in the connect string, without the port. This is
    /// called once for every connection, after it was made and before the handshake.
    ///
    /// # Errors
    ///
    /// Any error drops the connection. See [`SaslError`] for what the client does next.
    fn start(&self, host: &str) -> Result<SaslStart, SaslError>;

    /// Returns whether [`start`](Self::start) may block its thread. Default: yes.
    ///
    /// If it may, the client calls it on one of tokio's threads for blocking work, and not more
    /// than once at a time. The attempt to connect does not wait longer than its own timeout.
    fn may_block(&self) -> bool {
        true
    }
}

/// One exchange of tokens with a server. It must not block.
pub trait SaslExchange: Send {
    /// Handles the server's next token, and returns the client's next step.
    fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError>;
}

/// The start of an exchange: the client's first token, and what handles the server's tokens.
pub struct SaslStart {
    pub(crate) token: Vec<u8>,
    pub(crate) exchange: Box<dyn SaslExchange>,
}

impl SaslStart {
    /// Starts with this token. It is empty if the server sends the first challenge.
    pub fn new(token: Vec<u8>, exchange: impl SaslExchange + 'static) -> Self {
        Self { token, exchange: Box::new(exchange) }
    }
}

impl fmt::Debug for SaslStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaslStart(..)")
    }
}

/// The client's next step after a token of the server.
#[derive(PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslStep {
    /// Send this token. The server has to answer with another one.
    Answer(Vec<u8>),
    /// Send this token. It is the last one: the server accepts or refuses it, with no token.
    Last(Vec<u8>),
    /// Both sides have authenticated, and nothing more is sent.
    Done,
}

/// Shows no token.
impl fmt::Debug for SaslStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer(_) => "Answer(..)",
            Self::Last(_) => "Last(..)",
            Self::Done => "Done",
        })
    }
}

/// Why an exchange cannot go on. Its text must not contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// The client has no valid credential, for instance because a ticket has expired.
    ///
    /// [`connect`](crate::ClientBuilder::connect) fails with
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) once the start of an exchange failed so at
    /// every server. A client that was connected before goes on trying until its session has
    /// expired: the credential may be renewed meanwhile. In the middle of an exchange it only ends
    /// the connection, and the client tries again.
    #[error("{0}")]
    Credential(String),
    /// The exchange cannot take place now. The client tries again.
    #[error("{0}")]
    Unavailable(String),
    /// The server did not authenticate itself. In the middle of an exchange, this ends the client
    /// for good.
    #[error("the server did not authenticate itself")]
    Server,
    /// The server's token makes no sense, with the reason. The client tries again.
    #[error("{0}")]
    Malformed(&'static str),
}

/// A handle to the [`SaslMechanism`] of a session. Clones share the mechanism.
#[derive(Clone)]
pub struct Sasl(Arc<dyn SaslMechanism>);

impl Sasl {
    /// Makes a handle to this mechanism.
    pub fn new(mechanism: impl SaslMechanism) -> Self {
        Self(Arc::new(mechanism))
    }

    /// The mechanism.
    pub fn mechanism(&self) -> &dyn SaslMechanism {
        &*self.0
    }

    /// A mechanism that obeys the first byte of the server's tokens: for the fuzz target, whose
    /// server knows no mechanism.
    #[cfg(feature = "__fuzz")]
    pub(crate) fn scripted() -> Self {
        Self::new(Scripted)
    }
}

/// Shows the name of the mechanism alone.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sasl").field(&self.0.name()).finish()
    }
}

#[cfg(feature = "__fuzz")]
struct Scripted;

#[cfg(feature = "__fuzz")]
impl SaslMechanism for Scripted {
    fn name(&self) -> &str {
        "SCRIPTED"
    }

    fn start(&self, _host: &str) -> Result<SaslStart, SaslError> {
        Ok(SaslStart::new(Vec::new(), Self))
    }

    fn may_block(&self) -> bool {
        false
    }
}

#[cfg(feature = "__fuzz")]
impl SaslExchange for Scripted {
    fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError> {
        match challenge.first() {
            Some(0) => Ok(SaslStep::Answer(challenge.to_owned())),
            Some(1) => Err(SaslError::Server),
            Some(2) => Err(SaslError::Malformed("as the script says")),
            Some(3) => Ok(SaslStep::Last(challenge.to_owned())),
            Some(4) => Err(SaslError::Unavailable("as the script says".to_owned())),
            _ => Ok(SaslStep::Done),
        }
    }
}
