//! The credentials of a session, which every connection begins with.
//!
//! A server keeps identities per connection and not per session, so each credential is proven anew
//! on each connection. A caller that waits for one to be accepted waits across connections. Knows
//! no frames.

use crate::auth::credentials::Credential;
use crate::error::Limit;

/// One of the remembered credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthId(usize);

/// The remembered credentials, in the order of the calls.
#[derive(Debug)]
pub(crate) struct Auths<T>(Vec<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    credential: Credential,
    /// The tokens that wait for the next connection.
    waiting: Vec<T>,
}

impl<T> Auths<T> {
    pub(crate) const MAX: usize = 100;

    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Remembers a credential, if it is new. All of them fit into one request of `max_request`
    /// bytes, so that no reconnect sends more than that.
    pub(crate) fn remember(
        &mut self,
        credential: Credential,
        max_request: usize,
    ) -> Result<AuthId, Limit> {
        let known = self.0.iter().position(|known| known.credential == credential);
        if let Some(index) = known {
            return Ok(AuthId(index));
        }
        let others = self.0.iter().map(|known| known.credential.size()).sum::<usize>();
        if self.0.len() == Self::MAX || others + credential.size() > max_request {
            return Err(Limit::Credentials(self.0.len()));
        }
        self.0.push(Known { credential, waiting: Vec::new() });
        Ok(AuthId(self.0.len() - 1))
    }

    pub(crate) fn get(&self, id: AuthId) -> Option<&Credential> {
        self.0.get(id.0).map(|known| &known.credential)
    }

    /// Lets `tokens` wait for the next connection.
    pub(crate) fn wait(&mut self, id: AuthId, tokens: impl IntoIterator<Item = T>) {
        if let Some(known) = self.0.get_mut(id.0) {
            known.waiting.extend(tokens);
        }
    }

    /// True if a caller waits for the next connection.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.iter().any(|known| !known.waiting.is_empty())
    }

    /// The credentials that a new connection is to prove, each with the tokens that wait for it.
    pub(crate) fn replay(&mut self) -> Vec<(AuthId, Vec<T>)> {
        let taken = |known: &mut Known<T>| std::mem::take(&mut known.waiting);
        self.0.iter_mut().map(taken).enumerate().map(|(id, tokens)| (AuthId(id), tokens)).collect()
    }

    /// The session is over: drops the credentials, and gives back the tokens that wait.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_iter().flat_map(|known| known.waiting)
    }
}
