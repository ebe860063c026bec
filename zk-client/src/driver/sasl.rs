//! Starts the SASL exchange of each connection, on a thread where it may block.
//!
//! A thread that blocks cannot be stopped: an attempt that has run out of time leaves it behind,
//! and the next attempt waits for it, so that a client never blocks two. Knows no session.

use tokio::task::{JoinHandle, spawn_blocking};

use crate::auth::sasl::{Sasl, SaslError, SaslStart};
use crate::config::Host;

/// The mechanism of one client.
pub(crate) struct SaslStarter {
    sasl: Sasl,
    /// The start that runs on a thread.
    running: Option<JoinHandle<Result<SaslStart, SaslError>>>,
}

impl SaslStarter {
    pub(crate) fn new(sasl: Sasl) -> Self {
        Self { sasl, running: None }
    }

    /// The name of the mechanism.
    pub(crate) fn name(&self) -> &str {
        self.sasl.mechanism().name()
    }

    /// Starts an exchange with this server, within a tokio runtime. The future can be dropped at
    /// any time.
    pub(crate) async fn start(&mut self, host: &Host) -> Result<SaslStart, SaslError> {
        if !self.sasl.mechanism().may_block() {
            return self.sasl.mechanism().start(&host.name);
        }
        if let Some(left) = &mut self.running {
            // Its result is that of an earlier attempt, perhaps at another server.
            left.await.ok();
            self.running = None;
        }
        let (sasl, name) = (self.sasl.clone(), host.name.clone());
        let starting = spawn_blocking(move || sasl.mechanism().start(&name));
        let started = self.running.insert(starting).await;
        self.running = None;
        started.unwrap_or_else(|error| Err(SaslError::Unavailable(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, mpsc};

    use tokio::sync::mpsc as events;

    use super::*;
    use crate::auth::sasl::SaslMechanism;

    /// Reports each start, and blocks until it may fail.
    struct Blocking {
        begun: events::UnboundedSender<String>,
        may_end: Mutex<mpsc::Receiver<()>>,
        at_once: Arc<AtomicU32>,
    }

    impl SaslMechanism for Blocking {
        fn name(&self) -> &str {
            "BLOCKING"
        }

        fn start(&self, host: &str) -> Result<SaslStart, SaslError> {
            assert_eq!(self.at_once.fetch_add(1, Ordering::SeqCst), 0, "two block");
            self.begun.send(host.to_owned()).unwrap();
            self.may_end.lock().unwrap().recv().unwrap();
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            Err(SaslError::Unavailable(host.to_owned()))
        }
    }

    fn host(name: &str) -> Host {
        Host { name: name.to_owned(), port: 2181 }
    }

    #[tokio::test]
    async fn a_start_that_blocks_keeps_the_runtime_free_and_the_next_start_waiting() {
        let (begun, mut begins) = events::unbounded_channel();
        let (end, may_end) = mpsc::channel();
        let at_once = Arc::default();
        let mechanism = Blocking { begun, may_end: Mutex::new(may_end), at_once };
        let mut starter = SaslStarter::new(Sasl::new(mechanism));
        let (first, second) = (host("first"), host("second"));
        // This runtime has one thread, which is free to receive the report.
        tokio::select! {
            _ = starter.start(&first) => panic!("it may not end yet"),
            begun = begins.recv() => assert_eq!(begun.as_deref(), Some("first")),
        }
        // The attempt was given up, and its thread is still there.
        let mut again = pin!(starter.start(&second));
        tokio::select! {
            biased;
            _ = again.as_mut() => panic!("it may not end yet"),
            () = tokio::task::yield_now() => {}
        }
        assert!(begins.try_recv().is_err(), "the second start waits for the first");
        end.send(()).unwrap();
        end.send(()).unwrap();
        let error = again.await.unwrap_err();
        assert_eq!(error, SaslError::Unavailable("second".to_owned()));
        assert_eq!(begins.recv().await.as_deref(), Some("second"));
    }

    #[tokio::test]
    async fn a_mechanism_that_panics_is_an_error() {
        struct Panics;
        impl SaslMechanism for Panics {
            fn name(&self) -> &str {
                "PANICS"
            }
            fn start(&self, _host: &str) -> Result<SaslStart, SaslError> {
                panic!("as the test says");
            }
        }
        let mut starter = SaslStarter::new(Sasl::new(Panics));
        let started = starter.start(&host("zk1")).await;
        assert!(matches!(started, Err(SaslError::Unavailable(_))), "{started:?}");
    }
}
