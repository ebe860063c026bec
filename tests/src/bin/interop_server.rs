//! A server for a foreign test suite that starts and stops its servers itself.
//!
//! `interop_server real|embedded|embedded-3.8` prints its address. Then it reads commands line by
//! line, `stop` and `run`, and answers each with `done`. Its data survives a stop. The program ends
//! when its input ends.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use zk_embedded::{Config, Server, ServerVersion};
use zk_tests::server::{ServerConfig, Standalone};

/// The tick of the sample `zoo.cfg`, from which the limits of session timeouts follow.
const TICK: Duration = Duration::from_secs(2);

/// The digest of `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

enum Kind {
    Real(Standalone),
    Embedded(Server),
}

impl Kind {
    async fn start(name: &str) -> Result<Self> {
        let embedded =
            Config::new().tick_time(TICK).max_connections_per_host(0).super_digest(SUPER_DIGEST);
        Ok(match name {
            "real" => {
                let digest = "zookeeper.DigestAuthenticationProvider.superDigest";
                let config = ServerConfig {
                    tick_time: TICK,
                    properties: vec![(digest.to_owned(), SUPER_DIGEST.to_owned())],
                    ..ServerConfig::default()
                };
                Self::Real(Standalone::with(&config).await?)
            }
            "embedded" => Self::Embedded(Server::with(embedded).await?),
            "embedded-3.8" => {
                Self::Embedded(Server::with(embedded.server_version(ServerVersion::V3_8)).await?)
            }
            _ => bail!("no such server: {name}"),
        })
    }

    fn address(&self) -> String {
        match self {
            Self::Real(server) => server.address(),
            Self::Embedded(server) => server.address().to_owned(),
        }
    }

    async fn obey(&mut self, order: &str) -> Result<()> {
        match (self, order) {
            (Self::Real(server), "stop") => server.kill().await,
            (Self::Real(server), "run") => server.restart().await?,
            (Self::Embedded(server), "stop") => server.set_serving(false),
            (Self::Embedded(server), "run") => server.set_serving(true),
            _ => bail!("no such order: {order}"),
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let name = env::args().nth(1).context("which server?")?;
    let mut server = Kind::start(&name).await?;
    println!("{}", server.address());
    let mut orders = BufReader::new(stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        server.obey(&order).await?;
        println!("done");
    }
    Ok(())
}
