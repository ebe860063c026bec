//! The store that a lock protects.

use anyhow::Result;
use zk_recipes::FencingToken;
use zk_test_support::history::{Event, Ledger, Mode, Store};

const OLD: FencingToken = FencingToken::new(7, 1);
const NEW: FencingToken = FencingToken::new(8, 0);

/// The answer to the one write whose token is older than that of an earlier one.
async fn accepts_older_tokens(mode: Mode) -> Result<bool> {
    let store = Store::start(mode).await?;
    let mut one = Ledger::connect(store.address(), "one").await?;
    let mut two = Ledger::connect(store.address(), "two").await?;
    one.tell("enter", OLD).await?;
    assert!(one.tell("write", OLD).await?);
    // The fence sees only the tokens of writes.
    two.tell("enter", NEW).await?;
    assert!(one.tell("write", OLD).await?);
    assert!(two.tell("write", NEW).await?);
    let accepted = one.tell("write", OLD).await?;
    assert!(two.tell("write", NEW).await?);
    one.tell("lost", OLD).await?;
    two.tell("leave", NEW).await?;
    drop(two);
    store.wait_for(|history| history.last().is_some_and(|it| it.event == Event::Gone)).await?;

    let history = store.history();
    let told = history.iter().map(|entry| (&*entry.writer, entry.event)).collect::<Vec<_>>();
    let write = |token, accepted| Event::Write { token, accepted };
    assert_eq!(
        told,
        [
            ("one", Event::Enter(OLD)),
            ("one", write(OLD, true)),
            ("two", Event::Enter(NEW)),
            ("one", write(OLD, true)),
            ("two", write(NEW, true)),
            ("one", write(OLD, accepted)),
            ("two", write(NEW, true)),
            ("one", Event::Lost(OLD)),
            ("two", Event::Leave(NEW)),
            ("two", Event::Gone),
        ]
    );
    Ok(accepted)
}

#[tokio::test]
async fn a_fenced_store_refuses_older_tokens_than_it_has_seen() -> Result<()> {
    assert!(!accepts_older_tokens(Mode::Fenced).await?);
    Ok(())
}

#[tokio::test]
async fn a_recording_store_accepts_everything() -> Result<()> {
    assert!(accepts_older_tokens(Mode::Recording).await?);
    Ok(())
}

#[tokio::test]
async fn nonsense_ends_the_connection() -> Result<()> {
    let store = Store::start(Mode::Fenced).await?;
    let mut ledger = Ledger::connect(store.address(), "a name with spaces").await?;
    assert!(ledger.tell("enter", OLD).await.is_err());
    Ok(())
}
