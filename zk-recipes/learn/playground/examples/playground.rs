//! Shows how ZooKeeper locks work, in a browser.
//!
//! ```text
//! cargo run --release --example playground
//! ```
//!
//! Open the address that it prints. No request leaves this machine.

use std::process::ExitCode;

use zk_playground::serve::Playground;

const USAGE: &str = "\
Shows how ZooKeeper locks work, in a browser on this machine.

usage: playground [--port PORT]

It prints the address of its page. Without --port, the system chooses a free port.";

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    let port = match arguments[..] {
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] => Some(0),
        ["--port", port] => port.parse().ok(),
        _ => None,
    };
    let Some(port) = port else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match serve(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: u16) -> std::io::Result<()> {
    let playground = Playground::bind_to(port)?;
    println!("{}", playground.url());
    println!("Open this address in a browser on this machine. Ctrl-C ends the playground.");
    playground.run()
}
