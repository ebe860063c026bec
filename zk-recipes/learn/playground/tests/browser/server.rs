//! A playground that serves its page while a test runs.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use zk_playground::serve::Playground;

/// A server on a free port. It ends when it is dropped.
pub(crate) struct Server {
    playground: Arc<Playground>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Starts a server.
    pub(crate) fn start() -> Self {
        let playground = Arc::new(Playground::bind().unwrap());
        let running = Arc::clone(&playground);
        let thread = Some(thread::spawn(move || running.run()));
        Self { playground, thread }
    }

    /// Where the page is.
    pub(crate) fn address(&self) -> String {
        self.playground.url()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.playground.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}
