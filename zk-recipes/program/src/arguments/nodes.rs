//! The arguments of the subcommands that read and write nodes.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use rustix::fs::OFlags;
use zk_client::{Acl as Entry, CreateOptions, Id, Perms};

use crate::connection::{Connection, seconds};
use crate::failure::Failure;

/// A node, how to reach it, and how to print it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The path of the node
    pub(crate) path: String,

    /// Print JSON, an object a line
    #[arg(short, long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What a node is to contain.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The data
    #[arg(conflicts_with = "stdin")]
    data: Option<OsString>,

    /// Read the data from the standard input
    #[arg(long)]
    stdin: bool,
}

impl Data {
    /// The data, or none if none was given.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut data = Vec::new();
        if self.stdin {
            if is_stdin_closed() {
                return Err(Failure::of("--stdin", "the standard input is closed"));
            }
            let read = std::io::stdin().lock().read_to_end(&mut data);
            read.map_err(|error| Failure::of("cannot read the data", error))?;
        } else if let Some(given) = &self.data {
            data.extend_from_slice(given.as_bytes());
        }
        Ok(data)
    }
}

/// True if this program was started without a standard input. Rust's start opens /dev/null in its
/// place, for reading and writing, where a shell's `< /dev/null` is for reading alone.
fn is_stdin_closed() -> bool {
    let stdin = std::io::stdin();
    let is_null = match (rustix::fs::fstat(&stdin), rustix::fs::stat("/dev/null")) {
        (Ok(input), Ok(null)) => (input.st_dev, input.st_ino) == (null.st_dev, null.st_ino),
        _ => false,
    };
    is_null && rustix::fs::fcntl_getfl(&stdin).is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

/// Print the data of a node
///
/// The bytes are printed as they are. With --json, data that is not UTF-8 is in hexadecimal digits,
/// as the member data_hex instead of data.
///
/// Example: zk get /config/limit
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Print the metadata as well, in lines behind the data
    #[arg(short, long)]
    pub(crate) stat: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Write the data of a node
///
/// Example: zk set --version 3 /config/limit 100
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.required_unless_present("stdin")))]
pub(crate) struct Set {
    /// Fail unless the node has this version
    #[arg(short, long)]
    pub(crate) version: Option<i32>,

    #[command(flatten)]
    pub(crate) target: Target,

    #[command(flatten)]
    pub(crate) data: Data,
}

/// Create a node, and print its path
///
/// There are no ephemeral nodes here, since a node would not outlive the program.
///
/// Example: zk create --parents /config/limit 100
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Create missing parents as well
    #[arg(short, long)]
    pub(crate) parents: bool,

    #[command(flatten)]
    pub(crate) kind: Kind,

    #[command(flatten)]
    pub(crate) target: Target,

    #[command(flatten)]
    pub(crate) data: Data,
}

/// What kind of node is created.
#[derive(Debug, Args)]
pub(crate) struct Kind {
    /// Append a number that the server counts up
    #[arg(short, long)]
    pub(crate) sequential: bool,

    /// Let servers delete the node when its last child is gone
    #[arg(long, conflicts_with_all = ["sequential", "ttl"])]
    container: bool,

    /// Let servers delete the node when it was not written for this long and has no children
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    ttl: Option<Duration>,

    /// The access list, such as world:anyone:r,auth::cdrwa
    #[arg(long, value_name = "LIST", value_parser = entries)]
    acl: Option<Entries>,
}

impl Kind {
    /// How such a node is created.
    pub(crate) fn options(&self) -> CreateOptions<'_> {
        let mut options = match self.container {
            true => CreateOptions::container(),
            false => CreateOptions::persistent(),
        };
        if self.sequential {
            options = options.sequential();
        }
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        if let Some(acl) = &self.acl {
            options = options.with_acl(&acl.0);
        }
        options
    }
}

/// List the children of a node
///
/// Example: zk ls --recursive /config
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print the paths of the node and of everything below it
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Print the metadata of a node
///
/// Times are in milliseconds since 1970, by the clock of the servers.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Print each change of a node and of its children
///
/// The first line says Armed: each change from then on is printed, but for those during a break of
/// the connection or between two sessions. After a break the line is Rearmed. With --once the node
/// is looked at again then; if it differs, the line Changed is the last.
///
/// Example: zk watch --once /config/limit
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Print the changes of everything below the node as well
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// End after the first change
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Show who holds a lock, a semaphore or an election, and who waits for it
///
/// The contenders may be those of zk, of kazoo or of Curator. The first line tells what it is. Then
/// comes a line for each contender, in the order of the queue, with tabs between the parts: what it
/// does, since when its node is there, its session, its node, the node that it waits for, and its
/// data. Somebody who shares the lock with others does so. With --json, what zk has written of a
/// contender is the member holder, beside the data as it is.
///
/// Example: zk who /locks/backup
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Print it again whenever it has changed
    #[arg(short, long, conflicts_with = "revoke")]
    pub(crate) watch: bool,

    /// Ask those who hold it to let go, and print their nodes
    ///
    /// This is for holders that have agreed, by --revocable of zk lock, elect and sem. If one has
    /// not, the exit status is 1.
    #[arg(long)]
    pub(crate) revoke: bool,

    /// With --revoke: ask all holders, such as Curator's, which do not tell whether they can be
    /// asked
    ///
    /// The data of their nodes is overwritten, which may be an address that others need.
    #[arg(long, requires = "revoke")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Delete a node
///
/// Example: zk rm --recursive /config/old
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Delete everything below it first
    #[arg(short, long, visible_short_alias = 'R', conflicts_with = "version")]
    pub(crate) recursive: bool,

    /// Fail unless the node has this version
    #[arg(short, long)]
    pub(crate) version: Option<i32>,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Print or replace the access list of a node
///
/// An entry is SCHEME:ID:PERMISSIONS, where the permissions are letters of cdrwa: create, delete,
/// read, write, admin.
///
/// Example: zk acl /config --set world:anyone:r,digest:ops:HASH=:cdrwa
#[derive(Debug, Args)]
pub(crate) struct Acl {
    /// Replace the list by this one
    #[arg(long, value_name = "LIST", value_parser = entries)]
    pub(crate) set: Option<Entries>,

    /// With --set: fail unless the list has this version
    #[arg(short, long, requires = "set")]
    pub(crate) version: Option<i32>,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Ask each server a four-letter word, such as srvr, mntr or ruok
///
/// Servers answer the words that their setting 4lw.commands.whitelist allows.
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// The word
    pub(crate) word: String,

    /// Print JSON, an object a server
    #[arg(short, long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print a script with which a shell completes the arguments of zk
///
/// Example: zk completion bash > /usr/share/bash-completion/completions/zk
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// The entries of an access list.
#[derive(Clone, Debug)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

/// Parses the entries of an access list.
fn entries(text: &str) -> Result<Entries, String> {
    text.split(',').map(entry).collect::<Result<_, _>>().map(Entries)
}

/// Parses an entry of an access list.
pub(crate) fn entry(text: &str) -> Result<Entry, String> {
    let wrong = || format!("{text:?} is not SCHEME:ID:PERMISSIONS");
    let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
    // An id may contain colons.
    let (id, letters) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let mut perms = Perms::NONE;
    for letter in letters.chars() {
        perms |= match letter {
            'c' => Perms::CREATE,
            'd' => Perms::DELETE,
            'r' => Perms::READ,
            'w' => Perms::WRITE,
            'a' => Perms::ADMIN,
            _ => return Err(format!("{letter:?} is none of the permissions cdrwa")),
        };
    }
    Ok(Entry::new(perms, Id::new(scheme, id)))
}
