//! The recipes on servers that are not Apache's, as far as zk-embedded imitates them.
//!
//! A session that ends with its connection is the hardest of what they do: the next holder may be
//! in at once. What a server does not know must be said, and not tried for ever.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::timeout;
use zk_client::{Client, CreateOptions, Dialect, ErrorCode, Op, OpCode, Outcome};
use zk_embedded::{Config, Deviation, Fault, Manner, Server};
use zk_recipes::{ErrorKind, Freshness, Lock, RwLock, TreeCache, TreeLimits};
use zk_test_support::explore::settle;
use zk_test_support::like::dialect_for;
use zk_test_support::locks::{TIMEOUT, World};
use zk_test_support::trials::{Clients, TRIALS, Trial};

const PLAIN: CreateOptions<'_> = CreateOptions::persistent();

/// The manners in which a session ends with its connection, each with the dialect for it.
fn keepers() -> [(Manner, Dialect); 2] {
    let both = [Manner::ALL[1], Manner::ALL[2]];
    both.map(|(name, manner)| (manner, dialect_for(name)))
}

fn world(manner: Manner) -> World {
    World::with(Config::new().manner(manner))
}

async fn connect(world: &World, dialect: Dialect) -> Client {
    world.builder().dialect(dialect).connect("keeper").await.unwrap()
}

/// Tries a recipe on a new server, where it costs no connection. Returns whether it works.
async fn works(manner: Manner, dialect: Dialect, trial: Trial) -> bool {
    let world = world(manner);
    let keeper = world.builder().dialect(dialect).keep("keeper").await.unwrap();
    let (one, other) = (keeper.client().await.unwrap(), connect(&world, dialect).await);
    let clients = Clients { keeper: keeper.clone(), one, other: other.clone(), loses: false };
    let trying = tokio::spawn((trial.run)(clients));
    // What waits for ever does not work either.
    let works = matches!(timeout(10 * TIMEOUT, trying).await, Ok(Ok(Ok(()))));
    let attempts = keeper.stats().totals.attempts + other.stats().totals.attempts;
    assert_eq!(attempts, 2, "{trial:?} on {manner:?}");
    works
}

#[tokio::test(start_paused = true)]
async fn the_table_in_the_readme_says_what_works_where() {
    let names = Manner::ALL.map(|(name, _)| name);
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for trial in TRIALS {
        table.push_str(&format!("| {} |", trial.recipes));
        for (like, manner) in Manner::ALL {
            let works = works(manner, dialect_for(like), trial).await;
            table.push_str(if works { " yes |" } else { " no |" });
        }
        table.push('\n');
    }
    println!("{table}");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&table), "README.md has another table than this:\n{table}");
}

/// The events of its recursive watches name no node, and an old one has none.
#[tokio::test(start_paused = true)]
async fn a_tree_says_at_once_that_the_server_has_no_watch_for_it() {
    for (manner, dialect) in keepers() {
        let world = world(manner);
        let keeper = world.builder().dialect(dialect).keep("keeper").await.unwrap();
        let (tree, following) = TreeCache::follow(&keeper, "/", TreeLimits::default()).unwrap();
        let following = tokio::spawn(following);
        let mut status = tree.status();
        let error = status.wait_for(|status| status.error.is_some()).await.unwrap().error.clone();
        let error = error.unwrap().to_string();
        assert!(error.contains("addWatch /") && error.contains("dialect"), "{error}");
        assert_eq!(tree.status().borrow().freshness, Freshness::Unknown);
        assert_eq!(keeper.client().await.unwrap().stats().totals.connections, 1);
        following.abort();
    }
}

/// A lost connection says nothing about an operation that was answered before.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_again_and_again_is_no_reason_to_give_up_a_known_request() {
    let manner = Manner::apache().with(Deviation::SessionEndsWithConnection);
    let dialect = Dialect::apache().session_ends_with_connection(true);
    let world = world(manner);
    let keeper = world.builder().dialect(dialect).keep("keeper").await.unwrap();
    keeper.client().await.unwrap().create("/there", b"", &PLAIN).await.unwrap();
    let times = Cell::new(0);
    let work = async |client: Client| {
        if times.replace(times.get() + 1) < 5 {
            world.server.inject(Fault::lose_request().op(OpCode::CREATE2));
        }
        Lock::new(&client, "/lock")?.acquire().await?.release().await
    };
    keeper.run_each(work).await.unwrap();
    assert_eq!(times.get(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_leader_is_called_that() {
    let world = world(Manner::clickhouse_keeper());
    world.server.set_serving(false);
    let builder = world.builder().dialect(Dialect::clickhouse_keeper());
    let error = builder.connect_timeout(Duration::from_secs(1)).connect("keeper").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has no leader"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_flags_of_a_keeper_tell_what_it_understands() {
    for (manner, expected) in keepers() {
        let server = Server::in_memory(Config::new().manner(manner));
        let asking = Client::builder().connector(server.connector());
        let asking = asking.dialect(Dialect::clickhouse_keeper()).connect("keeper").await.unwrap();
        let told = asking.keeper_dialect().await.unwrap();
        let ops = [OpCode::CREATE2, OpCode::ADD_WATCH, OpCode::MULTI_READ, OpCode::WHO_AM_I];
        let known = |dialect: Dialect| ops.map(|op| dialect.understands(op));
        assert_eq!(known(told), known(expected.with(OpCode::MULTI_READ)), "{manner:?}");
    }
}

/// A session that it could hand on ends with its connection.
#[tokio::test(start_paused = true)]
async fn a_ticket_is_refused_and_its_lock_released() {
    for (manner, dialect) in keepers() {
        let world = world(manner);
        let client = connect(&world, dialect).await;
        let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
        let error = guard.into_ticket().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        settle().await;
        assert_eq!(world.server.children("/lock"), [""; 0]);
    }
}

/// A transaction was carried out whose new node the client cannot read, to learn its czxid.
#[tokio::test(start_paused = true)]
async fn a_new_node_that_is_not_shown_gives_no_guard_back_and_is_not_asked_for_without_an_end() {
    let (manner, dialect) = keepers()[0];
    let world = world(manner);
    let client = connect(&world, dialect).await;
    let hides = || world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::EXISTS));
    let writer = RwLock::new(&client, "/lock").unwrap().write().await.unwrap();
    hides();
    let refused = writer.downgrade().await.unwrap_err();
    assert_eq!((refused.guard.is_none(), refused.error.kind()), (true, ErrorKind::Lost));

    (0..100).for_each(|_| hides());
    let error = Lock::new(&client, "/other").unwrap().acquire().await.unwrap_err();
    assert!(error.client().is_some_and(zk_client::Error::is_no_node), "{error}");
}

/// The server would end the connection, and the session with it.
#[tokio::test(start_paused = true)]
async fn a_transaction_with_what_the_server_lacks_is_refused_unsent() {
    let (manner, dialect) = keepers()[0];
    let world = world(manner);
    let client = connect(&world, dialect).await;
    let container = Op::create("/b", b"", &CreateOptions::container());
    let ops = [Op::create("/a", b"", &PLAIN), container];
    let error = client.multi(ops).await.unwrap_err();
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::UNIMPLEMENTED), Some(1)));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let owned = Op::create_owned("/x-0000000000", b"", &CreateOptions::ephemeral());
    let replies = client.multi_owned((owned, container));
    for reply in replies {
        assert_eq!(reply.await.unwrap_err().code(), Some(ErrorCode::UNIMPLEMENTED));
    }
    assert_eq!(client.stats().totals.connections, 1);
    assert_eq!(client.exists("/a").await.unwrap(), None);
}
