//! Draws the pictures of the documentation anew: `cargo run -p zk-playground --example pictures`.

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (file, svg) in zk_playground::pictures::pictures()? {
        fs::write(root.join(file), svg)?;
        println!("{file}");
    }
    Ok(())
}
