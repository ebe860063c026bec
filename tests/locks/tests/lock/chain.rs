//! Locks that come round in the same order: each waits for the one ahead alone, and nothing but that
//! one's letting go makes it first.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_client::{Client, CreateOptions, Op};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Error, ErrorKind, Guard, Lock, LockState, Loss, Options};
use zk_tests::explore::poll_once;
use zk_tests::locks::{LOCK, TIMEOUT, World, settle};
use zk_tests::peer::Clock;

/// Turns of each contender after which they surely know what comes.
const STEADY: usize = 20;

/// Contenders of which each lets go and queues up again in one transaction.
struct Ring {
    world: Rc<World>,
    /// Looks and deletes.
    admin: Client,
    holder: Option<Contender<Guard>>,
    /// In the order of their places.
    waiting: VecDeque<Contender<JoinHandle<Result<Guard, Error>>>>,
}

struct Contender<P> {
    client: Client,
    lock: Lock,
    place: P,
}

type Waiter = Contender<JoinHandle<Result<Guard, Error>>>;

impl Waiter {
    /// Queues up behind what happens `before`, in the same poll.
    async fn start(client: Client, lock: Lock, before: impl FnOnce() + Send + 'static) -> Self {
        let acquirer = lock.clone();
        let place = tokio::spawn(async move {
            before();
            acquirer.acquire().await
        });
        settle().await;
        Self { client, lock, place }
    }

    async fn join(world: &World, options: Options) -> Self {
        let client = world.client().await;
        let lock = Lock::with_options(&client, LOCK, options).unwrap();
        Self::start(client, lock, || ()).await
    }

    async fn seated(self) -> Contender<Guard> {
        let Self { client, lock, place } = self;
        Contender { client, lock, place: place.await.unwrap().unwrap() }
    }
}

impl Ring {
    async fn new(contenders: usize, options: &Options) -> Self {
        let world = Rc::new(World::new());
        let admin = world.client().await;
        let mut ring = Self { admin, holder: None, waiting: VecDeque::new(), world };
        for _ in 0..contenders {
            ring.waiting.push_back(Waiter::join(&ring.world, options.clone()).await);
        }
        ring.next().await;
        ring
    }

    /// Contenders that know what comes.
    async fn steady(contenders: usize) -> Self {
        let mut ring = Self::new(contenders, &Options::new()).await;
        ring.rounds(STEADY).await;
        assert!(ring.is_chained().await, "each turn is two requests");
        ring
    }

    /// The next one gets the lock, and nobody else.
    async fn next(&mut self) {
        let holder = self.waiting.pop_front().unwrap().seated().await;
        self.world.is_owner(&holder.place);
        self.holder = Some(holder);
        self.nobody_else();
    }

    fn nobody_else(&self) {
        let finished = self.waiting.iter().filter(|one| one.place.is_finished()).count();
        assert_eq!(finished, 0, "so many hold it beside the holder");
    }

    /// The holder goes to the end of the queue.
    async fn goes_to_the_end(&mut self) {
        self.nobody_else();
        let Contender { client, lock, place } = self.holder.take().unwrap();
        self.waiting.push_back(Waiter::start(client, lock, || drop(place)).await);
    }

    async fn pass(&mut self) {
        self.goes_to_the_end().await;
        self.next().await;
    }

    async fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds * (self.waiting.len() + 1) {
            self.pass().await;
        }
    }

    /// How many requests a round takes.
    async fn requests(&mut self) -> u64 {
        let world = Rc::clone(&self.world);
        world.requests(self.rounds(1)).await.0
    }

    /// Whether each turn is a transaction and one request for watches: nobody lists, and whoever
    /// followed all would need no watches.
    async fn is_chained(&mut self) -> bool {
        let turns = self.waiting.len() as u64 + 1;
        self.requests().await == 2 * turns
    }

    /// Everybody still gets in, one after the other; and once nothing has happened for a while, they
    /// know again what comes.
    async fn goes_on(mut self) {
        self.rounds(2).await;
        self.rounds(STEADY).await;
        assert!(self.is_chained().await);
        self.ends().await;
    }

    /// Everybody gets in and leaves for good.
    async fn ends(mut self) {
        while let Some(holder) = self.holder.take() {
            self.nobody_else();
            holder.place.release().await.unwrap();
            if !self.waiting.is_empty() {
                self.next().await;
            }
        }
        self.admin.close().await;
        self.world.is_empty().await;
    }

    /// The path of the node that has this place in the queue; the holder's is the first.
    fn node(&self, place: usize) -> String {
        format!("{LOCK}/{}", self.world.queue()[place])
    }

    async fn delete(&self, place: usize) {
        self.admin.delete(&self.node(place), None).await.unwrap();
        settle().await;
    }

    /// The node of this one, of whom the first waits next, has gone, and it is told.
    async fn vanishes(&mut self, waiter: usize) {
        let vanished = self.waiting.remove(waiter).unwrap();
        let error = vanished.place.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NodeVanished, "{error}");
        // It comes again.
        let Contender { client, lock, .. } = vanished;
        let place = Waiter::start(client, lock, || ()).await;
        self.waiting.push_back(place);
    }

    /// Whether somebody has asked the holder for the lock.
    async fn is_wanted_back(&self) -> bool {
        let mut wanted = pin!(self.holds().revoke_requested());
        if poll_once(wanted.as_mut()).is_pending() {
            settle().await;
        }
        poll_once(wanted.as_mut()).is_ready()
    }

    fn holds(&self) -> &Guard {
        &self.holder.as_ref().unwrap().place
    }
}

#[tokio::test(start_paused = true)]
async fn three_and_more_come_down_to_two_requests_and_no_list() {
    for contenders in [3, 4, 20] {
        let mut ring = Ring::steady(contenders).await;
        ring.rounds(STEADY).await;
        assert!(ring.is_chained().await);
        ring.ends().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_follow_each_other_by_the_mirror() {
    let mut ring = Ring::new(2, &Options::new()).await;
    ring.rounds(2 * STEADY).await;
    assert_eq!(ring.requests().await, 2);
    ring.ends().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_mirror_they_know_what_comes_too() {
    let mut ring = Ring::new(3, &Options::new().mirror(false)).await;
    ring.rounds(STEADY).await;
    assert!(ring.is_chained().await);
    ring.ends().await;
}

#[tokio::test(start_paused = true)]
async fn who_must_see_everybody_or_may_not_be_read_is_not_chained() {
    use zk_client::{Acl, Id, Perms};
    let anyone = [Acl::new(Perms::ALL, Id::new("world", "anyone"))];
    let secret = [Acl::new(Perms::ALL.without(Perms::ADMIN), Id::new("world", "anyone"))];
    for (options, chained) in [
        (Options::new().acl(&anyone), true),
        (Options::new().acl(&secret), false),
        (Options::new().strict_foreign(true), false),
    ] {
        let mut ring = Ring::new(3, &options).await;
        ring.rounds(STEADY).await;
        assert_eq!(ring.is_chained().await, chained, "{options:?}");
        ring.ends().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_or_leaves_is_noticed() {
    let mut ring = Ring::steady(3).await;
    let newcomer = Waiter::join(&ring.world, Options::new()).await;
    ring.waiting.push_back(newcomer);
    ring.rounds(1).await;
    let world = Rc::clone(&ring.world);
    let Contender { place, .. } = ring.waiting.remove(1).unwrap();
    place.abort();
    place.await.unwrap_err();
    settle().await;
    assert_eq!(world.queue().len(), 3);
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_no_contender_is_no_hindrance() {
    let mut ring = Ring::steady(3).await;
    let config = format!("{LOCK}/the-configuration");
    ring.goes_to_the_end().await;
    ring.admin.create(&config, b"", &CreateOptions::persistent()).await.unwrap();
    ring.next().await;
    ring.rounds(2).await;
    ring.admin.delete(&config, None).await.unwrap();
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn a_place_that_ends_while_it_waits_lets_nobody_in() {
    // By its owner's will, by somebody else's, or with its session.
    for how in 0..3 {
        let mut ring = Ring::steady(4).await;
        let leaver = ring.waiting.remove(1).unwrap();
        match how {
            0 => leaver.place.abort(),
            1 => ring.delete(2).await,
            _ => {
                let session = leaver.client.session().unwrap().id;
                assert!(ring.world.server.expire(session));
            }
        }
        assert!(leaver.place.await.is_err_and(|error| error.is_cancelled()) == (how == 0));
        settle().await;
        ring.nobody_else();
        assert_eq!(ring.world.queue().len(), 3);
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ends_is_followed_by_the_next_one() {
    for how in 0..2 {
        let mut ring = Ring::steady(4).await;
        let holder = ring.holder.take().unwrap();
        match how {
            0 => ring.delete(0).await,
            _ => {
                let session = holder.client.session().unwrap().id;
                assert!(ring.world.server.expire(session));
            }
        }
        ring.next().await;
        let loss = holder.place.lost().await;
        assert_eq!(loss == Loss::NodeDeleted, how == 0, "{loss}");
        drop(holder);
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whose_own_node_ends_is_told_and_never_gets_in() {
    for waiter in 0..3 {
        let mut ring = Ring::steady(4).await;
        ring.delete(1 + waiter).await;
        ring.vanishes(waiter).await;
        ring.nobody_else();
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_with_the_one_ahead_lets_nobody_in() {
    for first in [0, 1] {
        let mut ring = Ring::steady(4).await;
        let gone = [ring.node(1), ring.node(2)];
        let [one, other] = [&gone[first], &gone[1 - first]].map(|path| Op::delete(path, None));
        ring.admin.multi((one, other)).await.unwrap();
        ring.vanishes(0).await;
        ring.vanishes(0).await;
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_told_with_the_hand_over_came_before_it() {
    let mut ring = Ring::steady(4).await;
    let victim = ring.waiting.pop_front().unwrap();
    // All that its server has to say to it comes at once, a second later.
    let session = victim.client.session().unwrap().id;
    let held_back = Fault::delay(Duration::from_secs(1)).op(OpCode::EXISTS).session(session);
    ring.world.server.inject(held_back);
    let told = victim.client.exists("/");
    settle().await;
    ring.delete(1).await;
    ring.pass().await;
    assert!(!victim.place.is_finished());
    told.await.unwrap();
    let error = victim.place.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NodeVanished, "{error}");
    ring.goes_on().await;
}

/// A contender that gives up while it waits and asks again at once, time and again.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_and_asks_again_at_once_lets_nobody_in() {
    let mut ring = Ring::steady(3).await;
    let Contender { client, lock, place } = ring.waiting.pop_front().unwrap();
    place.abort();
    let fidgety = lock.clone();
    let place = tokio::spawn(async move {
        for _ in 0..3 {
            let mut given_up = Box::pin(fidgety.acquire());
            assert!(poll_once(given_up.as_mut()).is_pending());
            settle().await;
            assert!(poll_once(given_up.as_mut()).is_pending());
        }
        fidgety.acquire().await
    });
    tokio::time::sleep(TIMEOUT / 2).await;
    ring.waiting.push_back(Contender { client, lock, place });
    ring.nobody_else();
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_to_a_node_is_seen_by_its_owner() {
    for place in [0, 1, 2] {
        let mut ring = Ring::steady(3).await;
        let node = ring.node(place);
        ring.admin.set_data(&node, b"__REVOKE__", None).await.unwrap();
        settle().await;
        for _ in 0..place {
            assert!(!ring.is_wanted_back().await);
            ring.pass().await;
        }
        assert_eq!(ring.holds().node(), node);
        assert!(ring.is_wanted_back().await);
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_that_its_node_was_deleted() {
    let mut ring = Ring::steady(3).await;
    ring.pass().await;
    assert!(matches!(ring.holds().state(), LockState::Held));
    let mut lost = Box::pin(ring.holds().lost());
    assert!(poll_once(lost.as_mut()).is_pending());
    settle().await;
    let node = ring.holds().node().to_owned();
    ring.admin.delete(&node, None).await.unwrap();
    assert_eq!(lost.await, Loss::NodeDeleted);
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_when_it_gets_its_turn_asks() {
    // Whose connection breaks ahead of the hand-over, or right behind it.
    for (waiter, ahead) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut ring = Ring::steady(4).await;
        let session = ring.waiting[waiter].client.session().unwrap().id;
        if ahead {
            assert!(ring.world.server.disconnect(session));
        }
        let Contender { client, lock, place } = ring.holder.take().unwrap();
        let again = Waiter::start(client, lock, || drop(place));
        let again = if ahead {
            again.await
        } else {
            let mut again = Box::pin(again);
            assert!(poll_once(again.as_mut()).is_pending());
            assert!(ring.world.server.disconnect(session));
            again.await
        };
        ring.waiting.push_back(again);
        ring.next().await;
        ring.goes_on().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_hides_is_found_gone_after_a_while() {
    let mut ring = Ring::steady(3).await;
    let node = ring.holds().node().to_owned();
    ring.world.hide(&node).await;
    let clock = Clock::start();
    ring.goes_to_the_end().await;
    ring.next().await;
    assert!(clock.elapsed() <= 2 * TIMEOUT, "{:?}", clock.elapsed());
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn long_tenures_cost_a_look_now_and_then() {
    let mut ring = Ring::steady(3).await;
    let world = Rc::clone(&ring.world);
    let (requests, ()) = world.requests(tokio::time::sleep(10 * TIMEOUT + TIMEOUT / 8)).await;
    ring.nobody_else();
    // In a session timeout the holder pings and proves itself some 17 times, and each of the two
    // others pings some three times.
    assert!(requests < 300, "{requests}");
    // Whoever has waited for so long looks at its session once.
    ring.rounds(1).await;
    assert!(ring.is_chained().await, "nothing was other than expected");
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn two_locks_of_one_client_follow_each_other_like_any() {
    let mut ring = Ring::new(3, &Options::new()).await;
    let client = ring.waiting[1].client.clone();
    let lock = Lock::new(&client, LOCK).unwrap();
    ring.waiting.push_back(Waiter::start(client, lock, || ()).await);
    ring.rounds(2 * STEADY).await;
    for _ in 0..3 {
        assert!(ring.is_chained().await);
    }
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_to_a_node_is_seen_whatever_its_client_is_told_meanwhile() {
    let mut ring = Ring::steady(3).await;
    let node = ring.node(1);
    let client = ring.waiting[0].client.clone();
    let busy = tokio::spawn(async move {
        for _ in 0..200 {
            client.exists("/").await.unwrap();
        }
    });
    ring.admin.set_data(&node, b"__REVOKE__", None).await.unwrap();
    busy.await.unwrap();
    settle().await;
    ring.pass().await;
    assert_eq!(ring.holds().node(), node);
    assert!(ring.is_wanted_back().await);
    ring.goes_on().await;
}

#[tokio::test(start_paused = true)]
async fn who_goes_on_alone_is_not_kept_from_the_mirror() {
    let mut ring = Ring::steady(3).await;
    let Contender { lock, place, .. } = ring.holder.take().unwrap();
    place.release().await.unwrap();
    while !ring.waiting.is_empty() {
        ring.next().await;
        ring.holder.take().unwrap().place.release().await.unwrap();
    }
    let world = Rc::clone(&ring.world);
    let tries = async |turns: usize| {
        for _ in 0..turns {
            lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
        }
    };
    tries(5).await;
    assert_eq!(world.requests(tries(20)).await.0, 2 * 20);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_still_to_come_is_not_passed_by() {
    let mut ring = Ring::steady(3).await;
    let last = ring.world.queue().pop().unwrap();
    let number = last[last.len() - 10..].parse::<u32>().unwrap() + 100;
    let stranger = format!("{LOCK}/_c_00112233-4455-6677-8899-aabbccddeeff-lock-{number:010}");
    ring.admin.create(&stranger, b"", &CreateOptions::persistent()).await.unwrap();
    let passed = tokio::time::timeout(20 * TIMEOUT, ring.rounds(60)).await;
    assert!(passed.is_err(), "everybody has passed it by");
    assert_eq!(ring.node(0), stranger);
}
