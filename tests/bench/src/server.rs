//! The server in a process of its own, so that its CPU is not the client's.
//!
//! The child is this program again, with [`SERVE`] as its workload: it prints its address, and ends
//! when its standard input does, which is when its parent is gone, however that came about.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::meter::{self, Core};
use crate::null::{Config, NullServer};
use crate::options::{Kind, Options};

/// The workload of a child. By hand it is of use where a server is to outlive what is measured.
pub const SERVE: &str = "serve";

/// Who answers.
#[derive(Debug)]
pub struct Server {
    address: String,
    child: Option<Child>,
}

impl Server {
    /// Starts the server that the options ask for, or takes the one that is there.
    pub fn start(options: &Options) -> io::Result<Self> {
        if let Kind::At(address) = &options.server {
            return Ok(Self { address: address.clone(), child: None });
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
        Ok(Self { address: address.trim_end().to_owned(), child: Some(child) })
    }

    /// `HOST:PORT`
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many requests it has received, if it tells.
    pub fn received(&self) -> Option<u64> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Received: ")?.parse().ok())
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

/// Is the child: serves until standard input ends.
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
