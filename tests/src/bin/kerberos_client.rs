//! A client that authenticates by Kerberos: a process, since the library reads variables.
//!
//! `kerberos_client servers=HOST:PORT [principal=P] [server=P] [service=S] [timeout=MS]` connects,
//! and prints `connected: IDS` or `failed: KIND: TEXT`. Then it obeys lines on its standard input:
//! `create PATH` makes a node for its own user alone, and `read PATH` reads a node, across lost
//! connections. It prints `ok` or the error of each.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use zk_client::{Acl, Client, CreateOptions, Error, Gssapi, Perms};
use zk_test_support::server::ServerConfig;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (mut servers, mut mechanism) = (String::new(), Gssapi::new());
    let mut builder = Client::builder().session_timeout(ServerConfig::LASTING);
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').context("name=value")?;
        match name {
            "servers" => servers = value.to_owned(),
            "principal" => mechanism = mechanism.client_principal(value),
            "server" => mechanism = mechanism.server_principal(value),
            "service" => mechanism = mechanism.service_name(value),
            "timeout" => builder = builder.connect_timeout(Duration::from_millis(value.parse()?)),
            other => bail!("unknown: {other}"),
        }
    }
    let client = match builder.sasl(mechanism).connect(&servers).await {
        Ok(client) => client,
        Err(error) => {
            println!("failed: {:?}: {error}", error.kind());
            return Ok(());
        }
    };
    let ids = client.who_am_i().await?;
    let own = ids.iter().find(|id| id.scheme == "sasl").cloned();
    let ids = ids.iter().map(|id| format!("{}:{}", id.scheme, id.id)).collect::<Vec<_>>();
    println!("connected: {}", ids.join(" "));

    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let (order, path) = line.split_once(' ').context("an order and a path")?;
        let done = match order {
            "create" => {
                let acl = [Acl::new(Perms::ALL, own.clone().context("no SASL user")?)];
                let options = CreateOptions::persistent().with_acl(&acl);
                client.create(path, b"his", &options).await.map(drop)
            }
            "read" => read(&client, path).await,
            other => bail!("unknown: {other}"),
        };
        match done {
            Ok(()) => println!("ok"),
            Err(error) => println!("error: {error}"),
        }
    }
    client.close().await;
    Ok(())
}

/// Reads a node on the next connection that works.
async fn read(client: &Client, path: &str) -> Result<(), Error> {
    loop {
        match client.get_data(path).await {
            Err(error) if error.is_connection_loss() => {}
            read => return read.map(drop),
        }
    }
}
