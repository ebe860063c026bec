//! Authentication: the credentials that a client sends to the servers.

use zk_proto::OpCode;

use crate::auth::credentials::Credential;
use crate::error::Error;
use crate::handles::client::{Client, Reply};

impl Client {
    /// Authenticates this session to the server, now and first of all on every later connection.
    ///
    /// Later calls, on any clone, have the permissions of that identity, until the session ends.
    ///
    /// With the scheme `digest`, `auth` is `user:password` in clear text: use it over TLS only. No
    /// server refuses a digest, because the password alone makes the user; a wrong password shows
    /// when an access list refuses a request (`NoAuth`). The `super` user, who is refused nothing,
    /// is a digest in the servers' configuration
    /// (`zookeeper.DigestAuthenticationProvider.superDigest`). Other schemes are those of the
    /// servers' own plug-ins.
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
    /// The reply may overtake those of earlier requests, and the server may carry out earlier
    /// requests without the identity.
    ///
    /// # Errors
    ///
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if the server refuses, as it does with a scheme
    /// that it does not know. The client is over then: all calls that wait and all later ones fail
    /// with that error. The ensemble keeps the session, with its ephemeral nodes, until the session
    /// timeout has passed. [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if no more
    /// credentials can be remembered.
    ///
    /// Never `ConnectionLoss`: the client sends the credential again on the next connection, and
    /// the call waits for that reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the reply does not take the identity back.
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Reply<()> {
        self.send_auth(Credential::new(scheme, auth)).unwrap_or_else(Reply::rejected)
    }

    pub(crate) fn send_auth(&self, credential: Credential) -> Result<Reply<()>, Error> {
        let op = OpCode::AUTH;
        let scheme = credential.scheme().to_owned();
        let added =
            self.shared().submit(&scheme, |core, responder| core.add_auth(credential, responder));
        let ((), receiver) = added.map_err(|rejected| Error::rejected(op, &scheme, rejected))?;
        Ok(Reply::waiting(self.call(op, receiver), |call, completion| {
            call.to_result(completion).map(|_| ())
        }))
    }
}
