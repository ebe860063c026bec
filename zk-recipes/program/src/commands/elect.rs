//! `zk elect`: runs a command while this candidate leads, or shows who leads.

use zk_client::Client;
use zk_recipes::{Election, FencingToken, Options, QueueEntry};

use crate::arguments::Elect as Arguments;
use crate::commands::holding::{
    Job, MaybeStatus, acquire_alone, in_sessions, or_signal, telling_breaks, watched,
};
use crate::failure::{Failure, status, warn};
use crate::output::{Json, Output, escaped};
use crate::run::signals::Signals;
use crate::run::supervise::Outcome;

pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let mut is_cut_off = false;
    // One session after the other, as long as they end without a result.
    let status = in_sessions(&arguments.connection, None, async |client, signals, _| {
        if !arguments.watch {
            return lead(&arguments, client, signals).await;
        }
        let watching = watch(&arguments, client, signals);
        telling_breaks(client, &mut is_cut_off, watching).await
    });
    Ok(status.await?.unwrap_or(status::FAILED))
}

/// Leads, term after term, until the command ends by itself. `None` if the session ends before.
async fn lead(arguments: &Arguments, client: &Client, signals: &mut Signals) -> MaybeStatus {
    let path = &arguments.path;
    let failed = |error| Failure::of(path, error);
    let mut job = Job { path, run: &arguments.run, client, signals, is_semaphore: false };
    let rule = job.rule()?;
    loop {
        // The data tells since when it is a candidate.
        let options = Options::new().data(arguments.run.data()).strict_foreign(true);
        let election = Election::with_options(client, path, options).map_err(failed)?;
        let mut group = watched().await?;
        let campaign = acquire_alone(client, path, job.is_semaphore, election.campaign());
        let term = match job.wait_for(group.reaping(campaign)).await {
            Ok(Ok((_, Some(refusal)))) => return Err(refusal),
            Ok(Ok((term, None))) => term,
            Ok(Err(error)) if error.is_session_over() => {
                group.kill().await;
                return Ok(None);
            }
            Ok(Err(error)) if error.is_transient() => {
                group.kill().await;
                continue;
            }
            Ok(Err(error)) => return Err(failed(error)),
            Err(status) => return Ok(Some(status)),
        };
        match job.run(&term, group, &rule).await? {
            Outcome::Ended(status) => return Ok(Some(status)),
            Outcome::Lost => warn(&format!("the leadership at {path} was lost")),
            Outcome::AskedBack => warn(&format!("the leadership at {path} was asked back")),
        }
    }
}

/// Prints each leader. `None` if the session ends.
async fn watch(arguments: &Arguments, client: &Client, signals: &mut Signals) -> MaybeStatus {
    let failed = |error| Failure::of(&arguments.path, error);
    let election = Election::new(client, &arguments.path).map_err(failed)?;
    let mut leaders = election.observe();
    loop {
        match or_signal(signals, leaders.next()).await {
            Ok(Ok(leader)) => print(leader.as_ref(), arguments.json)?,
            Ok(Err(error)) if error.is_session_over() => return Ok(None),
            Ok(Err(error)) => return Err(failed(error)),
            Err(status) => return Ok(Some(status)),
        }
    }
}

fn print(leader: Option<&QueueEntry>, json: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    match (leader, json) {
        (Some(leader), true) => {
            let token = FencingToken::new(leader.czxid.0, 0);
            let line = Json::object().text("node", &leader.node).text("token", &token.to_string());
            output.line(line.bytes("data", &leader.data).end().as_bytes())
        }
        (None, true) => output.line(Json::object().null("node").end().as_bytes()),
        (Some(leader), false) => {
            output.line(format!("{}\t{}", leader.node, escaped(&leader.data)).as_bytes())
        }
        (None, false) => output.line(b"nobody"),
    }
}
