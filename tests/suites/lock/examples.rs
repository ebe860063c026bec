//! The programs that people copy, each in many worlds where replies are lost, connections are cut,
//! and sessions expire. A seed decides what goes wrong. A program ends only with its work done.

mod pages;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use regex::Regex;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{sleep, timeout};
use walkdir::WalkDir;
use zk_client::{CreateOptions, SessionKeeper};
use zk_embedded::{Fault, Server};
use zk_recipes::{Election, LockMeter, View};
use zk_test_support::explore::in_virtual_time;
use zk_test_support::locks::World;

use crate::metrics::example as metrics;
use pages::partitioner::CONSUMED;

#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/leader.rs"]
mod leader;
#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/own_errors.rs"]
mod own_errors;
#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/readme.rs"]
mod readme;
#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-client/examples/session_keeper.rs"]
mod session_keeper;

/// How many worlds each program runs in.
const SEEDS: u64 = 100;

/// Runs a test in many worlds, each with a keeper.
pub(crate) fn in_worlds(test: impl AsyncFn(&World, &SessionKeeper, &mut Rng)) {
    for seed in 0..SEEDS {
        let run = async {
            let world = World::new();
            let keeper = world.builder().keep("zk").await.unwrap();
            test(&world, &keeper, &mut Rng::with_seed(seed)).await;
            keeper.close().await;
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| in_virtual_time(run))) {
            eprintln!("with the seed {seed}");
            resume_unwind(panic);
        }
    }
}

/// Lets things go wrong for a while.
pub(crate) async fn trouble(server: &Server, random: &mut Rng) {
    for _ in 0..8 {
        for _ in 0..random.u32(1..=4) {
            let fault = match random.u32(0..8) {
                0..3 => Fault::lose_reply(),
                3..5 => Fault::lose_request(),
                5 => Fault::cut_reply(random.usize(1..40)),
                6 => Fault::go_silent(),
                _ => Fault::expire_session(),
            };
            server.inject(fault.after(random.u32(0..24)));
        }
        sleep(Duration::from_millis(random.u64(0..4_000))).await;
        match random.u32(0..4) {
            0 => server.disconnect_all(),
            1 => expire_all(server),
            _ => {}
        }
    }
    server.clear_faults();
}

fn expire_all(server: &Server) {
    for session in server.sessions() {
        server.expire(session);
    }
}

/// Runs a program to its end, while things go wrong.
async fn to_its_end<T>(world: &World, random: &mut Rng, program: impl Future<Output = T>) -> T {
    let mut program = std::pin::pin!(program);
    tokio::select! {
        biased;
        ended = &mut program => ended,
        () = trouble(&world.server, random) => program.await,
    }
}

/// Lets something happen beside a program that goes on for ever.
pub(crate) async fn goes_on<T: Debug>(
    program: impl Future<Output = T>,
    happens: impl Future<Output = ()>,
) {
    tokio::select! {
        ended = program => panic!("it has ended: {ended:?}"),
        () = happens => {}
    }
}

#[test]
fn the_program_of_the_readme_ends_with_its_work_done() {
    in_worlds(async |world, keeper, random| {
        to_its_end(world, random, readme::run(keeper)).await.unwrap();
        assert_eq!(world.server.data("/motd").unwrap(), "42");
    });
}

#[test]
fn the_program_of_the_recipes_ends_with_its_work_done() {
    in_worlds(async |world, keeper, random| {
        to_its_end(world, random, pages::recipes::run(keeper)).await.unwrap();
        assert_eq!(world.server.data("/invoices").unwrap(), "all of them");
    });
}

#[test]
fn a_member_goes_on_until_its_work_is_done() {
    in_worlds(async |world, keeper, random| {
        to_its_end(world, random, pages::group::run(keeper)).await.unwrap();
    });
}

#[test]
fn work_under_a_lock_is_retried_until_it_is_done() {
    in_worlds(async |world, keeper, random| {
        to_its_end(world, random, pages::retry::run(keeper)).await.unwrap();
    });
}

#[test]
fn a_partitioner_works_on_all_shards_again_behind_any_trouble() {
    in_worlds(async |world, keeper, random| {
        let again = async {
            trouble(&world.server, random).await;
            expire_all(&world.server);
            CONSUMED.take();
            while CONSUMED.with_borrow(BTreeSet::len) < 32 {
                sleep(Duration::from_secs(1)).await;
            }
        };
        goes_on(pages::partitioner::run(keeper), again).await;
    });
}

#[test]
fn a_service_is_registered_again_behind_any_trouble() {
    in_worlds(async |world, keeper, random| {
        world.client().await.ensure("/members", &CreateOptions::persistent()).await.unwrap();
        let registered = async {
            trouble(&world.server, random).await;
            is_made(world, "/members/me").await;
        };
        pages::run_each::run(keeper, || registered).await.unwrap();
    });
}

#[test]
fn the_node_of_a_kept_session_is_made_again_behind_any_trouble() {
    in_worlds(async |world, keeper, random| {
        let again = async {
            trouble(&world.server, random).await;
            is_made(world, "/here").await;
        };
        goes_on(session_keeper::register(keeper), again).await;
    });
}

/// Ends all sessions, and waits until one of the next has made the node.
async fn is_made(world: &World, path: &str) {
    expire_all(&world.server);
    while !world.server.has_node(path) {
        sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_service_leads_again_behind_any_trouble() {
    in_worlds(async |world, keeper, random| {
        let (tell, mut terms) = unbounded_channel();
        let again = async {
            trouble(&world.server, random).await;
            // The next term is one that begins from now on.
            while terms.try_recv().is_ok() {}
            expire_all(&world.server);
            terms.recv().await.unwrap();
        };
        goes_on(leader::run(keeper, &tell), again).await;
    });
}

#[test]
fn a_service_with_errors_of_its_own_ends_with_one_of_them() {
    in_worlds(async |world, keeper, random| {
        let service = own_errors::Service::default();
        let ended = to_its_end(world, random, service.run(keeper)).await;
        assert!(matches!(ended, Err(own_errors::ServiceError::Http(_))), "{ended:?}");
        assert_eq!(service.stored.lock().unwrap().len(), 2);
    });
}

#[test]
fn a_lock_with_a_meter_gets_all_its_turns() {
    in_worlds(async |world, keeper, random| {
        let meter = LockMeter::new();
        let pause = Duration::from_millis(100);
        let turns = metrics::run(keeper, &meter, 20, pause);
        to_its_end(world, random, turns).await.unwrap();
        assert!(meter.stats().acquired >= 20);
    });
}

#[test]
fn the_parts_of_a_service_go_on_behind_any_trouble_and_end_without_a_failure() {
    in_worlds(async |world, keeper, random| {
        let (parts, mut seen) = pages::in_a_service::start(keeper, "worker-7");
        trouble(&world.server, random).await;
        expire_all(&world.server);
        let lives = |session| world.server.sessions().contains(&session);
        let has_member = |view: &View| view.members.iter().any(|member| lives(member.session));
        seen.wait_for(|view| view.as_ref().is_some_and(has_member)).await.unwrap();
        let raw = world.client().await;
        let mut leaders = Election::new(&raw, "/service/leader").unwrap().observe();
        let leads = async {
            while !leaders.next().await.unwrap().is_some_and(|leader| lives(leader.session)) {}
        };
        timeout(Duration::from_secs(60), leads).await.expect("somebody leads");
        raw.close().await;
        let failures = pages::in_a_service::stop(keeper, parts).await;
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!(world.server.sessions(), []);
    });
}

/// The code of each page that works in sessions is what runs here.
#[test]
fn the_pages_show_what_runs_here() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tested = words(&include_str!("examples/pages.rs").replace("pub(crate) ", ""));
    let places = ["zk-recipes/README.md", "zk-client/README.md", "zk-recipes/src", "zk-client/src"];
    let entries = places.iter().flat_map(|place| WalkDir::new(root.join(place)));
    let files = entries.map(|entry| entry.unwrap().into_path()).filter(|path| path.is_file());
    let comment = Regex::new("(?m)^ *//[/!] ?").unwrap();
    // What the pages have around it differs.
    let around = "(?m)^ *(?:# |use |rust|let keeper|#\\[tokio::main\\]|async fn main|$).*";
    let around = Regex::new(around).unwrap();
    let mut shown = 0;
    // What this page runs in each session only waits for its end, and the tests of `KeyedLocks` run
    // what it shows.
    for file in files.filter(|file| !file.ends_with("lock_per_key.md")) {
        let text = fs::read_to_string(&file).unwrap();
        let text = comment.replace_all(&text, "");
        let blocks = text.split("```").skip(1).step_by(2);
        let works = |block: &&str| [".run_each(|", "retry(|| "].iter().any(|it| block.contains(it));
        for block in blocks.filter(works) {
            shown += 1;
            for part in around.split(block).map(words) {
                assert!(tested.contains(&part), "{}: not tested: {part}", file.display());
            }
        }
    }
    assert_eq!(shown, 7, "pages that work in sessions");
}

/// The words of a text: line breaks and alignment may differ.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_example_of_fenced_writes_runs_to_its_end() {
    let said = zk_test_support::tour::run("fencing", &[]).await.unwrap();
    assert!(said.ends_with("both still say what the second wrote: 70\n"), "{said}");
}
