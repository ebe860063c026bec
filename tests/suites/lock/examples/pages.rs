//! The programs of the documentation that go on in each session. Their code is that of the pages,
//! word for word; what is around it is different.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use zk_client::{Client, CreateOptions, Op, SessionKeeper};
use zk_recipes::{Election, Error, Group, Lock, Partitioner, View, retry};

/// What the services of several pages do.
async fn serve() {
    pending().await
}

/// The front page of the recipes, and their README.
pub(super) mod recipes {
    use super::*;

    pub(crate) async fn run(keeper: &SessionKeeper) -> Result<(), Box<dyn std::error::Error>> {
        // A session may end, and a connection break. Then the work begins anew, until it is done.
        let done = keeper.run_each(|client| async move { retry(|| invoice(&client)).await }).await;
        keeper.close().await;
        Ok(done?)
    }

    async fn invoice(client: &Client) -> Result<(), Error> {
        client.ensure("/invoices", &CreateOptions::persistent()).await?;
        let guard = Lock::new(client, "/locks/invoices")?.acquire().await?;
        let invoices = guard.run(rebuild()).await?; // stops when the lock is lost
        guard.fenced(Op::set_data("/invoices", &invoices, None)).await?; // only while it is ours
        guard.release().await?;
        Ok(())
    }

    async fn rebuild() -> Vec<u8> {
        b"all of them".to_vec()
    }
}

/// The page of `retry`.
pub(super) mod retry {
    use super::*;

    pub(crate) async fn run(keeper: &SessionKeeper) -> Result<(), zk_recipes::Error> {
        async fn work(client: &Client) -> Result<(), zk_recipes::Error> {
            let guard = Lock::new(client, "/locks/invoices")?.acquire().await?;
            guard.run(async { /* ... */ }).await?;
            guard.release().await?;
            Ok(())
        }

        keeper.run_each(|client| async move { retry(|| work(&client)).await }).await
    }
}

/// The page of `Group`.
pub(super) mod group {
    use super::*;

    pub(crate) async fn run(keeper: &SessionKeeper) -> Result<(), Error> {
        // A member in each session, and anew when it was lost while the session lives.
        keeper.run_each(|client| async move { retry(|| work(&client)).await }).await?;
        Ok(())
    }

    async fn work(client: &Client) -> Result<(), Error> {
        let group = Group::new(client, "/service/members")?;
        let member = group.join("worker-7", "10.0.0.7:80").await?;
        member.run(serve()).await // dropped when the membership is lost
    }

    async fn serve() {
        sleep(Duration::from_secs(5)).await;
    }
}

/// The page of `Partitioner`.
pub(super) mod partitioner {
    use super::*;

    thread_local! {
        /// The shards that were worked on.
        pub(crate) static CONSUMED: RefCell<BTreeSet<String>> = RefCell::default();
    }

    pub(crate) async fn run(keeper: &SessionKeeper) -> Result<(), Error> {
        // A member in each session, which works on its part of the shards.
        keeper
            .run_each(|client| async move {
                let shards = (0..32).map(|number| format!("queue-{number}"));
                let queues = Partitioner::new(&client, "/service/queues", shards)?;
                queues
                    .run("worker-7", async |queue| {
                        println!("{}: mine, with token {}", queue.name(), queue.token());
                        while !queue.is_stopping() {
                            consume(queue.name()).await; // dropped when the shard is lost
                        }
                    })
                    .await
            })
            .await?;
        Ok(())
    }

    async fn consume(shard: &str) {
        CONSUMED.with_borrow_mut(|consumed| consumed.insert(shard.to_owned()));
        sleep(Duration::from_secs(1)).await;
    }
}

/// The page on the parts of a service.
pub(super) mod in_a_service {
    use super::*;

    pub(crate) type Parts = JoinSet<Result<(), Error>>;
    type Seen = watch::Receiver<Option<View>>;

    pub(crate) fn start(keeper: &SessionKeeper, name: &str) -> (Parts, Seen) {
        let (mut parts, (tell, seen)) = (Parts::new(), watch::channel(None));
        // An async closure borrows what outlives the sessions.
        let (kept, name) = (keeper.clone(), name.to_owned());
        parts.spawn(async move {
            kept.run_each(async |client| retry(|| be_member(&client, &name)).await).await
        });
        let kept = keeper.clone();
        parts.spawn(async move {
            kept.run_each(async |client| retry(|| observe(&client, &tell)).await).await
        });
        let kept = keeper.clone();
        parts.spawn(async move {
            kept.run_each(async |client| retry(|| lead_or_wait(&client)).await).await
        });
        (parts, seen)
    }

    async fn be_member(client: &Client, name: &str) -> Result<(), Error> {
        let member = Group::new(client, "/service/members")?.join(name, "10.0.0.7:80").await?;
        member.run(pending()).await // an error once the membership is lost
    }

    /// Whatever the session, the last view is at hand for others.
    async fn observe(client: &Client, tell: &watch::Sender<Option<View>>) -> Result<(), Error> {
        let mut views = Group::new(client, "/service/members")?.watch();
        loop {
            tell.send_replace(Some(views.next().await?));
        }
    }

    async fn lead_or_wait(client: &Client) -> Result<(), Error> {
        Election::new(client, "/service/leader")?.lead(async |_term| serve().await).await
    }

    /// Errors that our own close caused are no failures.
    pub(crate) async fn stop(keeper: &SessionKeeper, mut parts: Parts) -> Vec<Error> {
        keeper.close().await;
        let mut failures = Vec::new();
        while let Some(ended) = parts.join_next().await {
            failures.extend(ended.expect("no panic").err());
        }
        failures.retain(|error| !error.is_session_over());
        failures
    }
}

/// The page of `SessionKeeper::run_each`.
pub(super) mod run_each {
    use super::*;

    pub(crate) async fn run<F: Future<Output = ()>>(
        keeper: &SessionKeeper,
        stopped: impl FnOnce() -> F,
    ) -> Result<(), zk_client::Error> {
        let registered = keeper.run_each(|client| async move {
            let options = CreateOptions::ephemeral();
            // If a reply is lost, `resolving` looks for the node. A session survives such a loss.
            while let Err(error) = client.resolving().create("/members/me", b"me", &options).await {
                if !error.is_transient() {
                    return Err(error);
                }
            }
            serve().await; // dropped when the session ends
            Ok(())
        });
        tokio::select! {
            done = registered => done?,
            _ = stopped() => {} // dropping the future drops the work
        }
        keeper.close().await; // releases what the session had
        Ok(())
    }
}
