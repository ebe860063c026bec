//! An embedded server with a tap in front of it, to be measured: prints the address of each, and
//! what the tap has seen when its stdin ends. `--lines` writes a line for each frame to stderr.

use std::io::{BufWriter, stderr};

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use zk_tap::{Observer, Tap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server has a thread of its own, as a program of its own would.
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || serve(&sender));
    let server: String = address.recv()?;
    println!("server {server}");
    let mut observer = Observer::new();
    if std::env::args().any(|argument| argument == "--lines") {
        observer = observer.lines(BufWriter::new(stderr()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let tap = Tap::start(listener, server, observer)?;
        println!("tap {}", tap.address());
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        println!("{}", tap.stop().await?);
        Ok(())
    })
}

fn serve(address: &std::sync::mpsc::Sender<String>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = zk_embedded::Server::start().await?;
        address.send(server.address().to_owned()).map_err(std::io::Error::other)?;
        std::future::pending().await
    })
}
