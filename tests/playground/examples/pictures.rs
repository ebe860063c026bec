//! Draws the pictures of the documentation anew: `cargo run -p zk-playground --example pictures`.

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zk-recipes/pictures");
    fs::create_dir_all(&folder)?;
    for (name, svg) in zk_playground::pictures::pictures()? {
        fs::write(folder.join(name), svg)?;
        println!("zk-recipes/pictures/{name}");
    }
    Ok(())
}
