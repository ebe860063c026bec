//! Runs the examples and checks what they print.

use anyhow::{Context, bail, ensure};
use tokio::process::Command;
use tokio::sync::OnceCell;

/// Runs an example of any crate, and returns its output. Fails if the example fails.
pub async fn run(name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    BUILT.get_or_try_init(build).await?;
    let tests = std::env::current_exe()?;
    let profile = tests.ancestors().nth(2).context("no folder of what Cargo built")?;
    let run = Command::new(profile.join("examples").join(name)).args(arguments).output().await?;
    let said = String::from_utf8(run.stdout)?;
    if !run.status.success() {
        bail!("{name}: {said}\n{}", String::from_utf8_lossy(&run.stderr));
    }
    Ok(said)
}

/// Whether the examples are built: once is enough for the tests of a program.
static BUILT: OnceCell<()> = OnceCell::const_new();

/// Builds all examples, unless `ZK_EXAMPLES_ARE_BUILT` is set.
async fn build() -> anyhow::Result<()> {
    if std::env::var_os("ZK_EXAMPLES_ARE_BUILT").is_some() {
        return Ok(());
    }
    // Build all of the workspace at once, as `cargo test` does: with other features Cargo would
    // build the crates a second time.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--workspace", "--examples"]);
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    // Cargo passes variables about this package to its tests. The build scripts of other packages
    // would see them as a change, and run again.
    let about = ["CARGO_MANIFEST", "CARGO_PKG", "CARGO_BIN", "CARGO_CRATE", "CARGO_PRIMARY"];
    for (name, _) in std::env::vars_os() {
        if about.iter().any(|about| name.to_string_lossy().starts_with(about)) {
            build.env_remove(name);
        }
    }
    let build = build.output().await?;
    ensure!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    Ok(())
}

/// What the tour tells, in this order. Each step begins a row.
const STORY: &[&[&str]] = &[
    &["1. NODES, SESSIONS, WATCHES, ZXIDS, FRAMES", "Dan <- welcome", "Ana -> create2"],
    &["Ben <- NodeDataChanged", "Dan -> closeSession", "Ben <- NodeDeleted"],
    &["THE WORDS"],
    &["2. THE TEXTBOOK LOCK", "async fn acquire", "Ana holds the lock.", "Ben waits."],
    &["Cho waits.", "Ana -> delete", "Ben <- NodeDeleted", "Ben holds the lock."],
    &["Cho holds the lock."],
    &["3. CHECK, THEN CREATE", "Broken: two held the lock"],
    &["THE REPAIR.", "It holds"],
    &["11. A READER WAITS FOR A YOUNGER WRITER", "Broken:", "It holds"],
    &["12. THE QUEUE", "Ana -> create2", "Ana holds the lock"],
    &["BEN AND CHO QUEUE UP", "Ben waits.", "Cho waits."],
    &["ANA RELEASES", "Ana -> delete", "Ben holds the lock"],
    &["CHO CHANGES HER MIND", "Cho -> removeWatches", "Cho -> delete", "Ben -> delete"],
    &["13. A LOST REPLY", "Ana -> create2", "Ana xx the reply", "Ana -> hello", "Ana -> sync"],
    &["Ana -> exists", "owned by my session", "Ana holds the lock"],
    &["BEN LOOKS"],
    &["14. A SESSION ENDS", "Dan holds the lock", "Ben waits.", "Eve -> closeSession"],
    &["Ben holds the lock", "is the greatest so far: written", "Ben -> multi:"],
    &["all of it was done", "Dan's guard: Held", "The store: Dan's", "refused"],
    &["that session is over", "Dan's guard: Lost(SessionOver(Expired))", "Cho -> multi:"],
    &["so nothing was done"],
    &["15. TO THE END OF THE QUEUE", "Ana -> create2", "Ana -> getChildren2"],
    &["Ana holds the lock", "Ben waits."],
    &["ANA REQUEUES", "Ana -> multi:", "Ana -> getChildren2", "Ben holds the lock"],
    &["the one right ahead is gone", "Ana holds the lock", "Ana -> delete"],
    &["16. READERS AND WRITERS", "Ana holds the lock", "Ben holds the lock", "Cho waits."],
    &["Ana -> delete", "Ben -> delete", "Cho holds the lock"],
    &["CHO BECOMES A READER", "Ana waits.", "Cho -> multi:", "Ana holds the lock"],
    &["Cho reads, too."],
    &["17. TWO LEVELS", "Ana's task 1 holds the lock", "Ana's task 1 holds it 2 times"],
    &["Ben waits."],
    &["TASK 1 IS DONE", "Ana's task 2 holds the lock"],
    &["TASK 2 IS DONE", "Ben holds the lock", "Ana's task 3 holds the lock"],
    &["18. LINGER", "Ana -> create2", "Ana holds the lock", "Ana -> getData"],
    &["SHE ACQUIRES IT AGAIN", "Ana holds the lock"],
    &["BEN WANTS IT", "Ana <- NodeChildrenChanged", "Ana -> delete", "Ben holds the lock"],
    &["19. SEVERAL LOCKS AT ONCE", "Ana -> multi:", "Ana holds both.", "Ben holds the lock"],
    &["Ana waits.", "Cho -> delete", "Cho waits.", "Ana holds both.", "Cho holds both."],
    &["20. A LOCK THAT OUTLIVES ITS PROCESS", "Ana holds the lock", "Ben waits."],
    &["Eve -> hello", "Eve -> setACL", "Eve holds the lock", "Ben holds the lock"],
    &["21. ASKING FOR THE LOCK BACK", "Ana holds the lock", "Cho -> setData"],
    &["Ana <- NodeDataChanged", "Ana hears", "Ben holds the lock"],
    &["22. AN ELECTION", "Cho: the leader is Ana.", "Cho: the leader is Ben."],
    &["23. QUESTIONS AND ANSWERS", "Question 1.", "See chapter"],
];

/// Runs the tour, and fails unless its whole story is printed, in order.
pub async fn check(arguments: &[&str]) -> anyhow::Result<()> {
    let story = run("tour", arguments).await?;
    let mut rest = story.as_str();
    for line in STORY.iter().copied().flatten() {
        let Some((_, behind)) = rest.split_once(line) else {
            bail!("{line:?} is not told in its place:\n{story}");
        };
        rest = behind;
    }
    for (from, to, frames) in [
        // There is one node, although the reply to a create was lost.
        ("BEN LOOKS", "Ana -> delete", &["Ben -> getChildren2", "Ben <- in the folder: lock-"][..]),
        // The lock was passed on in the process.
        ("TASK 1 IS DONE", "TASK 2 IS DONE", &[]),
        // The lock is still hers.
        ("SHE ACQUIRES IT AGAIN", "BEN WANTS IT", &[]),
    ] {
        let told = frames_between(&story, from, to);
        let as_expected = told.len() == frames.len()
            && told.iter().zip(frames).all(|(told, frame)| told.starts_with(frame));
        assert!(as_expected, "from {from:?} to {to:?}: {told:?}");
    }
    let list = frames_between(&story, "BEN LOOKS", "Ana -> delete")[1];
    assert_eq!(list.matches("lock-").count(), 1, "{list}");
    assert!(!story.contains("??"), "{story}");
    // The story must fit a terminal.
    let too_long = story.lines().find(|line| line.chars().count() > 100);
    assert_eq!(too_long, None);
    Ok(())
}

/// The frames on the connections between two places of the story.
fn frames_between<'s>(story: &'s str, from: &str, to: &str) -> Vec<&'s str> {
    let told = story.split_once(from).and_then(|(_, told)| told.split_once(to));
    let told = told.map(|(told, _)| told).unwrap_or_default();
    let lines = told.lines().map(str::trim_start);
    lines.filter(|line| line.get(4..6).is_some_and(|arrow| ["->", "<-"].contains(&arrow))).collect()
}
