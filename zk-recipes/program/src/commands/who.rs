//! `zk who`: shows who holds something and who waits for it, and asks holders to let go.

use std::future::ready;

use zk_client::{Client, WatchMode, WatchStream};
use zk_recipes::{Error, retry};

use crate::arguments::Who as Arguments;
use crate::commands::holding::{MaybeStatus, in_sessions, or_signal, telling_breaks};
use crate::commands::queues::{self, Contender, Queue, beside};
use crate::failure::{Failure, status, warn};
use crate::identity::{REVOKE, description, is_description, is_revocable};
use crate::output::{Json, Output, date, escaped};

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = &arguments.target.path;
    let (mut shown, mut is_cut_off) = (None, false);
    let status = in_sessions(&arguments.target.connection, None, async |client, signals, _| {
        let done = async {
            match (arguments.watch, arguments.revoke) {
                (true, _) => {
                    let watching = watch(arguments, client, &mut shown);
                    telling_breaks(client, &mut is_cut_off, watching).await
                }
                (_, true) => revoke(arguments, client).await,
                _ => show(arguments, client).await,
            }
        };
        match or_signal(signals, done).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) if error.is_session_over() => Ok(None),
            Ok(Err(error)) => Err(Failure::of(path, error)),
            Err(status) => Ok(Some(status)),
        }
    });
    Ok(status.await?.unwrap_or(status::FAILED))
}

/// Reads the queue, whatever becomes of connections meanwhile.
async fn read(client: &Client, path: &str) -> Result<Queue, Error> {
    retry(|| queues::read(client, path)).await
}

/// Shows the queue once.
async fn show(arguments: &Arguments, client: &Client) -> Result<MaybeStatus, Error> {
    let path = &arguments.target.path;
    let queue = read(client, path).await?;
    if queue.has_strangers_alone {
        warn(&format!("{path} has children, and none has the name of a contender"));
    }
    warn_if_missing(path, &queue);
    let text = text(path, &queue, arguments.target.json);
    Ok(Output::new().line(text.as_bytes()).map(|()| Some(0)))
}

/// A path that was mistyped looks like a lock that is free.
fn warn_if_missing(path: &str, queue: &Queue) {
    if queue.is_missing {
        warn(&format!("{path}: there is no such node; a lock that nobody wants may have none"));
    }
}

/// Shows the queue again whenever it has changed. `shown` is what was printed last.
async fn watch(
    arguments: &Arguments,
    client: &Client,
    shown: &mut Option<String>,
) -> Result<MaybeStatus, Error> {
    let path = &arguments.target.path;
    let stream = async |path| retry(|| client.watch(path, WatchMode::PersistentRecursive)).await;
    let (mut own, mut other) = (stream(path).await?, stream(&beside(path)).await?);
    loop {
        let text = text(path, &read(client, path).await?, arguments.target.json);
        if shown.as_ref() != Some(&text) {
            if let Err(failure) = Output::new().line(text.as_bytes()) {
                return Ok(Err(failure));
            }
            *shown = Some(text);
        }
        changed(&mut own, &mut other).await?;
    }
}

/// Waits until something has happened below one of two nodes. What else has happened by then is
/// part of the next look.
async fn changed(one: &mut WatchStream, other: &mut WatchStream) -> Result<(), Error> {
    tokio::select! {
        event = one.next() => drop(event?),
        event = other.next() => drop(event?),
    }
    loop {
        tokio::select! {
            biased;
            event = one.next() => drop(event?),
            event = other.next() => drop(event?),
            () = ready(()) => return Ok(()),
        }
    }
}

/// Asks those who hold it to let go, and prints their nodes.
async fn revoke(arguments: &Arguments, client: &Client) -> Result<MaybeStatus, Error> {
    let path = &arguments.target.path;
    let queue = read(client, path).await?;
    warn_if_missing(path, &queue);
    let (mut status, mut asked) = (0, Vec::new());
    if !queue.contenders.iter().any(|one| one.is_holder) {
        warn(&format!("{path}: nobody holds it"));
        status = status::REFUSED;
    }
    for holder in queue.contenders.iter().filter(|one| one.is_holder) {
        let node = &holder.node;
        let data = match (&holder.data, arguments.force) {
            (data, _) if data.starts_with(REVOKE) => data.clone(),
            (data, _) if is_revocable(data) => [REVOKE, data].concat(),
            // It does not listen, and what tells who it is stays.
            (data, true) if is_description(data) => [REVOKE, data].concat(),
            // Curator's holders compare the whole of it.
            (_, true) => REVOKE.to_vec(),
            (_, false) => {
                warn(&format!("{node}: its holder has not agreed to be asked (see --force)"));
                status = status::REFUSED;
                continue;
            }
        };
        // All of them are sent first: one who is asked may let go of the others.
        asked.push((node, client.set_data(node, &data, None)));
    }
    for (node, reply) in asked {
        match reply.await {
            Err(error) if error.is_no_node() => continue,
            written => drop(written?),
        }
        let line = match arguments.target.json {
            true => Json::object().text("asked", node).end(),
            false => node.clone(),
        };
        if let Err(failure) = Output::new().line(line.as_bytes()) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(Some(status)))
}

/// The queue in lines for people, or as one line of JSON.
fn text(path: &str, queue: &Queue, is_json: bool) -> String {
    let kind = queue.kinds.join(" and ");
    let (holders, waiters) =
        queue.contenders.iter().partition::<Vec<_>, _>(|contender| contender.is_holder);
    if is_json {
        let object = Json::object().text("path", path).text("kind", &kind);
        let holders = holders.into_iter().map(object_of);
        let waiters = waiters.into_iter().map(object_of);
        return object.list("holds", holders).list("waits", waiters).end();
    }
    if queue.contenders.is_empty() {
        return format!("{path}: nobody");
    }
    let first = format!("{path}: {kind}, {} hold it, {} wait", holders.len(), waiters.len());
    let lines = holders.into_iter().chain(waiters).map(line_of);
    std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n")
}

fn object_of(contender: &Contender) -> String {
    let object = Json::object()
        .text("node", &contender.node)
        .text("session", &format!("{:#x}", contender.session.0))
        .text("since", &date(contender.ctime).unwrap_or_default())
        .flag("shared", contender.is_shared)
        .bytes("data", &contender.data);
    let object = match description(&contender.data) {
        Some(holder) => object.value("holder", &holder),
        None => object,
    };
    match &contender.waits_for {
        Some((node, count)) => object
            .text("waits_for", node)
            .number("ahead", i64::try_from(*count).unwrap_or(i64::MAX))
            .end(),
        None => object.end(),
    }
}

fn line_of(contender: &Contender) -> String {
    let does = if contender.is_holder { "holds" } else { "waits" };
    let shared = if contender.is_shared { " shared" } else { "" };
    let name = |node: &str| node.rsplit('/').next().unwrap_or_default().to_owned();
    let behind = contender.waits_for.as_ref().map_or("-".to_owned(), |(node, _)| name(node));
    [
        format!("{does}{shared}"),
        date(contender.ctime).unwrap_or_default(),
        format!("{:#x}", contender.session.0),
        name(&contender.node),
        behind,
        escaped(&contender.data),
    ]
    .join("\t")
}
