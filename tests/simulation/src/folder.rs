//! What others do in the lock's folder: an operator who deletes nodes and writes to them,
//! contenders of another client, and children that are none.

use std::future::Future;
use std::sync::Arc;

use zk_client::{Client, CreateOptions, Op};

use super::journal::FOLDER;
use super::process::Stage;
use super::random::Random;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

/// What is written to nodes, some of it to ask for the lock back.
const WORDS: [&[u8]; 3] = [b"seen", b"__REVOKE__", b"unlock"];

/// How long others stay in the folder, in milliseconds.
const STAYS: u64 = 120;

pub(super) struct Others {
    stage: Arc<Stage>,
    client: Client,
    random: Random,
}

impl Others {
    pub(super) fn new(stage: Arc<Stage>, client: Client, random: Random) -> Self {
        Self { stage, client, random }
    }

    /// Whom the server knows them by.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn children(&self) -> Vec<String> {
        self.stage.world.lock().unwrap().core.children(FOLDER)
    }

    /// Some of the children, by their paths.
    fn some(&mut self, most: usize) -> Vec<String> {
        let mut children = self.children();
        let mut some = Vec::new();
        while some.len() < most
            && let Some(child) = self.random.pick(&children)
        {
            children.retain(|other| *other != child);
            some.push(format!("{FOLDER}/{child}"));
        }
        some
    }

    /// Counts what has come of it, if it was done.
    fn counts<T, E>(
        &self,
        what: &'static str,
        done: impl Future<Output = Result<T, E>> + Send + 'static,
    ) {
        let stage = Arc::clone(&self.stage);
        tokio::spawn(async move {
            if done.await.is_ok() {
                stage.world.lock().unwrap().journal.strike(what);
            }
        });
    }

    /// Deletes the nodes of some contenders, one by one.
    pub(super) fn delete(&mut self, what: &'static str, most: usize) {
        for path in self.some(most) {
            self.counts(what, self.client.delete(&path, None));
        }
    }

    /// Deletes two nodes in one transaction.
    pub(super) fn delete_two(&mut self) {
        if let [one, two] = &*self.some(2) {
            let ops = (Op::delete(one, None), Op::delete(two, None));
            self.counts("two deleted at once", self.client.multi(ops));
        }
    }

    pub(super) fn write(&mut self) {
        let word = self.random.pick(&WORDS).unwrap_or_default();
        for path in self.some(1) {
            self.counts("written by the operator", self.client.set_data(&path, word, None));
        }
    }

    /// A contender of another client queues up, and leaves when it has enough.
    pub(super) fn queue_up(&mut self) {
        self.stay("strangers", "-lock-");
    }

    /// A child takes a number, and is no contender.
    pub(super) fn put_child(&mut self) {
        self.stay("other children", "-note-");
    }

    /// The client sees to it that the node goes, whatever becomes of its connection.
    fn stay(&mut self, what: &'static str, marker: &str) {
        let stem = format!("{FOLDER}/{:032x}{marker}", self.client.unique());
        let created = self.client.create_owned(&stem, b"", &OWNED);
        let stays = self.random.millis(0..STAYS);
        self.counts(what, async move {
            let node = created.await?;
            tokio::time::sleep(stays).await;
            node.delete().await
        });
    }
}
