//! The work of a task that takes several locks together, and what must hold whenever it has them:
//! nobody else has one of them.

use zk_recipes::MultiLock;

use super::journal::{FOLDER, SEVERAL};
use super::work::Job;

impl Job {
    /// Takes two locks or three, once, holds them for a while, and releases them.
    pub(super) async fn take_several(&mut self) {
        let mut folders = SEVERAL.map(|name| format!("{FOLDER}/{name}")).to_vec();
        let first = self.random.within(0..3) as usize;
        folders.rotate_left(first);
        if self.random.percent(70) {
            folders.pop();
        }
        let lock = MultiLock::new(&self.client, &folders).unwrap();
        let asked = self.ask(
            format!("{folders:?}"),
            lock.acquire(),
            |time| lock.acquire_within(time),
            lock.try_acquire(),
        );
        let Some((guard, request)) = asked.await else {
            return;
        };
        self.begins(&request, guard.state(), guard.remaining());
        let who = self.who;
        let held = self.record(guard.locks(), |progress, world| {
            world.journal.note(|| format!("{who} HOLDS {guard:?}"));
            let valid = progress.valid(&world.journal).into_iter();
            let nodes = valid.flat_map(|held| &held.nodes);
            let mut taken = nodes.filter_map(|(node, _)| node.rsplit_once('/')).collect::<Vec<_>>();
            taken.sort_unstable();
            if let Some(twice) = taken.windows(2).find(|two| two[0].0 == two[1].0) {
                world.journal.violate(format!("{who} holds {twice:?}, as somebody else does"));
            }
        });
        self.stay_with(held, 1..3, || guard.state()).await;
        self.give_back(held, guard, |guard| guard.release()).await;
    }
}
