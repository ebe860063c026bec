//! The store that a lock protects.

use anyhow::Result;
use zk_recipes::FencingToken;
use zk_test_support::history::{Event, Ledger, Mode, Store};

const OLD: FencingToken = FencingToken::new(7, 1);
const NEW: FencingToken = FencingToken::new(8, 0);

async fn writes(mode: Mode) -> Result<Vec<bool>> {
    let store = Store::start(mode).await?;
    let mut one = Ledger::connect(store.address(), "one").await?;
    let mut two = Ledger::connect(store.address(), "two").await?;
    one.enter(OLD).await?;
    let mut accepted = vec![one.write(OLD, 1).await?];
    // The fence sees only the tokens of writes.
    two.enter(NEW).await?;
    accepted.push(one.write(OLD, 2).await?);
    accepted.push(two.write(NEW, 3).await?);
    accepted.push(one.write(OLD, 4).await?);
    accepted.push(two.write(NEW, 5).await?);
    one.lost(OLD).await?;
    two.leave(NEW).await?;
    drop(two);
    store.wait_for(|history| history.last().is_some_and(|it| it.event == Event::Gone)).await?;

    let history = store.history();
    let told = history.iter().map(|entry| (&*entry.writer, entry.event)).collect::<Vec<_>>();
    let write = |token, value, accepted| Event::Write { token, value, accepted };
    assert_eq!(
        told,
        [
            ("one", Event::Enter(OLD)),
            ("one", write(OLD, 1, true)),
            ("two", Event::Enter(NEW)),
            ("one", write(OLD, 2, true)),
            ("two", write(NEW, 3, true)),
            ("one", write(OLD, 4, accepted[3])),
            ("two", write(NEW, 5, true)),
            ("one", Event::Lost(OLD)),
            ("two", Event::Leave(NEW)),
            ("two", Event::Gone),
        ]
    );
    Ok(accepted)
}

#[tokio::test]
async fn a_fenced_store_refuses_older_tokens_than_it_has_seen() -> Result<()> {
    assert_eq!(writes(Mode::Fenced).await?, [true, true, true, false, true]);
    Ok(())
}

#[tokio::test]
async fn a_recording_store_accepts_everything() -> Result<()> {
    assert_eq!(writes(Mode::Recording).await?, [true; 5]);
    Ok(())
}

#[tokio::test]
async fn nonsense_ends_the_connection() -> Result<()> {
    let store = Store::start(Mode::Fenced).await?;
    let mut ledger = Ledger::connect(store.address(), "a name with spaces").await?;
    assert!(ledger.enter(OLD).await.is_err());
    Ok(())
}
