//! Runs one claim: its steps in order, until one of them is answered otherwise than expected.
//!
//! A claim has a folder and clients of its own, so that several can run at once. When it has ended,
//! its sessions are closed, whatever came of it.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::timeout;
use zk_proto::digest;

use super::claim::{Claim, Step};
use super::client::Client;
use super::outcome::{Names, fits, shown};
use super::release::Release;
use super::report::StepLine;
use super::request::{Request, Words};

/// What all claims of a run have in common.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) address: String,
    /// The folder that has a folder for each claim.
    pub(super) root: String,
    pub(super) release: Release,
    pub(super) patience: Duration,
}

/// Who claims prove to be: a name for expectations, and the proof.
pub(super) const IDENTITIES: [(&str, &str); 2] = [("alice", "alice:wonder"), ("bob", "bob:build")];

/// What the word `srvr` of a server of an ensemble says.
const MODES_OF_PEERS: [&str; 3] = ["Mode=leader", "Mode=follower", "Mode=observer"];

/// How many replies a claim may wait for.
const REPLIES: u32 = 8;

struct Stage<'a> {
    setting: &'a Setting,
    folder: String,
    clients: Vec<Client>,
    names: Names,
}

/// Runs the steps. Returns what came of each, and all frames; or why the claim cannot be tried on
/// this server.
pub(super) async fn run(
    setting: &Setting,
    claim: &Claim,
) -> Result<(Vec<StepLine>, Vec<String>), String> {
    let folder = folder(setting, claim);
    let mut stage = Stage { setting, folder, clients: Vec::new(), names: Names::default() };
    for (name, proof) in IDENTITIES {
        stage.names.set(name, digest(proof.as_bytes()));
    }
    if let Some(why) = timeout(setting.patience, unmet(&mut stage, claim)).await.ok().flatten() {
        timeout(setting.patience, stage.leave()).await.ok();
        return Err(why);
    }
    let mut lines = Vec::new();
    let steps = stage.steps(claim, &mut lines);
    if timeout(setting.patience * REPLIES, steps).await.is_err() {
        let step = claim.steps.get(lines.len());
        lines.extend(step.map(|step| line(setting, step, "no end", false)));
    }
    // Whatever fails here, the session ends by itself soon.
    timeout(setting.patience, stage.leave()).await.ok();
    let frames = stage.clients.iter_mut().flat_map(|client| client.frames.drain(..)).collect();
    Ok((lines, frames))
}

/// The folder of a claim, which is there when it begins.
pub(super) fn folder(setting: &Setting, claim: &Claim) -> String {
    format!("{}/{}", setting.root, claim.number)
}

fn line(setting: &Setting, step: &Step, outcome: &str, is_expected: bool) -> StepLine {
    let expected = step.expected(setting.release).unwrap_or_default();
    StepLine {
        step: format!("{}: {}", step.client, step.deed),
        expected: expected.to_owned(),
        got: shown(expected, outcome),
        is_expected,
    }
}

/// Why a claim cannot be tried on this server, if it cannot.
async fn unmet(stage: &mut Stage<'_>, claim: &Claim) -> Option<String> {
    for needs in &claim.needs {
        if let Some(why) = lack(stage, needs).await {
            return Some(why);
        }
    }
    None
}

/// What the server lacks of one need.
async fn lack(stage: &mut Stage<'_>, needs: &str) -> Option<String> {
    let mut probe = Client::new("probe", &stage.setting.address, stage.setting.patience);
    match needs.split_once(' ').unwrap_or((needs, "")) {
        ("word", word) => {
            let told = probe.word(word.as_bytes()).await.ok()?;
            (told == "refused").then(|| format!("the server does not allow the word {word}"))
        }
        // What an ensemble does instead is in FINDINGS.md.
        ("standalone", why) => {
            let told = probe.word(b"srvr").await.ok()?;
            let has_peers = MODES_OF_PEERS.iter().any(|mode| told.contains(mode));
            has_peers.then(|| why.to_owned())
        }
        (kind, _) => {
            let step = Step::of("probe", "createTTL $-probe");
            let has_ttl = stage.perform(&step).await.is_ok_and(|outcome| outcome.starts_with("ok"));
            match (kind, has_ttl) {
                ("ttl", false) => Some("the server has no nodes with a time to live".to_owned()),
                ("no-ttl", true) => Some("the server has nodes with a time to live".to_owned()),
                _ => None,
            }
        }
    }
}

impl Stage<'_> {
    async fn steps(&mut self, claim: &Claim, lines: &mut Vec<StepLine>) {
        for step in &claim.steps {
            let outcome = match self.perform(step).await {
                Ok(outcome) => outcome,
                Err(error) => format!("failed: {error:#}"),
            };
            let outcome = outcome.replace(&self.folder, "$");
            let expected = step.expected(self.setting.release);
            let is_expected = match expected {
                Some(expected) => fits(&repeated(expected), &outcome, &mut self.names),
                None => !outcome.starts_with("failed"),
            };
            let mut line = line(self.setting, step, &outcome, is_expected);
            if !is_expected {
                line.expected = self.names.fill(&line.expected);
            }
            lines.push(line);
            if !is_expected {
                break;
            }
        }
    }

    async fn perform(&mut self, step: &Step) -> Result<String> {
        let text = self.names.fill(&step.deed);
        let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let folder = self.folder.clone();
        let words = Words::new(rest, &folder);
        let resumed = words.value("as").map(|name| self.client(name).session);
        let resumed = resumed.map(|session| session.context("no session")).transpose()?;
        let client = self.client(&step.client);
        match verb {
            "connect" => return client.connect(&words, resumed).await,
            "word" => return client.word(rest.replace("\\n", "\n").as_bytes()).await,
            "text" => return client.text().await,
            "frame" => return client.payload().await,
            "raw" => {
                if !client.is_connected() {
                    client.dial().await?;
                }
                client.write(&bytes_of(rest)?).await;
                return Ok("ok".to_owned());
            }
            "cut" => return client.cut().await.map(|()| "ok".to_owned()),
            "end" => return client.end(false).await,
            "expiry" => return client.end(true).await,
            "event" => return client.event().await,
            "reply" => return client.reply().await,
            _ => {}
        }
        if client.session.is_none() && !client.is_connected() {
            client.connect(&Words::new("", ""), None).await?;
        }
        if verb == "events" {
            return client.events(&Request::parse("sync", "/", "")?).await;
        }
        client.send(&Request::parse(verb, &repeated(rest), &folder)?).await?;
        match step.expected(self.setting.release) {
            None => Ok("ok".to_owned()),
            Some(_) => self.client(&step.client).reply().await,
        }
    }

    /// The client with this letter.
    fn client(&mut self, name: &str) -> &mut Client {
        let known = self.clients.iter().position(|client| client.name == name);
        let index = known.unwrap_or_else(|| {
            let (address, patience) = (&self.setting.address, self.setting.patience);
            self.clients.push(Client::new(name, address, patience));
            self.clients.len() - 1
        });
        // The index is one of the list.
        &mut self.clients[index]
    }

    /// Closes all sessions. Those with a connection come first, since a session may have moved from
    /// one client to another.
    async fn leave(&mut self) -> Result<()> {
        for client in &mut self.clients {
            client.close().await?;
        }
        for client in &mut self.clients {
            if let Some(session) = client.session.filter(|_| !client.is_over) {
                client.connect(&Words::new("", ""), Some(session)).await?;
                client.close().await?;
            }
        }
        Ok(())
    }
}

/// `a ; b x3` as `a ; b ; b ; b`.
fn repeated(text: &str) -> String {
    let part = |part: &str| match part.rsplit_once(" x") {
        Some((what, times)) if times.parse::<usize>().is_ok() => {
            vec![what; times.parse().unwrap_or(1)].join(" ; ")
        }
        _ => part.to_owned(),
    };
    text.split(" ; ").map(part).collect::<Vec<_>>().join(" ; ")
}

/// Bytes from pairs of hexadecimal digits.
fn bytes_of(digits: &str) -> Result<Vec<u8>> {
    let digits: Vec<_> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
    digits.chunks(2).map(|pair| Ok(byte(pair)?)).collect()
}
