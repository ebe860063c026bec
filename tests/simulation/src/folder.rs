//! The actions of others in the lock's folder: an operator that deletes and writes nodes,
//! contenders of another client, and children that are not contenders.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_client::{Acl, Client, CreateOptions, ErrorCode, Id, Op, Perms};

use super::journal::{FOLDER, folders, nodes};
use super::nemesis::Nemesis;
use super::process::{Phase, Trial};
use super::wire::Reception;
use crate::task::spawn;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

/// The data that is written to nodes. Some of it asks for the lock back.
const WORDS: [&[u8]; 3] = [b"seen", REVOKE, b"unlock"];

/// What asks the holder for the lock back.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

/// The longest time that others stay in the folder, in milliseconds.
const STAYS: u64 = 120;

/// How many changes the operator makes that others miss.
const MANY: usize = 1_000;

/// The pause before a request of the operator is repeated.
const PAUSE: Duration = Duration::from_millis(20);

impl Nemesis {
    /// The paths of some of the nodes.
    fn some(&mut self, most: usize) -> Vec<String> {
        let mut nodes = nodes(&self.trial.world.lock().unwrap().net.core);
        let mut some = Vec::new();
        while some.len() < most
            && let Some(node) = self.others.pick(&nodes)
        {
            nodes.retain(|other| *other != node);
            some.push(node);
        }
        some
    }

    /// Deletes the nodes of up to `most` contenders, one by one.
    pub(super) fn delete(&mut self, what: &'static str, most: usize) {
        for path in self.some(most) {
            counts(&self.trial, what, self.operator.delete(&path, None));
        }
    }

    /// Deletes two nodes in one transaction.
    pub(super) fn delete_two(&mut self) {
        if let [one, two] = &*self.some(2) {
            let ops = (Op::delete(one, None), Op::delete(two, None));
            counts(&self.trial, "two deleted at once", self.operator.multi(ops));
        }
    }

    pub(super) fn write(&mut self) {
        let word = self.others.pick(&WORDS).unwrap_or_default();
        for path in self.some(1) {
            counts(
                &self.trial,
                "written by the operator",
                self.operator.set_data(&path, word, None),
            );
        }
    }

    /// Changes many nodes, of which nobody hears before it is over.
    pub(super) fn flood(&mut self) {
        self.trial.world.lock().unwrap().weather.reception = Reception::Refuse;
        self.hang_up();
        let (client, random) = (&self.operator, &mut self.others);
        let changes = (0..MANY).map(|_| {
            let path = format!("{FOLDER}/{}", random.within(0..700));
            match random.within(0..4) {
                0 => drop(client.delete(&path, None)),
                1 => drop(client.set_data(&path, b"missed", None)),
                _ => drop(client.create(&path, b"", &CreateOptions::persistent())),
            }
        });
        changes.for_each(drop);
        let (trial, last) = (Arc::clone(&self.trial), client.exists(FOLDER));
        spawn(async move {
            // Its reply comes after all others.
            drop(last.await);
            trial.world.lock().unwrap().weather.reception = Reception::Accept;
            trial.world.lock().unwrap().journal.strike("missed much");
        });
    }

    /// Creates a child that takes a sequence number, and deletes it after a while. Its marker says
    /// whether it is a contender of another client. It is an owned node: the client makes sure that
    /// it is deleted, whatever happens to its connection.
    pub(super) fn stay(&mut self, what: &'static str, marker: &str) {
        let client = self.operator.clone();
        let stem = format!("{FOLDER}/{:032x}{marker}", client.unique());
        let created = client.create_owned(&stem, b"", &OWNED);
        let stays = self.others.millis(0..STAYS);
        counts(&self.trial, what, async move {
            let node = created.await?;
            tokio::time::sleep(stays).await;
            let path = node.path().to_owned();
            let mut deleted = node.delete().await.map(drop);
            // The client tries again once in its session timeout, which is an hour.
            while deleted.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::NO_AUTH)) {
                tokio::time::sleep(PAUSE).await;
                deleted = client.delete(&path, None).await;
            }
            deleted
        });
    }
}

/// Counts an action if it is carried out.
pub(super) fn counts<T, E>(
    trial: &Arc<Trial>,
    what: &'static str,
    done: impl Future<Output = Result<T, E>> + Send + 'static,
) {
    let trial = Arc::clone(trial);
    spawn(async move {
        if done.await.is_ok() {
            trial.world.lock().unwrap().journal.strike(what);
        }
    });
}

/// Takes the permission to delete from all folders, and gives it back after a while, or when faults
/// end.
pub(super) fn withhold(trial: &Arc<Trial>, client: &Client, time: Duration) {
    let (trial, client) = (Arc::clone(trial), client.clone());
    let folders = folders(&trial.world.lock().unwrap().net.core);
    spawn(async move {
        for folder in &folders {
            permit(&client, folder, Perms::ALL.without(Perms::DELETE)).await;
        }
        trial.world.lock().unwrap().journal.strike("delete withheld");
        drop(timeout(time, trial.until(Phase::Calm)).await);
        for folder in &folders {
            permit(&client, folder, Perms::ALL).await;
        }
        trial.note(|| "delete is permitted again".to_owned());
    });
}

/// Sets what everybody may do with a folder, if it is still there.
async fn permit(client: &Client, folder: &str, perms: Perms) {
    let acl = [Acl::new(perms, Id::ANYONE)];
    while let Err(error) = client.set_acl(folder, &acl, None).await
        && error.is_connection_loss()
    {
        tokio::time::sleep(PAUSE).await;
    }
}
