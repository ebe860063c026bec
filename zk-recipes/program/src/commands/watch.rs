//! `zk watch`: prints the changes of a node.

use std::hash::{DefaultHasher, Hash, Hasher};

use zk_client::{Client, Error, Stat, StreamEvent, WatchMode};

use crate::arguments::Watch as Arguments;
use crate::commands::holding::{in_sessions, or_signal, telling_breaks};
use crate::failure::{Failure, status};
use crate::output::{Json, Output};

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let (mut seen, mut is_cut_off) = (None, false);
    let status = in_sessions(&arguments.target.connection, None, async |client, signals, _| {
        let watching = watch(arguments, client, &mut seen);
        match or_signal(signals, telling_breaks(client, &mut is_cut_off, watching)).await {
            Ok(Ok(done)) => done.map(|()| Some(0)),
            Ok(Err(error)) if error.is_session_over() => Ok(None),
            Ok(Err(error)) => Err(Failure::of(&arguments.target.path, error)),
            Err(status) => Ok(Some(status)),
        }
    });
    Ok(status.await?.unwrap_or(status::FAILED))
}

/// What a watch reports changes of: a value that differs after nearly every change.
type Seen = Option<u64>;

/// Prints changes in one session. `seen` is what was seen last, if anything.
async fn watch(
    arguments: &Arguments,
    client: &Client,
    seen: &mut Seen,
) -> Result<Result<(), Failure>, Error> {
    let path = &arguments.target.path;
    let mode = match arguments.recursive {
        true => WatchMode::PersistentRecursive,
        false => WatchMode::Persistent,
    };
    let mut stream = client.watch(path, mode).await?;
    let mut event = if seen.is_none() { "Armed" } else { "Rearmed" };
    loop {
        // A change before the watch was armed, or while it was not, is told by nobody else.
        let now = match arguments.once {
            true => look(client, path, arguments.recursive).await?,
            false => 0,
        };
        let is_changed = seen.replace(now).is_some_and(|before| before != now);
        let mut printed = print_line(arguments, event, path);
        if is_changed && printed.is_ok() {
            printed = print_line(arguments, "Changed", path);
        }
        if is_changed || printed.is_err() {
            return Ok(printed);
        }
        event = loop {
            match stream.next().await? {
                StreamEvent::Changed(change) => {
                    let printed =
                        print_line(arguments, &format!("{:?}", change.kind), &change.path);
                    if arguments.once || printed.is_err() {
                        return Ok(printed);
                    }
                }
                StreamEvent::Rearmed => break "Rearmed",
                StreamEvent::Lagged(_) => break "Lagged",
                _ => {}
            }
        };
    }
}

/// Looks at all that the watch reports, and makes one number of it.
async fn look(client: &Client, path: &str, is_recursive: bool) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    let mut note = |path: &str, stat: &Stat| {
        (path, stat.czxid, stat.mzxid, stat.pzxid).hash(&mut hasher);
    };
    if is_recursive {
        let mut nodes = client.walk(path);
        loop {
            match nodes.next().await {
                Ok(Some(node)) => note(&node.path, &node.stat),
                Ok(None) => break,
                Err(error) if error.is_no_node() => break,
                Err(error) => return Err(error),
            }
        }
    } else if let Some(stat) = client.exists(path).await? {
        note(path, &stat);
    }
    Ok(hasher.finish())
}

fn print_line(arguments: &Arguments, event: &str, path: &str) -> Result<(), Failure> {
    let line = match arguments.target.json {
        true => Json::object().text("event", event).text("path", path).end(),
        false => format!("{event} {path}"),
    };
    Output::new().line(line.as_bytes())
}
