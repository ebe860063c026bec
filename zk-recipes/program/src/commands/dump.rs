//! `zk dump`: prints a tree.

use zk_client::ErrorCode;

use crate::arguments::{Dump as Arguments, Which};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::trees::file::last_line;
use crate::trees::reader::Wanted;
use crate::trees::source::Source;
use crate::trees::writer::Writer;

pub(crate) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.path;
    let client = arguments.connection.open().await?;
    let wanted = wanted(arguments.which, &arguments.connection, path);
    let mut source = Source::servers(&client, path, wanted).with_progress();
    let output = Writer::new();
    let copied = copy(&mut source, &output, path).await;
    client.close().await;
    let written = output.finish();
    copied.and(written)
}

/// Prints all nodes and the last line, unless nobody reads that.
async fn copy(source: &mut Source, output: &Writer, path: &str) -> Result<(), Failure> {
    let mut nodes = 0;
    while let Some(entry) = source.next().await? {
        nodes += 1;
        if !output.line(entry.to_line()).await {
            return Ok(());
        }
    }
    if nodes == 0 {
        return Err(Failure::of(path, ErrorCode::NO_NODE));
    }
    output.line(last_line(nodes)).await;
    Ok(())
}

/// What is wanted of a tree at this path.
pub(crate) fn wanted(which: Which, connection: &Connection, path: &str) -> Wanted {
    Wanted {
        ephemerals: which.ephemerals,
        bare_ephemerals: false,
        data: true,
        acls: !which.no_acls,
        depth: usize::MAX,
        is_servers_root: path == "/" && connection.chroot() == "/",
    }
}
