//! The subcommands that read and write nodes, each in one or a few requests.

use zk_client::{Client, Error, ErrorCode};

use crate::arguments::{Acl, Create, Get, List, Remove, Set, Stat, Target};
use crate::failure::Failure;
use crate::output::{Json, Output, stat_lines};
use crate::trees::entry::child;

type Done = Result<(), Failure>;

/// Runs `work` in a session. Its path explains the error.
async fn in_session(
    target: &Target,
    work: impl AsyncFnOnce(&Client, &str, &mut Output) -> Result<Done, Error>,
) -> Done {
    let client = target.connection.open().await?;
    let done = work(&client, &target.path, &mut Output::new()).await;
    client.close().await;
    done.map_err(|error| Failure::of(&target.path, error))?
}

pub(crate) async fn get(get: &Get) -> Done {
    in_session(&get.target, async |client, path, output| {
        let node = client.get_data(path).await?;
        if get.target.json {
            let object = Json::object().text("path", path).bytes("data", &node.data);
            return Ok(output.line(object.stat(&node.stat).end().as_bytes()));
        }
        let stat = if get.stat { format!("\n{}\n", stat_lines(&node.stat)) } else { String::new() };
        Ok(output.bytes(&[&node.data, stat.as_bytes()].concat()))
    })
    .await
}

pub(crate) async fn set(set: &Set) -> Done {
    let data = set.data.read()?;
    in_session(&set.target, async |client, path, output| {
        let stat = client.set_data(path, &data, set.version).await?;
        Ok(print_object(output, set.target.json, || Json::object().text("path", path).stat(&stat)))
    })
    .await
}

pub(crate) async fn create(create: &Create) -> Done {
    let data = create.data.read()?;
    let kind = create.kind.options();
    in_session(&create.target, async |client, path, output| {
        let created = match create.parents {
            true => client.create_all(path, &data, &kind).await?,
            false => client.create(path, &data, &kind).await?,
        };
        let object = || Json::object().text("path", &created.path).number("czxid", created.czxid.0);
        Ok(match create.target.json {
            true => output.line(object().end().as_bytes()),
            false => output.line(created.path.as_bytes()),
        })
    })
    .await
}

pub(crate) async fn list(list: &List) -> Done {
    in_session(&list.target, async |client, path, output| {
        if list.recursive {
            return walk(client, path, list.target.json, output).await;
        }
        let children = client.get_children(path).await?;
        let mut names = children.names.iter().collect::<Vec<_>>();
        names.sort_unstable();
        let lines = names.into_iter().map(|name| match list.target.json {
            true => Json::object().text("name", name).text("path", &child(path, name)).end(),
            false => name.to_owned(),
        });
        Ok(print_lines(output, lines))
    })
    .await
}

async fn walk(client: &Client, path: &str, json: bool, output: &mut Output) -> Result<Done, Error> {
    let mut nodes = client.walk(path);
    while let Some(node) = nodes.next().await? {
        let line = match json {
            true => Json::object().text("path", &node.path).stat(&node.stat).end(),
            false => node.path,
        };
        if let Err(failure) = output.line(line.as_bytes()) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

pub(crate) async fn stat(stat: &Stat) -> Done {
    in_session(&stat.target, async |client, path, output| {
        let Some(found) = client.exists(path).await? else {
            return Ok(Err(Failure::of(path, ErrorCode::NO_NODE)));
        };
        Ok(match stat.target.json {
            true => output.line(Json::object().text("path", path).stat(&found).end().as_bytes()),
            false => output.line(stat_lines(&found).as_bytes()),
        })
    })
    .await
}

pub(crate) async fn remove(remove: &Remove) -> Done {
    in_session(&remove.target, async |client, path, output| {
        let deleted = match remove.recursive {
            true => client.delete_all(path).await?,
            false => client.delete(path, remove.version).await.map(|()| 1)?,
        };
        let deleted = i64::try_from(deleted).unwrap_or(i64::MAX);
        let object = || Json::object().text("path", path).number("deleted", deleted);
        Ok(print_object(output, remove.target.json, object))
    })
    .await
}

pub(crate) async fn acl(acl: &Acl) -> Done {
    in_session(&acl.target, async |client, path, output| {
        if let Some(entries) = &acl.set {
            let stat = client.set_acl(path, &entries.0, acl.version).await?;
            let object = || Json::object().text("path", path).stat(&stat);
            return Ok(print_object(output, acl.target.json, object));
        }
        let list = client.get_acl(path).await?;
        let lines = list.acl.iter().map(|entry| match acl.target.json {
            true => Json::object()
                .text("scheme", &entry.id.scheme)
                .text("id", &entry.id.id)
                .text("perms", &entry.perms.to_string())
                .end(),
            false => format!("{}:{}", entry.id, entry.perms),
        });
        Ok(print_lines(output, lines))
    })
    .await
}

/// Prints the result of a write, which is silent without `--json`.
fn print_object(output: &mut Output, json: bool, object: impl FnOnce() -> Json) -> Done {
    if json { output.line(object().end().as_bytes()) } else { Ok(()) }
}

fn print_lines(output: &mut Output, lines: impl Iterator<Item = String>) -> Done {
    let mut text = lines.collect::<Vec<_>>();
    if text.is_empty() {
        return Ok(());
    }
    text.push(String::new());
    output.bytes(text.join("\n").as_bytes())
}
