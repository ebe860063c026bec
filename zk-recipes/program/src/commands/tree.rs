//! `zk tree`: draws a tree.

use zk_client::ErrorCode;

use crate::arguments::Tree as Arguments;
use crate::failure::{Failure, status};
use crate::output::{Json, escaped};
use crate::trees::entry::Kind;
use crate::trees::file::last_line;
use crate::trees::reader::{Found, Reader, Wanted, absolute};
use crate::trees::writer::Writer;

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let target = &arguments.target;
    let client = target.connection.open().await?;
    let wanted = Wanted {
        ephemerals: true,
        bare_ephemerals: true,
        data: false,
        acls: false,
        depth: arguments.depth.unwrap_or(usize::MAX),
        is_servers_root: false,
    };
    let mut reader = Reader::new(&client, &target.path, wanted);
    let output = Writer::new();
    let drawn = draw(arguments, &mut reader, &output).await;
    client.close().await;
    let written = output.finish();
    drawn.and_then(|status| written.map(|()| status))
}

/// Draws all nodes and prints the last line, unless nobody reads that.
async fn draw(arguments: &Arguments, reader: &mut Reader, output: &Writer) -> Result<u8, Failure> {
    let path = &arguments.target.path;
    let (mut nodes, mut ephemeral, mut hidden) = (0, 0, 0);
    while let Some(found) = reader.next().await? {
        nodes += 1;
        ephemeral += u64::from(found.entry.kind == Kind::Ephemeral);
        hidden += u64::from(found.stat.is_none());
        let full = absolute(path, &found.entry.path);
        let line = match (arguments.target.json, &found.stat) {
            (true, None) => Json::object().text("path", &full).flag("hidden", true).end(),
            (true, Some(stat)) => Json::object().text("path", &full).stat(stat).end(),
            (false, _) => {
                // A sibling that is deleted before it is read leaves a line that leads to nothing.
                let mut branches = reader.branches(&found.entry.path).collect::<Vec<_>>();
                let own = branches.pop().map(|has_more| if has_more { "├── " } else { "└── " });
                let above = branches.into_iter();
                let mut line: String =
                    above.map(|has_more| if has_more { "│   " } else { "    " }).collect();
                line += own.unwrap_or_default();
                let name = if nodes == 1 { full.as_str() } else { found.entry.name() };
                line += &escaped(name.as_bytes());
                line + &notes(&found, arguments.long)
            }
        };
        if !output.line(line).await {
            return Ok(0);
        }
    }
    let last = match (nodes, arguments.target.json) {
        (0, _) => return Err(Failure::of(path, ErrorCode::NO_NODE)),
        (nodes, true) => last_line(nodes),
        (1, false) => "\n1 node".to_owned(),
        (nodes, false) if ephemeral == 0 => format!("\n{nodes} nodes"),
        (nodes, false) => format!("\n{nodes} nodes, {ephemeral} of them ephemeral"),
    };
    output.line(last).await;
    Ok(if hidden == 0 { 0 } else { status::REFUSED })
}

/// What is behind the name of a node.
fn notes(found: &Found, is_long: bool) -> String {
    let Some(stat) = &found.stat else {
        return "  [hidden from this client, see --auth]".to_owned();
    };
    let mut notes = Vec::new();
    if is_long {
        notes.push(format!("data {}", stat.data_length));
        notes.push(match stat.ephemeral_owner.0 {
            0 => format!("children {}", stat.num_children),
            owner => format!("ephemeral {owner:#x}"),
        });
    }
    if notes.is_empty() { String::new() } else { format!("  [{}]", notes.join(", ")) }
}
