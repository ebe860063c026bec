//! Who a client is to the servers, and what that lets it do.

use zk_proto::OpCode;

use crate::auth::credentials::Credential;
use crate::client::handle::Client;
use crate::error::Error;
use crate::handles::reply::Reply;

impl Client {
    /// Proves an identity to the server, now and on every later connection ahead of all else, until
    /// the session ends. What is called afterwards, on any clone, may do what that identity may.
    ///
    /// With the scheme `digest`, `auth` is `user:password` in the clear: use it over TLS alone. No
    /// server refuses it, since whoever knows the password *is* that user; a wrong password shows
    /// when an access list refuses (`NoAuth`). The `super` user, whom nothing is refused, is a
    /// digest that the servers were told of (`zookeeper.DigestAuthenticationProvider.superDigest`).
    /// Other schemes are those of the servers' own plug-ins.
    ///
    /// Identical credentials are remembered once. A session remembers at most 100 of them, together
    /// no larger than [`Limits::max_request`](crate::Limits::max_request).
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// client.add_auth("digest", b"ann:secret").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Ordering
    ///
    /// The answer may overtake those of earlier requests, and requests called before it may be
    /// carried out without the identity.
    ///
    /// # Errors
    ///
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if the server refuses, as it does with a scheme
    /// that it does not know. Then the client is over: every call that waits and every later one
    /// fails like that. The session itself goes on at the ensemble, with its ephemeral nodes, until
    /// its timeout has passed. [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if no more can be
    /// remembered.
    ///
    /// Never `ConnectionLoss`: it is sent again on the next connection, and waits for that answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the reply does not take the identity back.
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Reply<()> {
        self.authenticate(Credential::new(scheme, auth)).unwrap_or_else(Reply::failed)
    }

    pub(crate) fn authenticate(&self, credential: Credential) -> Result<Reply<()>, Error> {
        let op = OpCode::AUTH;
        let scheme = credential.scheme().to_owned();
        let added =
            self.shared().submit(&scheme, |core, responder| core.add_auth(credential, responder));
        let ((), answer) = added.map_err(|rejected| Error::rejected(op, &scheme, rejected))?;
        Ok(Reply::waiting(self.call(op, answer), |call, completion| {
            call.answer(completion).map(|_| ())
        }))
    }
}
