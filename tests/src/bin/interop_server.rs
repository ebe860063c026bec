//! A real server for a foreign test suite that starts and stops its servers itself.
//!
//! It speaks as the program `zk-embedded --stdin` does, so that one harness can use both. It prints
//! `listening on ADDRESS` and `tls on ADDRESS`. Then it reads commands line by line, `stop` and
//! `start`, and answers each with `ok`. Its data survives a stop. The program ends when its input
//! ends.
//!
//! The argument is a folder with the certificates: see `client_suites` of the interop tests.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use zk_test_support::server::{ServerConfig, ServerTls, Standalone};
use zk_test_support::tls::Certified;

/// The tick of the sample `zoo.cfg`, from which the limits of session timeouts follow.
const TICK: Duration = Duration::from_secs(2);

/// The digest of `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = env::args().nth(1).context("which certificates?")?;
    let read = |name| fs::read_to_string(Path::new(&folder).join(name));
    let shown = Certified { certificate: read("cert")?, key: read("key")? };
    let digest = "zookeeper.DigestAuthenticationProvider.superDigest";
    let config = ServerConfig {
        tick_time: TICK,
        tls: Some(ServerTls { shown, clients: Some(read("ca")?) }),
        properties: vec![(digest.to_owned(), SUPER_DIGEST.to_owned())],
        ..ServerConfig::default()
    };
    let mut server = Standalone::with(&config).await?;
    println!("listening on {}", server.address());
    println!("tls on {}", server.secure_address());
    let mut commands = BufReader::new(stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        match &*command {
            "stop" => server.kill().await,
            "start" => server.restart().await?,
            _ => bail!("no such command: {command}"),
        }
        println!("ok");
    }
    Ok(())
}
