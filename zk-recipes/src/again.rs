//! Asks again once in a while: a permission that is taken away makes a watch silent.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep};
use zk_client::Client;

/// Fires when nothing has happened for one session timeout.
#[derive(Debug, Default)]
pub(crate) struct Again(Option<Pin<Box<Sleep>>>);

impl Again {
    pub(crate) fn poll(&mut self, client: &Client, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = || Box::pin(sleep(client.session_timeout()));
        let sleep = self.0.get_or_insert_with(timeout);
        let fired = sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.0 = None;
        }
        fired
    }
}
