//! `zk diff`: compares two trees.

use zk_client::Client;

use crate::arguments::Diff as Arguments;
use crate::commands::dump::wanted;
use crate::failure::{Failure, status};
use crate::output::{Json, quoted};
use crate::trees::compare::{Comparison, Pair};
use crate::trees::entry::Entry;
use crate::trees::source::Source;
use crate::trees::writer::Writer;

/// The exit status if something differs. Of a failure it is 2, as that of diff(1).
const DIFFERENT: u8 = 1;

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let compared = compare(arguments).await;
    compared.map_err(|failure| failure.with_status(status::USAGE))
}

async fn compare(arguments: &Arguments) -> Result<u8, Failure> {
    if [&arguments.first, &arguments.second].iter().all(|name| *name == "-") {
        return Err(Failure::new(status::USAGE, "both trees cannot be the standard input"));
    }
    let (first, one) = open(arguments, &arguments.first).await?;
    let (second, other) = open(arguments, &arguments.second).await?;
    let output = Writer::new();
    let mut trees = Comparison::new(first.with_progress(), second);
    let compared = print(arguments, &mut trees, &output).await;
    for client in one.iter().chain(&other) {
        client.close().await;
    }
    let printed = output.finish();
    compared.and_then(|status| printed.map(|()| status))
}

/// Opens a tree, with the session in which it is read.
async fn open(arguments: &Arguments, name: &str) -> Result<(Source, Option<Client>), Failure> {
    let Some(place) = name.strip_prefix("zk://") else {
        let source = Source::file(name, wanted(arguments.which, &arguments.connection, ""))?;
        return Ok((source, None));
    };
    let at = place.find('/').ok_or_else(|| Failure::of(name, "there is no path"))?;
    let (servers, path) = place.split_at(at);
    let own = (!servers.is_empty()).then(|| arguments.connection.to(servers));
    let connection = own.as_ref().unwrap_or(&arguments.connection);
    let client = connection.open().await?;
    let source = Source::servers(&client, path, wanted(arguments.which, connection, path));
    Ok((source, Some(client)))
}

/// Prints what differs, and returns the exit status.
async fn print(
    arguments: &Arguments,
    trees: &mut Comparison,
    output: &Writer,
) -> Result<u8, Failure> {
    let mut status = 0;
    while let Some(pair) = trees.next().await? {
        let Some(line) = difference(&pair, arguments.json) else { continue };
        status = DIFFERENT;
        if !output.line(line).await {
            break;
        }
    }
    Ok(status)
}

/// What differs at a path, if anything.
pub(crate) fn difference(pair: &Pair, is_json: bool) -> Option<String> {
    let only = |sign: &str, tree: &str, Entry { path, .. }: &Entry| match is_json {
        true => Json::object().text("path", path).text("only", tree).end(),
        false => format!("{sign} {path}"),
    };
    match pair {
        Pair::First(entry) => Some(only("<", "first", entry)),
        Pair::Second(entry) => Some(only(">", "second", entry)),
        Pair::Both(one, other) => {
            let parts = one.differences(other);
            let path = &one.path;
            (!parts.is_empty()).then(|| match is_json {
                true => {
                    let parts = parts.into_iter().map(quoted);
                    Json::object().text("path", path).list("differs", parts).end()
                }
                false => format!("! {path} {}", parts.join(" ")),
            })
        }
    }
}
