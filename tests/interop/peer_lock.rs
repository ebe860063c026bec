//! The lock of the crate `zookeeper-client`, as a contender: `ADDRESS FOLDER FILE TURNS`. Each turn
//! adds one to the number in the file, which only the lock protects.
//!
//! The test makes a package of this, so that the project does not depend on that crate.

use std::env;
use std::fs;

use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [address, folder, file, turns] = &*arguments else {
        return Err("ADDRESS FOLDER FILE TURNS".into());
    };
    let client = Client::connect(address).await?;
    let everybody = Acls::anyone_all();
    let folders = CreateMode::Persistent.with_acls(everybody);
    let options = LockOptions::new(everybody).with_ancestor_options(folders)?;
    for _ in 0..turns.parse::<u32>()? {
        let prefix = LockPrefix::new_curator(folder, "lock-")?;
        let guard = client.lock(prefix, b"", options.clone()).await?;
        let value: u32 = fs::read_to_string(file)?.trim().parse()?;
        // Other tasks and processes run between the read and the write.
        tokio::task::yield_now().await;
        fs::write(file, (value + 1).to_string())?;
        drop(guard);
    }
    Ok(())
}
