//! Shows how ZooKeeper locks work, in a browser.
//!
//! ```text
//! cargo run --release --example playground
//! ```
//!
//! Open the address that it prints. No request leaves this machine.

use zk_playground::serve::Playground;

fn main() -> std::io::Result<()> {
    let playground = Playground::bind()?;
    println!("{}", playground.url());
    println!("Open this address in a browser on this machine. Ctrl-C ends the playground.");
    playground.run()
}
