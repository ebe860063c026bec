//! The wait of a new client for its first server.
//!
//! A wrong address, chroot or credential is an error of the call that connects, so that call waits
//! until each of them has proved right. This file runs no driver.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::driver::shared_session::SharedSession;
use crate::error::{Cause, Error};
use crate::handles::client::{Client, Reply};

/// The first connection of a client, and what must be checked on it.
pub(crate) struct FirstConnection {
    pub(crate) client: Client,
    pub(crate) shared: Arc<SharedSession>,
    pub(crate) chroot: Option<String>,
    pub(crate) auth_replies: Vec<Reply<()>>,
}

impl FirstConnection {
    /// Waits at most `timeout` until a server has accepted the session and the credentials.
    /// `on_error` handles an error that occurs before.
    pub(crate) async fn with_timeout(
        self,
        timeout: Duration,
        on_error: impl AsyncFnOnce(Error) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { client, shared, chroot, auth_replies } = self;
        let waiting = async {
            match unless_refused(
                &shared,
                wait_first_connection(&client, &shared, auth_replies, chroot),
            )
            .await
            {
                Err(error) => on_error(error).await,
                Ok(()) => Ok(()),
            }
        };
        match tokio::time::timeout(timeout, waiting).await {
            Ok(result) => result,
            Err(_) => {
                let (timeout, attempts) = (Some(timeout), shared.attempts());
                Err(Cause::NoServer { timeout, attempts }.into())
            }
        }
    }
}

/// Waits until a server has accepted the session and the credentials, and checks that the chroot
/// exists.
async fn wait_first_connection(
    client: &Client,
    shared: &SharedSession,
    auth_replies: Vec<Reply<()>>,
    chroot: Option<String>,
) -> Result<(), Error> {
    for reply in auth_replies {
        reply.await?;
    }
    loop {
        let mut states = shared.states();
        // This cannot fail: the sender is in the shared session, which we hold.
        drop(states.wait_for(|state| state.is_connected() || state.ended().is_some()).await);
        if let Some(ended) = shared.state().ended() {
            return Err(ended.into());
        }
        let Some(chroot) = &chroot else {
            return Ok(());
        };
        match client.exists("/").await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => return Err(Cause::ChrootNotFound { chroot: chroot.clone() }.into()),
            Err(error) if error.is_connection_loss() => {}
            // Without the permission to read the chroot, it may well exist.
            Err(error) if error.code().is_some() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Fails when every server has refused for good.
async fn unless_refused(
    shared: &SharedSession,
    waiting: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let (mut waiting, mut refused) = (pin!(waiting), pin!(shared.refused_by_all()));
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Pending => refused
            .as_mut()
            .poll(cx)
            .map(|attempts| Err(Cause::NoServer { timeout: None, attempts }.into())),
        ready => ready,
    })
    .await
}
