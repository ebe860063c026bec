//! The example of a whole service, while replies are lost and sessions expire. The server's history
//! tells what was done.

use std::time::Duration;

use tokio::time::sleep;
use zk_client::CreateOptions;
use zk_embedded::{Change, Fault, OpCode};
use zk_test_support::locks::World;

#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/service.rs"]
mod example;

use crate::examples::{goes_on, in_worlds, trouble};
use example::Service;

async fn start(world: &World) -> Service {
    let keeper = world.builder().keep("zk").await.unwrap();
    Service::new(keeper).unwrap()
}

/// Lets two processes serve while something `happens`. Every job that was written must be done,
/// once. Returns how many there were.
async fn serve(world: &World, happens: impl AsyncFnOnce(&Service, &Service)) -> usize {
    let (one, other) = (start(world).await, start(world).await);
    goes_on(one.run(), goes_on(other.run(), happens(&one, &other))).await;
    // No job is written any more, and all that were are done.
    let last = start(world).await;
    one.keeper.close().await;
    other.keeper.close().await;
    let rest = async {
        // A job takes some time, which passes only while nothing else is to do.
        while !world.server.children("/service/jobs").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    goes_on(last.run(), rest).await;
    last.keeper.close().await;

    // A path that was created twice is there twice.
    let created = |folder| {
        let mut commits = world.server.history();
        commits.retain(|it| it.change == Change::Created && it.path.starts_with(folder));
        commits.into_iter().map(|commit| commit.path).collect::<Vec<_>>()
    };
    let (written, mut done) = (created("/service/jobs/").len(), created("/service/done/"));
    assert_eq!(done.len(), written, "{done:?}");
    done.sort();
    done.dedup();
    assert_eq!(done.len(), written, "{done:?}");
    written
}

#[tokio::test(start_paused = true)]
async fn two_processes_do_every_job_once() {
    let world = World::new();
    let jobs = serve(&world, async |_, _| sleep(Duration::from_millis(9_500)).await).await;
    assert!((9..=11).contains(&jobs), "{jobs} jobs");
}

#[tokio::test(start_paused = true)]
async fn replies_that_are_lost_cost_no_job_and_do_none_twice() {
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        for op in [OpCode::MULTI, OpCode::CREATE2, OpCode::GET_DATA, OpCode::DELETE] {
            let world = World::new();
            let jobs = serve(&world, async |_, _| {
                for _ in 0..5 {
                    world.server.inject(fault.clone().op(op));
                    sleep(Duration::from_secs(4)).await;
                }
            });
            assert!(jobs.await > 10);
        }
    }
}

#[test]
fn a_service_in_any_trouble_does_every_job_once() {
    in_worlds(async |world, _, random| {
        let jobs = serve(world, async |_, _| {
            trouble(&world.server, random).await;
            sleep(Duration::from_secs(10)).await;
        });
        assert!(jobs.await > 5);
    });
}

#[tokio::test(start_paused = true)]
async fn the_next_job_is_done_as_the_new_configuration_wants_it() {
    let world = World::new();
    serve(&world, async |_, _| {
        sleep(Duration::from_secs(2)).await;
        let admin = world.client().await;
        let persistent = CreateOptions::persistent();
        admin.create("/service/config", b"new", &persistent).await.unwrap();
        let before = world.server.children("/service/done").len();
        sleep(Duration::from_secs(2)).await;
        let done = world.server.children("/service/done");
        assert!(done.len() > before);
        for job in done.iter().skip(before + 1) {
            let node = admin.get_data(&format!("/service/done/{job}")).await.unwrap();
            assert!(String::from_utf8_lossy(&node.data).ends_with(" for new"), "{node:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_closed_leaves_its_lock_and_its_leadership_at_once() {
    let world = World::new();
    let service = start(&world).await;
    goes_on(service.run(), sleep(Duration::from_secs(2))).await;
    let metrics = service.metrics().await.unwrap();
    assert!(metrics.starts_with("jobs_done_total 2\n"), "{metrics}");
    service.keeper.close().await;
    let admin = world.client().await;
    for folder in ["/service/leader", "/service/worker"] {
        assert_eq!(world.server.children(folder), [""; 0]);
    }
    // It can be created, so the session is gone.
    admin.create("/service/leader/other", b"", &CreateOptions::ephemeral()).await.unwrap();
}
