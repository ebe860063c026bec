//! Prints a ready-made scene as JSON, or the catalogue: for those who write a page of their own.
//!
//! ```text
//! cargo run --release --example scene -- queue
//! ```

use zk_playground::catalogue;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let id = std::env::args().nth(1).unwrap_or_default();
    let ready = catalogue::scenes().into_iter().find(|ready| ready.id == id);
    match ready {
        Some(ready) => println!("{}", serde_json::to_string(&ready.play()?)?),
        None => println!("{}", serde_json::to_string(&catalogue::catalogue())?),
    }
    Ok(())
}
