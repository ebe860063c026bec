//! The tour as its reader sees it.

use anyhow::bail;
use tokio::process::Command;

/// Runs the tour, and fails unless it is told to its end and in order.
pub async fn check(arguments: &[&str]) -> anyhow::Result<()> {
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--package", "zk-recipes", "--example", "tour", "--"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .await?;
    let story = String::from_utf8(run.stdout)?;
    if !run.status.success() {
        bail!("{story}\n{}", String::from_utf8_lossy(&run.stderr));
    }
    let mut rest = story.as_str();
    for line in [
        "1. ANA TAKES THE FREE LOCK",
        "Ana -> create2",
        "Ana holds the lock",
        "2. BEN AND CHO QUEUE UP",
        "Ben waits.",
        "Cho waits.",
        "3. ANA RELEASES",
        "Ana -> delete",
        "the one right ahead is gone",
        "Ben holds the lock",
        "4. DAN",
        "Dan waits.",
        "Dan -> removeWatches",
        "Dan -> delete",
        "5. BEN'S SESSION ENDS",
        "Cho <- NodeDeleted",
        "Cho holds the lock",
        "AlreadyLost",
        "7. CHO DROPS HER GUARD",
        "Cho -> delete",
        "The queue is empty.",
    ] {
        let Some((_, behind)) = rest.split_once(line) else {
            bail!("{line:?} is not told in its place:\n{story}");
        };
        rest = behind;
    }
    assert!(!story.contains("??"), "{story}");
    Ok(())
}
