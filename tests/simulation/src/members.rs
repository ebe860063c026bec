//! The work of a member of a group and of its observers, and what must be true of memberships and
//! views: one member for an id, and each view is the group at its epoch.

use std::collections::BTreeMap;
use std::slice;

use zk_embedded::{Commit, Zxid};
use zk_recipes::{Group, Hold, Member, Members, Membership, View};

use super::journal::FOLDER;
use super::judge;
use super::network::World;
use super::nodes::{Known, nodes_at};
use super::process::{Phase, Progress};
use super::work::Job;

/// Few, so that several tasks want the same one.
const IDS: [&str; 3] = ["ana", "ben", "eva"];

#[derive(Clone, Copy, Debug)]
enum Entrance {
    Joins,
    Tries,
    TakesOver,
}

impl Job {
    /// Is a member for a while, or observes the group. Who has been a member often enough in the
    /// calm stays until it is over.
    pub(super) async fn be_member(&mut self) {
        let group = Group::new(&self.client, FOLDER).unwrap();
        let turns = self.trial.progress.lock().unwrap().served.get(&self.who.name).copied();
        if turns.is_some_and(|turns| turns >= self.trial.turns()) {
            return self.rest(&group).await;
        }
        let time = self.random.millis(0..1500);
        let is_storm = self.trial.phase() == Phase::Storm;
        if is_storm && self.random.percent(30) {
            drop(tokio::time::timeout(time, self.observe(&group, |_| ())).await);
            return;
        }
        let id = self.random.pick(&IDS).unwrap_or_default();
        let entrance = match self.random.within(0..10) {
            0..2 if is_storm => Entrance::Tries,
            2..4 if is_storm => Entrance::TakesOver,
            _ => Entrance::Joins,
        };
        let (who, request, polls) = (self.who, self.request(), self.polls(15, 12));
        self.trial.note(|| format!("{who} {entrance:?} as {id}, {polls}"));
        let data = self.random.next().to_string();
        let joining = async {
            match entrance {
                Entrance::Joins => group.join(id, data).await.map(Some),
                Entrance::Tries => group.try_join(id, data).await,
                Entrance::TakesOver => group.take_over(id, data).await.map(Some),
            }
        };
        match self.get(&request, polls, joining).await {
            Some(Some(member)) => {
                if matches!(entrance, Entrance::TakesOver) {
                    self.trial.count("takeovers");
                }
                self.begins(&request, member.state(), member.remaining());
                self.be_joined(member).await;
            }
            Some(None) => self.trial.count("tries in vain"),
            None => {}
        }
    }

    /// Is a member for a while, and leaves.
    async fn be_joined(&mut self, member: Membership) {
        let held = self.joined(&member);
        for _ in 0..self.random.within(1..4) {
            let time = self.random.millis(0..80);
            match self.random.within(0..4) {
                0 => drop(tokio::time::timeout(time, member.lost()).await),
                1 => {
                    let data = self.random.next().to_string();
                    let request = self.request();
                    match member.set_data(data).await {
                        Ok(()) => self.trial.count("data changed"),
                        Err(error) => judge::failed(&self.trial, &request, &error),
                    }
                }
                _ => tokio::time::sleep(time).await,
            }
            self.trial.look_at(held, member.state());
        }
        self.give_back(held, member, |member| member.leave()).await;
    }

    /// Checks that nobody else has the id: of all nodes with it, the member's has the lowest
    /// number.
    fn joined(&self, member: &Membership) -> usize {
        let (who, id, node) = (self.who, member.id(), member.node());
        self.record(slice::from_ref::<Hold>(member), |progress, world| {
            let World { net, journal, .. } = world;
            let now = members_at(net.core.history(), net.core.last_zxid());
            journal.note(|| format!("{who} IS {id} by {node}"));
            match now.get(id) {
                _ if !journal.is_alive(node, member.token().czxid()) => {
                    journal.count("grants told too late");
                }
                Some(first) if first.path != node => {
                    journal.violate(format!("{who} is {id} by {node} behind {}", first.path));
                }
                _ => {}
            }
            let mut valid = progress.valid(journal);
            valid.retain(|held| id_of(&held.nodes[0].0) == Some(id));
            if valid.len() > 1 {
                journal.violate(format!("{valid:?} are {id}"));
            }
        })
    }

    /// Stays in the group until the calm is over, or observes it only. Tells what it sees.
    async fn rest(&mut self, group: &Group) {
        let name = self.who.name;
        let member = match self.random.percent(50) {
            true => Some(group.join(&format!("{}-{}", name.0, name.1), "").await),
            false => None,
        };
        let request = self.request();
        if let Some(Err(error)) = &member {
            return judge::failed(&self.trial, &request, error);
        }
        let sees = |view: &View| {
            let nodes = view.members.iter().map(|member| member.node.clone());
            self.trial.progress.lock().unwrap().views.insert(name, nodes.collect());
        };
        tokio::select! {
            biased;
            () = self.observe(group, sees) => {}
            () = self.trial.until(Phase::Idle) => {}
        }
        self.trial.progress.lock().unwrap().views.remove(&name);
        drop(member);
    }

    /// Observes the group until the session is over.
    async fn observe(&self, group: &Group, sees: impl Fn(&View)) {
        let mut members = group.watch();
        while self.client.state().ended().is_none() {
            let request = self.request();
            let before = members.last().cloned();
            match members.next().await {
                Ok(view) => {
                    self.saw(&members, &view, before.as_ref());
                    sees(&view);
                }
                Err(error) => judge::failed(&self.trial, &request, &error),
            }
        }
    }

    /// Checks that a view is the group at its epoch, and newer than the one before.
    fn saw(&self, members: &Members, view: &View, before: Option<&View>) {
        let who = self.who;
        let mut world = self.trial.world.lock().unwrap();
        let World { net, journal, .. } = &mut *world;
        let at_epoch = members_at(net.core.history(), view.epoch);
        let last_zxid = net.core.last_zxid();
        journal.count("views");
        journal.note(|| format!("{who} SEES {view:?}"));
        if before.is_some_and(|before| before.epoch >= view.epoch) || view.epoch > last_zxid {
            journal.violate(format!("{who} sees {view:?} after {before:?}, at {last_zxid}"));
        }
        if members.last() != Some(view) {
            journal.violate(format!("{who} sees {view:?}, and {:?}", members.last()));
        }
        let same = |(seen, known): (&Member, (&&str, &Known))| {
            let (id, Known { path, session, czxid, mzxid, .. }) = known;
            (seen.id.as_str(), seen.node.as_str(), seen.czxid) == (*id, *path, *czxid)
                && Some(seen.session) == *session
                && (seen.mzxid >= *mzxid || journal.is_untold(who.name.0, path))
        };
        let is_same =
            view.members.len() == at_epoch.len() && view.members.iter().zip(&at_epoch).all(same);
        if !is_same {
            journal.violate(format!("{who} sees {view:?}, and there was {at_epoch:?}"));
        }
    }
}

/// What a task that rests sees of the group, if that is not what there is.
pub(super) fn outdated(progress: &Progress, history: &[Commit], last: Zxid) -> Option<String> {
    let members = members_at(history, last);
    let nodes = members.values().map(|known| known.path).collect::<Vec<_>>();
    let (name, view) = progress.views.iter().find(|(_, view)| **view != nodes)?;
    Some(format!("{name:?} sees {view:?}, and there are {nodes:?}"))
}

/// The id in the path of a member's node.
fn id_of(node: &str) -> Option<&str> {
    let (stem, _) = node.strip_prefix(FOLDER)?.rsplit_once("__party__")?;
    stem.split_once('~').map(|(_, id)| id)
}

/// The members of the group after a transaction, by their ids: of all nodes with one id, the one
/// with the lowest number is the member's.
fn members_at(history: &[Commit], at: Zxid) -> BTreeMap<&str, Known<'_>> {
    let mut members = BTreeMap::new();
    for known in nodes_at(history, at, "__party__") {
        if let Some(id) = id_of(known.path) {
            members.entry(id).or_insert(known);
        }
    }
    members
}
