//! The one folder below which everything happens: it is made before the claims, and deleted behind
//! them with whatever is in it.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::client::Client;
use super::request::{Request, Words};
use super::run::IDENTITIES;

/// A client that may do all that the claims may.
async fn keeper(address: &str, patience: Duration) -> Result<Client> {
    let mut client = Client::new("keeper", address, patience);
    let welcome = client.connect(&Words::new("", ""), None).await?;
    ensure!(welcome.starts_with("ok "), "the server lets nobody in: {welcome}");
    Ok(client)
}

async fn ask(client: &mut Client, requests: &[String]) -> Result<Vec<String>> {
    // One segment after another, so that neither side waits for the other to read.
    let mut replies = Vec::new();
    for requests in requests.chunks(100) {
        for request in requests {
            let (name, rest) = request.split_once(' ').unwrap_or((request, ""));
            client.send(&Request::parse(name, rest, "")?).await?;
        }
        for _ in requests {
            replies.push(client.reply().await?);
        }
    }
    Ok(replies)
}

/// Creates the folder, and those of the claims in it.
pub(super) async fn create(
    address: &str,
    patience: Duration,
    root: &str,
    folders: &[String],
) -> Result<()> {
    let mut client = keeper(address, patience).await?;
    let creates: Vec<_> = std::iter::once(root)
        .chain(folders.iter().map(String::as_str))
        .map(|path| format!("create {path}"))
        .collect();
    for (create, reply) in creates.iter().zip(ask(&mut client, &creates).await?) {
        ensure!(reply.starts_with("ok "), "{create}: {reply}");
    }
    ask(&mut client, &["closeSession".to_owned()]).await?;
    Ok(())
}

/// Deletes the folder. Returns the nodes that stay.
pub(super) async fn remove(address: &str, patience: Duration, root: &str) -> Result<Vec<String>> {
    let mut client = keeper(address, patience).await?;
    let proofs: Vec<_> =
        IDENTITIES.iter().map(|(_, proof)| format!("auth digest proof={proof}")).collect();
    ask(&mut client, &proofs).await?;
    let mut levels = vec![vec![root.to_owned()]];
    while let Some(level) = levels.last() {
        let lists: Vec<_> = level.iter().map(|path| format!("getChildren {path}")).collect();
        let mut below = Vec::new();
        for (path, reply) in level.iter().zip(ask(&mut client, &lists).await?) {
            let names = reply.split(' ').find_map(|word| word.strip_prefix("children="));
            let names = names.unwrap_or_default().split(',').filter(|name| !name.is_empty());
            below.extend(names.map(|name| format!("{path}/{name}")));
        }
        if below.is_empty() {
            break;
        }
        levels.push(below);
    }
    let mut left = Vec::new();
    for level in levels.iter().rev() {
        let deletes: Vec<_> = level.iter().map(|path| format!("delete {path}")).collect();
        for (path, reply) in level.iter().zip(ask(&mut client, &deletes).await?) {
            if !reply.starts_with("ok ") && !reply.starts_with("NoNode ") {
                left.push(path.clone());
            }
            if reply == "closed" || reply == "silence" {
                bail!("the server answers no more, and has {path}");
            }
        }
    }
    ask(&mut client, &["closeSession".to_owned()]).await?;
    Ok(left)
}
