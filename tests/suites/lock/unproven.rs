//! A write that was carried out and answered with an error that proves nothing: whichever recipe
//! gets such an answer, its node does not stay, and the next client gets in.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use tokio::time::timeout;
use zk_client::{Client, ErrorCode};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{
    Election, Error, Group, Lock, MultiLock, Owner, ReentrantLock, RwLock, Semaphore,
};
use zk_test_support::locks::{TIMEOUT, World, settle};

/// What is taken, to be dropped.
type Taken = Result<Box<dyn Any + Send>, Error>;

type Take = fn(Client) -> Pin<Box<dyn Future<Output = Taken> + Send>>;

/// A recipe of which one client at a time has what it gives out.
macro_rules! takes {
    ($($name:literal: |$client:ident| $taken:expr;)+) => {
        [$(($name, (|$client| Box::pin(async move {
            let taken: Box<dyn Any + Send> = Box::new($taken);
            Ok(taken)
        })) as Take)),+]
    };
}

/// The codes that prove nothing, one of them unknown to everybody.
const UNPROVEN: [i32; 7] = [-1, -2, -5, -7, -122, -128, -999];

#[tokio::test(start_paused = true)]
async fn whatever_proves_nothing_leaves_no_node_in_the_way() {
    let recipes = takes! {
        "lock": |client| Lock::new(&client, "/one")?.acquire().await?;
        "reader": |client| RwLock::new(&client, "/one")?.read().await?;
        "writer": |client| RwLock::new(&client, "/one")?.write().await?;
        "several": |client| MultiLock::new(&client, ["/one", "/two"])?.acquire().await?;
        "reentrant": |client| ReentrantLock::new(&client, "/one")?.acquire(&Owner::new()).await?;
        "semaphore": |client| Semaphore::new(&client, "/one", 1)?.acquire().await?;
        "election": |client| Election::new(&client, "/one")?.campaign().await?;
        "group": |client| Group::new(&client, "/one")?.join("ben", "").await?;
    };
    let ops = [OpCode::CREATE2, OpCode::MULTI];
    for (name, take) in recipes {
        let mut struck = 0;
        for (code, op, after) in UNPROVEN.iter().flat_map(|code| {
            ops.iter().flat_map(move |op| (0..3).map(move |after| (*code, *op, after)))
        }) {
            let world = World::new();
            let (one, other) = (world.client().await, world.client().await);
            // The folders exist from here on.
            drop(take(other.clone()).await.unwrap());
            settle().await;
            world.server.inject(Fault::disown(ErrorCode(code)).op(op).after(after));
            drop(take(one.clone()).await);
            struck += usize::from(world.server.pending_faults() == 0);
            world.server.clear_faults();
            let next = timeout(TIMEOUT, take(other.clone())).await;
            let next = next.unwrap_or_else(|_| panic!("{name} waits: {code}, {op} {after}"));
            next.unwrap_or_else(|error| panic!("{name}: {code}, {op} {after}: {error}"));
            assert!(one.state().is_connected(), "the session of the first lives on");
        }
        assert!(struck >= UNPROVEN.len(), "{name}: {struck}");
    }
}
