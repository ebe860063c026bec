//! The arguments of the subcommands that read and write whole trees.

use clap::Args;

use crate::arguments::nodes::Target;
use crate::connection::Connection;

/// Print a node and everything below it, as lines of JSON
///
/// Each node comes before what is below it, siblings in the order of their names. A line has the
/// path below PATH, which is / itself; the kind; the data, or data_base64 where it is not UTF-8;
/// and the access list. The last line tells that the dump is complete. It is no snapshot: each node
/// is as it was when it was read.
///
/// The kind is persistent or ephemeral. Servers do not tell whether a node is a container or has a
/// time to live; where that matters, edit the line: zk load also knows the kinds container, and ttl
/// with ttl_ms.
///
/// Example: zk dump /config > config.jsonl
#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// The path of the node
    pub(crate) path: String,

    #[command(flatten)]
    pub(crate) which: Which,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Draw a node and everything below it
///
/// Siblings are in the order of their names. It is no snapshot: each node is as it was when it was
/// read. A node that this client may not read is marked as hidden, with what is below it, and then
/// the exit status is 1.
/// The last line tells how many nodes there are, with the first one.
///
/// Example: zk tree --long --depth 2 /config
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Tell of each node how many bytes of data and how many children it has, or the session that
    /// it is of
    #[arg(short, long)]
    pub(crate) long: bool,

    /// Go down so many levels below the node at most
    #[arg(short = 'L', long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Make a tree equal to a dump, or as far as it goes without deleting anything
///
/// Nodes that are missing are created, and data and access lists that differ are written. Nodes
/// that the dump does not have are left, unless --prune is given. Ephemeral nodes are left alone,
/// and the kind of a node that is there is not changed. What a line of the dump does not have, the
/// data or the access list, is left as it is; a new node gets no data or an open list then. To run
/// it again after an interruption, or twice at the same time, leads to the same end. Prints what
/// differs yet, as zk diff does, and in the end what was done. The exit status is 1 if a node could
/// not be written.
///
/// The servers' own /zookeeper is never written: a dump that has a node of it is refused. A file is
/// refused before anything is sent. From a pipe, which is read only once, the nodes before that one
/// are loaded, and the last line counts them; and so it is where a dump is wrong or ends early.
///
/// Example: zk dump /config | zk load /copies/config
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The path at which the tree is to be
    pub(crate) path: String,

    /// The dump, or - for the standard input
    #[arg(default_value = "-")]
    pub(crate) file: String,

    /// Change nothing, and print what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Delete what the dump does not have, but for ephemeral nodes and what is above them
    #[arg(long)]
    pub(crate) prune: bool,

    /// Leave access lists alone. New nodes get an open one
    #[arg(long)]
    pub(crate) no_acls: bool,

    /// Print JSON, an object a line
    #[arg(short, long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Compare two trees, of servers or files
///
/// A tree is the name of a file that zk dump has made, - for the standard input, or
/// zk://HOST:PORT,HOST:PORT/PATH. Without servers, as zk:///PATH, they are those of --connect.
///
/// Prints < and the path below the root where only the first tree has a node, > where only the
/// second one has it, and ! with what differs: kind, data, acl. The exit status is 0 if nothing
/// differs, 1 if something does, and 2 if that could not be found out.
///
/// Example: zk diff config.jsonl zk:///config
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A file or zk://SERVERS/PATH
    pub(crate) first: String,

    /// A file or zk://SERVERS/PATH
    pub(crate) second: String,

    /// Print JSON, an object a line
    #[arg(short, long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) which: Which,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What is read of a tree.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Which {
    /// With ephemeral nodes, which are left out otherwise
    #[arg(long)]
    pub(crate) ephemerals: bool,

    /// Without access lists
    #[arg(long)]
    pub(crate) no_acls: bool,
}
