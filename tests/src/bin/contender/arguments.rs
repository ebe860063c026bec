//! The arguments of the command line.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;
use std::{env, process};

use anyhow::{Context, Result, bail, ensure};
use zk_client::DeadlineRule;
use zk_recipes::Layout;

#[derive(Clone)]
pub struct Arguments {
    pub servers: String,
    pub path: String,
    pub kind: Kind,
    pub layout: Layout,
    pub linger: Duration,
    pub tasks: usize,
    pub timeout: Duration,
    pub deadline_rule: DeadlineRule,
    pub name: String,
    pub store: Option<String>,
    pub writes: u64,
    pub stubborn: bool,
    pub counter: Option<String>,
    pub start_told: bool,
    pub hold: Hold,
    pub rest_told: bool,
    pub turns: Option<u64>,
    pub end: End,
    pub seed: u64,
    pub every: u64,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Lock,
    Rw,
    Reentrant,
    ReentrantRw,
}

#[derive(Clone, Copy)]
pub enum Hold {
    For(Duration),
    Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Release,
    Close,
    Exit,
}

impl Arguments {
    pub fn parse() -> Result<Self> {
        let mut given = HashMap::new();
        for argument in env::args().skip(1) {
            let (name, value) = argument.split_once('=').context("an argument is name=value")?;
            ensure!(given.insert(name.to_owned(), value.to_owned()).is_none(), "{name} twice");
        }
        let mut take = |name: &str| given.remove(name);
        let name = take("name").unwrap_or_else(|| process::id().to_string());
        let by_name = name.bytes().fold(0, |seed: u64, byte| seed << 8 ^ u64::from(byte));
        let arguments = Self {
            servers: take("servers").context("servers=HOST:PORT,.. is missing")?,
            path: take("path").context("path=/LOCK is missing")?,
            kind: match take("kind").as_deref() {
                None | Some("lock") => Kind::Lock,
                Some("rw") => Kind::Rw,
                Some("reentrant") => Kind::Reentrant,
                Some("reentrant-rw") => Kind::ReentrantRw,
                Some(kind) => bail!("there is no kind {kind:?}"),
            },
            layout: match take("layout").as_deref() {
                None | Some("curator") => Layout::CURATOR,
                Some("kazoo") => Layout::KAZOO,
                Some(layout) => bail!("there is no layout {layout:?}"),
            },
            linger: Duration::from_millis(number(take("linger"))?.unwrap_or(0)),
            tasks: number(take("tasks"))?.unwrap_or(1),
            timeout: Duration::from_millis(number(take("timeout"))?.unwrap_or(10_000)),
            deadline_rule: match take("deadline").as_deref() {
                None | Some("quorum") => DeadlineRule::default(),
                Some("contact") => DeadlineRule::Contact,
                Some(rule) => bail!("there is no deadline {rule:?}"),
            },
            name,
            store: take("store"),
            writes: number(take("writes"))?.unwrap_or(1),
            stubborn: match take("lost").as_deref() {
                None | Some("leave") => false,
                Some("write") => true,
                Some(lost) => bail!("there is no lost {lost:?}"),
            },
            counter: take("counter"),
            start_told: match take("start").as_deref() {
                None => false,
                Some("told") => true,
                Some(start) => bail!("there is no start {start:?}"),
            },
            hold: match take("hold") {
                Some(word) if word == "told" => Hold::Told,
                time => Hold::For(Duration::from_millis(number(time)?.unwrap_or(0))),
            },
            rest_told: match take("rest").as_deref() {
                None => false,
                Some("told") => true,
                Some(rest) => bail!("there is no rest {rest:?}"),
            },
            turns: number(take("turns"))?,
            end: match take("end").as_deref() {
                None | Some("release") => End::Release,
                Some("close") => End::Close,
                Some("exit") => End::Exit,
                Some(end) => bail!("there is no end {end:?}"),
            },
            seed: number(take("seed"))?.unwrap_or(by_name),
            every: number(take("every"))?.unwrap_or(50),
        };
        ensure!(given.is_empty(), "there are no arguments {:?}", given.keys());
        Ok(arguments)
    }
}

fn number<N: FromStr>(value: Option<String>) -> Result<Option<N>> {
    let parse = |value: String| value.parse().ok().with_context(|| format!("{value:?}: a number?"));
    value.map(parse).transpose()
}
