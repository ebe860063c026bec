//! How the examples of this book run: on a server in this process, in virtual time.
//!
//! An example is a closure that gets a server with an empty tree. Time stands still while anything
//! is to be done, and jumps ahead when everybody waits. So an example in which a minute passes
//! takes a millisecond, and it is the same each time.

use std::error::Error;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Builder;
use zk_client::Client;
use zk_embedded::{Config, Ensemble, Server};

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
/// A client of today creates nodes by another operation than this, so the fault never happens and
/// the example shows nothing:
///
/// ```should_panic
/// # use zk_book::scene::{connect, play};
/// # use zk_client::CreateOptions;
/// use zk_embedded::{Fault, OpCode};
///
/// play(async |server| {
///     server.inject(Fault::lose_reply().op(OpCode::CREATE));
///     let ana = connect(server).await?;
///     ana.create("/greeting", b"hello", &CreateOptions::persistent()).await?;
///     Ok(())
/// });
/// ```
///
/// # Panics
///
/// If the example fails, so that the test fails that the example is; also if a fault that it has
/// injected has not happened, since it shows nothing then.
pub fn play(example: impl AsyncFnOnce(&Server) -> Outcome) {
    run(async {
        let server = Server::in_memory(Config::new());
        example(&server).await?;
        match server.pending_faults() {
            0 => Ok(()),
            unfired => Err(format!("{unfired} of its faults did not happen").into()),
        }
    });
}

/// Runs an example on an ensemble of three servers, of which the first one leads.
///
/// # Panics
///
/// If the example fails.
pub fn play_ensemble(example: impl AsyncFnOnce(&Ensemble) -> Outcome) {
    run(async { example(&Ensemble::in_memory(Config::new(), 3)).await });
}

/// Runs an example in virtual time.
#[expect(clippy::panic, reason = "an example that fails is a test that fails")]
fn run(example: impl Future<Output = Outcome>) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let played = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(example));
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

/// Opens a session at one of the servers of an ensemble.
///
/// # Errors
///
/// If that server does not let anybody in.
pub async fn connect_at(ensemble: &Ensemble, server: usize) -> Result<Client, zk_client::Error> {
    let builder = Client::builder().connector(ensemble.connector());
    builder.connect(ensemble.address(server)).await
}

/// A connection on which an example sends and receives bytes by itself, written as hexadecimal
/// digits.
#[derive(Debug)]
pub struct Wire(DuplexStream);

impl Wire {
    /// A connection on which nothing was sent yet.
    pub fn connect(server: &Server) -> Self {
        Self(server.connect())
    }

    /// Sends the parts of a frame, with their length in front.
    ///
    /// # Errors
    ///
    /// If a part is not made of hexadecimal digits, or the server has closed the connection.
    pub async fn send(&mut self, parts: &[&str]) -> Outcome {
        let digits = parts.concat();
        let digits = digits.as_bytes().chunks(2).map(std::str::from_utf8);
        let mut payload = Vec::new();
        for pair in digits {
            payload.push(u8::from_str_radix(pair?, 16)?);
        }
        self.0.write_all(&u32::try_from(payload.len())?.to_be_bytes()).await?;
        Ok(self.0.write_all(&payload).await?)
    }

    /// Receives one frame, without its length.
    ///
    /// # Errors
    ///
    /// If the server has closed the connection.
    pub async fn receive(&mut self) -> Result<String, Box<dyn Error>> {
        let mut payload = vec![0; usize::try_from(self.0.read_u32().await?)?];
        self.0.read_exact(&mut payload).await?;
        Ok(payload.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
