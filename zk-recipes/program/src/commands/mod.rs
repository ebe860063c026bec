//! The subcommands: what each does with its arguments.

mod diff;
mod dump;
mod elect;
mod holding;
mod load;
mod lock;
mod nodes;
mod queues;
mod sem;
pub(crate) mod tap;
mod tree;
mod txn;
mod watch;
mod who;

use clap::CommandFactory;

use crate::arguments::{Arguments, Completion, Subcommand, Words};
use crate::failure::Failure;
use crate::output::{Json, Output};

/// Carries out what was asked for, and returns the exit status.
pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let done = match arguments.subcommand {
        Subcommand::Lock(lock) => return lock::run(lock).await,
        Subcommand::Elect(elect) if elect.watch => {
            return elect::run(elect).await.map_err(Failure::of_a_node);
        }
        Subcommand::Elect(elect) => return elect::run(elect).await,
        Subcommand::Sem(sem) => return sem::run(sem).await,
        Subcommand::Watch(watch) => {
            return watch::run(&watch).await.map_err(Failure::of_a_node);
        }
        Subcommand::Who(who) => return who::run(&who).await.map_err(Failure::of_a_node),
        Subcommand::Load(load) => return load::run(&load).await.map_err(Failure::of_a_node),
        Subcommand::Diff(diff) => return diff::run(&diff).await,
        Subcommand::Tree(tree) => return tree::run(&tree).await.map_err(Failure::of_a_node),
        Subcommand::Txn(changes) => txn::run(&changes).await,
        Subcommand::Dump(dump) => dump::run(&dump).await,
        Subcommand::Get(get) => nodes::get(&get).await,
        Subcommand::Set(set) => nodes::set(&set).await,
        Subcommand::Create(create) => nodes::create(&create).await,
        Subcommand::Ls(list) => nodes::list(&list).await,
        Subcommand::Stat(stat) => nodes::stat(&stat).await,
        Subcommand::Rm(remove) => nodes::remove(&remove).await,
        Subcommand::Acl(acl) => nodes::acl(&acl).await,
        Subcommand::Words(asked) => words(&asked).await,
        Subcommand::Tap(arguments) => return tap::tap(arguments).await,
        Subcommand::Replay(arguments) => return tap::replay(arguments).await,
        Subcommand::Completion(completion) => complete(&completion),
    };
    done.map(|()| 0).map_err(Failure::of_a_node)
}

/// How the answer of a server ends that does not answer a word.
const REFUSED_WORD: &str = "is not executed because it is not in the whitelist.";

/// `zk words`: asks each server. Fails in the end if one has not answered.
async fn words(asked: &Words) -> Result<(), Failure> {
    let mut output = Output::new();
    let mut failed = None;
    for server in asked.connection.servers() {
        let answer = match asked.connection.four_letter_word(server, &asked.word).await {
            Ok(answer) if !answer.trim_end().ends_with(REFUSED_WORD) => answer,
            refused => {
                let refusal = |answer: String| Failure::of(server, answer.trim_end());
                let failure = refused.map_or_else(|failure| failure, refusal);
                if let Some(earlier) = failed.replace(failure) {
                    earlier.report();
                }
                continue;
            }
        };
        if asked.json {
            let object = Json::object().text("server", server).text("answer", &answer);
            output.line(object.end().as_bytes())?;
        } else {
            output.line(answer.trim_end().as_bytes())?;
        }
    }
    failed.map_or(Ok(()), Err)
}

/// `zk completion`: prints the script for a shell.
fn complete(completion: &Completion) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completion.shell, &mut Arguments::command(), "zk", &mut script);
    Output::new().bytes(&script)
}
