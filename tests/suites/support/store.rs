//! The store that a lock protects.

use anyhow::Result;
use zk_recipes::FencingToken;
use zk_test_support::history::{Event, Ledger, Mode, Store};

const OLD: FencingToken = FencingToken::new(7, 1);
const NEW: FencingToken = FencingToken::new(8, 0);

/// Checks each answer and the whole history. One write has an older token than an earlier one.
async fn check(mode: Mode, accepts_older_token: bool) -> Result<()> {
    let store = Store::start(mode).await?;
    let mut one = Ledger::connect(store.address(), "one").await?;
    let mut two = Ledger::connect(store.address(), "two").await?;
    let write = |token, accepted| Event::Write { token, accepted };
    let steps = [
        ("one", "enter", Event::Enter(OLD)),
        ("one", "write", write(OLD, true)),
        // The fence sees only the tokens of writes.
        ("two", "enter", Event::Enter(NEW)),
        ("one", "write", write(OLD, true)),
        ("two", "write", write(NEW, true)),
        ("one", "write", write(OLD, accepts_older_token)),
        ("two", "write", write(NEW, true)),
        ("one", "lost", Event::Lost(OLD)),
        ("two", "leave", Event::Leave(NEW)),
    ];
    for (writer, word, event) in steps {
        let (ledger, token) = if writer == "one" { (&mut one, OLD) } else { (&mut two, NEW) };
        let is_refused = matches!(event, Event::Write { accepted: false, .. });
        assert_eq!(ledger.tell(word, token).await?, !is_refused, "{event:?}");
    }
    drop(two);
    store.wait_for(|history| history.last().is_some_and(|it| it.event == Event::Gone)).await?;
    let expected = steps.iter().map(|(writer, _, event)| (*writer, *event));
    let expected = expected.chain([("two", Event::Gone)]).collect::<Vec<_>>();
    let history = store.history();
    let told = history.iter().map(|entry| (&*entry.writer, entry.event)).collect::<Vec<_>>();
    assert_eq!(told, expected);
    Ok(())
}

#[tokio::test]
async fn a_fenced_store_refuses_older_tokens_than_it_has_seen() -> Result<()> {
    check(Mode::Fenced, false).await
}

#[tokio::test]
async fn a_recording_store_accepts_everything() -> Result<()> {
    check(Mode::Recording, true).await
}

#[tokio::test]
async fn nonsense_ends_the_connection() -> Result<()> {
    let store = Store::start(Mode::Fenced).await?;
    let mut ledger = Ledger::connect(store.address(), "a name with spaces").await?;
    assert!(ledger.tell("enter", OLD).await.is_err());
    Ok(())
}
