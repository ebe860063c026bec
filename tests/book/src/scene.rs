//! How the examples of this book run: on a server in this process, in virtual time.
//!
//! An example is a closure that gets a server with an empty tree. Time stands still while anything
//! is to be done, and jumps ahead when everybody waits. So an example in which a minute passes
//! takes a millisecond, and it is the same each time.

use std::error::Error;

use tokio::runtime::Builder;
use zk_client::Client;
use zk_embedded::{Config, Server};

/// What an example returns: `Ok`, or whatever went wrong.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Runs an example to its end.
///
/// ```
/// use zk_book::scene::{connect, play};
/// use zk_client::CreateOptions;
///
/// play(async |server| {
///     let ana = connect(&server).await?;
///     ana.create("/greeting", b"hello", &CreateOptions::persistent()).await?;
///     assert!(server.has_node("/greeting"));
///     Ok(())
/// });
/// ```
///
/// # Panics
///
/// If the example fails, so that the test fails that the example is.
#[expect(clippy::panic, reason = "an example that fails is a test that fails")]
pub fn play(example: impl AsyncFnOnce(Server) -> Outcome) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let played = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async { example(Server::in_memory(Config::new())).await })
    });
    if let Err(error) = played {
        panic!("the example failed: {error}");
    }
}

/// Opens a session, which is one program of an example.
///
/// The sessions of this book end after ten seconds of silence.
///
/// # Errors
///
/// If the server does not let anybody in.
pub async fn connect(server: &Server) -> Result<Client, zk_client::Error> {
    Client::builder().connector(server.connector()).connect("memory").await
}
