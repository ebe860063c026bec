//! The server in a process of its own, so that its CPU is not the client's.
//!
//! The child is this program again, with [`SERVE`] as its workload: it prints its address, and ends
//! when its standard input ends, which is when its parent has ended for any reason.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::meter::{self, Core};
use crate::null::{Config, NullServer};
use crate::options::{Kind, Options};

/// The workload of a child. It can be run by hand if a server is to outlive the measured process.
pub const SERVE: &str = "serve";

/// The server that is measured against.
#[derive(Debug)]
pub struct Server {
    address: String,
    child: Option<Child>,
    process: Option<u32>,
}

/// What a server has counted since its start.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    /// Requests that the server has received.
    pub received: u64,
    /// Replies and notifications that it has sent, if it reports them.
    pub sent: Option<u64>,
}

impl Server {
    /// Starts the server that the options ask for, or uses a running one.
    pub fn start(options: &Options) -> io::Result<Self> {
        if let Kind::At(address) = &options.server {
            let process = listener(address).ok().flatten();
            return Ok(Self { address: address.clone(), child: None, process });
        }
        let mut command = Command::new(env::current_exe()?);
        command.args([SERVE, "--server", &options.server.to_string()]);
        if options.server == Kind::Null {
            command.args(["--payload", &options.payload.to_string()]);
            command.args(["--children", &options.children.to_string()]);
        }
        if options.pin {
            command.arg("--pin");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        if address.is_empty() {
            return Err(io::Error::other("the server did not start"));
        }
        let process = Some(child.id());
        Ok(Self { address: address.trim_end().to_owned(), child: Some(child), process })
    }

    /// `HOST:PORT`
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many requests the server has received, if it reports that.
    pub fn received(&self) -> Option<u64> {
        self.packets().map(|packets| packets.received)
    }

    /// How many packets the server has received and sent.
    pub fn packets(&self) -> Option<Packets> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let find = |name| answer.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        Some(Packets { received: find("Received: ")?, sent: find("Sent: ") })
    }

    /// The CPU that the server's process has used so far, if it runs here and may be inspected.
    pub fn cpu(&self) -> Option<Duration> {
        meter::cpu_of(self.process?).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.stdin.take());
            if let Err(error) = child.wait() {
                eprintln!("the server: {error}");
            }
        }
    }
}

/// The process on this machine that listens at `address`, if its files may be read.
fn listener(address: &str) -> io::Result<Option<u32>> {
    let address = address.to_socket_addrs()?.next();
    let Some(address) = address.filter(|address| address.ip().is_loopback()) else {
        return Ok(None);
    };
    let Some(inode) = listening(address.port())? else {
        return Ok(None);
    };
    let socket = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Other users' processes may not be inspected, and any process may end meanwhile.
        let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        if files
            .flat_map(|file| fs::read_link(file.path()))
            .any(|link| link.as_os_str() == &*socket)
        {
            return Ok(Some(process));
        }
    }
    Ok(None)
}

/// The inode of the socket that listens on a port.
fn listening(port: u16) -> io::Result<Option<String>> {
    const LISTENS: &str = "0A";
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table)?.lines().skip(1) {
            let fields = line.split_whitespace().collect::<Vec<_>>();
            if let [_, local, _, LISTENS, _, _, _, _, _, inode, ..] = fields[..]
                && local.ends_with(&format!(":{port:04X}"))
            {
                return Ok(Some(inode.to_owned()));
            }
        }
    }
    Ok(None)
}

/// Runs as the child: serves until standard input ends.
pub fn serve(options: &Options) -> io::Result<()> {
    if options.pin {
        meter::pin(Core::Server)?;
    }
    match &options.server {
        Kind::Null => {
            let config = Config { data: options.payload, children: options.children };
            let server = NullServer::start(&config)?;
            println!("{}", server.address());
            wait_for_the_end()
        }
        Kind::Embedded => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?;
            let server = runtime.block_on(zk_embedded::Server::start())?;
            println!("{}", server.address());
            wait_for_the_end()
        }
        Kind::At(address) => Err(io::Error::other(format!("{address} serves already"))),
    }
}

fn wait_for_the_end() -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop)
}
