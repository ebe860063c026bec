//! The commands, one a line: a table with what each takes, does and answers.
//!
//! `help` prints the table, and the README shows it. Words are separated by spaces and encoded as
//! in URLs (`escape`). Of the commands, only `save` and `load` read or write files.

use std::path::Path;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use zk_embedded::{Change, Core, Ensemble, Fault, Server, SessionId, Stat, Zxid};

use crate::escape;
use crate::faults::{code, narrow, number, path, session};
use crate::files;
use crate::target::Target;

/// What a line is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// One line or, for `help`, several.
    pub(crate) text: String,
    pub(crate) then: Then,
}

/// What happens behind the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Continue,
    /// There is no such command, so that whoever sent it may mean another protocol.
    Distrust,
    /// The program ends.
    Quit,
}

/// Carries a command out.
pub(crate) fn answer(target: Target<'_>, line: &str) -> Answer {
    let mut words = line.split_ascii_whitespace();
    let mut name = words.next().unwrap_or_default();
    let mut target = Ok(target);
    if name == "at" {
        let member = number(words.next().unwrap_or_default());
        target = target.and_then(|target| target.at(member?));
        name = words.next().unwrap_or_default();
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name() == name) else {
        let text = format!("error no command {}, see help\n", escape::encode(name.as_bytes()));
        return Answer { text, then: Then::Distrust };
    };
    let mut arguments = Arguments { words, usage: command.usage };
    let text = match target.and_then(|target| (command.run)(target, &mut arguments)) {
        Ok(value) if name == "help" => format!("{value}ok\n"),
        Ok(value) if value.is_empty() => "ok\n".to_owned(),
        Ok(value) => format!("ok {value}\n"),
        Err(why) => format!("error {}\n", why.replace(['\n', '\r'], " ")),
    };
    let is_done = name == "quit" && text == "ok\n";
    Answer { text, then: if is_done { Then::Quit } else { Then::Continue } }
}

struct Command {
    /// The name, and what stands behind it.
    usage: &'static str,
    what: &'static str,
    run: fn(Target<'_>, &mut Arguments<'_>) -> Result<String, String>,
}

impl Command {
    fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }
}

/// The words behind the name of a command.
struct Arguments<'a> {
    words: SplitAsciiWhitespace<'a>,
    usage: &'static str,
}

impl<'a> Arguments<'a> {
    fn wrong<T>(&self) -> Result<T, String> {
        Err(format!("usage: {}", self.usage))
    }

    fn word(&mut self) -> Result<&'a str, String> {
        self.words.next().map_or_else(|| self.wrong(), Ok)
    }

    fn end(&mut self) -> Result<(), String> {
        if self.words.next().is_none() { Ok(()) } else { self.wrong() }
    }

    /// The last word, as whatever `parse` makes of it.
    fn last<T>(&mut self, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let value = parse(self.word()?)?;
        self.end()?;
        Ok(value)
    }
}

const COMMANDS: &[Command] = &[
    Command {
        usage: "lose-request [FILTER...]",
        what: "Cuts the connection before the request is served.",
        run: |target, arguments| inject(target, Fault::lose_request(), arguments),
    },
    Command {
        usage: "serve-late MS [FILTER...]",
        what: "Cuts the connection, and serves the request MS milliseconds later all the same.",
        run: |target, arguments| inject_of(target, arguments, millis, Fault::serve_late),
    },
    Command {
        usage: "lose-reply [FILTER...]",
        what: "Serves the request, and cuts the connection in front of its reply.",
        run: |target, arguments| inject(target, Fault::lose_reply(), arguments),
    },
    Command {
        usage: "cut-reply BYTES [FILTER...]",
        what: "Serves the request, and cuts the connection behind BYTES bytes of its reply.",
        run: |target, arguments| inject_of(target, arguments, number, Fault::cut_reply),
    },
    Command {
        usage: "go-silent [FILTER...]",
        what: "Serves the request, and leaves its connection silent without cutting it.",
        run: |target, arguments| inject(target, Fault::go_silent(), arguments),
    },
    Command {
        usage: "delay MS [FILTER...]",
        what: "Serves the request, and sends its reply and all behind it MS milliseconds later.",
        run: |target, arguments| inject_of(target, arguments, millis, Fault::delay),
    },
    Command {
        usage: "refuse ERROR [FILTER...]",
        what: "Answers the request with ERROR, a name such as ThrottledOp or a number.",
        run: |target, arguments| inject_of(target, arguments, code, Fault::refuse),
    },
    Command {
        usage: "disown ERROR [FILTER...]",
        what: "Serves the request, and answers it with ERROR all the same.",
        run: |target, arguments| inject_of(target, arguments, code, Fault::disown),
    },
    Command {
        usage: "mutate SEED [FILTER...]",
        what: "Corrupts the reply to the request, in a way that SEED decides.",
        run: |target, arguments| inject_of(target, arguments, number, Fault::mutate),
    },
    Command {
        usage: "expire-session [FILTER...]",
        what: "Ends the session of the request, and answers that it is expired.",
        run: |target, arguments| inject(target, Fault::expire_session(), arguments),
    },
    Command {
        usage: "swap-session [FILTER...]",
        what: "Gives another session to a client that resumes its own; without op and path.",
        run: |target, arguments| inject(target, Fault::swap_session(), arguments),
    },
    Command {
        usage: "pending",
        what: "Answers how many faults have not happened yet.",
        run: |target, arguments| {
            arguments.end()?;
            target.look(|core| core.pending_faults().to_string())
        },
    },
    Command {
        usage: "clear",
        what: "Removes the faults that have not happened yet.",
        run: |target, arguments| {
            done(arguments, || target.either(Server::clear_faults, Ensemble::clear_faults))
        },
    },
    Command {
        usage: "expire SESSION",
        what: "Ends a session as if its timeout had passed.",
        run: |target, arguments| known(arguments, |session| target.expire(session)),
    },
    Command {
        usage: "disconnect SESSION",
        what: "Cuts the connection of a session, which stays alive.",
        run: |target, arguments| known(arguments, |session| target.disconnect(session)),
    },
    Command {
        usage: "disconnect-all",
        what: "Cuts every connection of a client.",
        run: |target, arguments| done(arguments, || target.server().map(Server::disconnect_all)),
    },
    Command {
        usage: "partition SESSION",
        what: "Cuts the server of a session's connection off from its ensemble.",
        run: |target, arguments| {
            known(arguments, |session| Ok(target.server()?.partition(session)))
        },
    },
    Command {
        usage: "heal",
        what: "Ends all partitions. At a member: connects it with the others again, or starts it.",
        run: |target, arguments| done(arguments, || target.either(Server::heal, Ensemble::heal)),
    },
    Command {
        usage: "cut",
        what: "At a member: cuts it off from the others, which it notices after five ticks.",
        run: |target, arguments| done(arguments, || target.at_member(Ensemble::cut)),
    },
    Command {
        usage: "lag LAG",
        what: "At a member: applies writes LAG milliseconds after the leader; LAG may be never.",
        run: |target, arguments| {
            let lag = arguments.last(|word| match word {
                "never" => Ok(Duration::MAX),
                word => millis(word),
            })?;
            target.at_member(|ensemble, member| ensemble.set_lag(member, lag))?;
            Ok(String::new())
        },
    },
    Command {
        usage: "catch-up",
        what: "At a member: applies all writes of the leader until now, in spite of its lag.",
        run: |target, arguments| done(arguments, || target.at_member(Ensemble::catch_up)),
    },
    Command {
        usage: "elect",
        what: "At a member: makes it the leader.",
        run: |target, arguments| {
            done(arguments, || match target.at_member(Ensemble::elect)? {
                true => Ok(()),
                false => {
                    Err("the member cannot lead: it is down or cut off, or has no majority"
                        .to_owned())
                }
            })
        },
    },
    Command {
        usage: "leader",
        what: "Answers which member of the ensemble leads.",
        run: |target, arguments| {
            arguments.end()?;
            Ok(target.leader()?.to_string())
        },
    },
    Command {
        usage: "stop",
        what: "Closes all connections and serves nobody. All data and sessions are kept.",
        run: |target, arguments| {
            done(arguments, || target.either(|server| server.set_serving(false), Ensemble::stop))
        },
    },
    Command {
        usage: "start",
        what: "Serves again.",
        run: |target, arguments| {
            done(arguments, || target.either(|server| server.set_serving(true), Ensemble::heal))
        },
    },
    Command {
        usage: "read-only STATE",
        what: "Makes the server read-only: on or off. In an ensemble: members without a quorum.",
        run: |target, arguments| {
            let on = arguments.last(|word| match word {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(format!("{word} is neither on nor off")),
            })?;
            target.set_read_only(on)?;
            Ok(String::new())
        },
    },
    Command {
        usage: "sequence PATH NUMBER",
        what: "Sets the number of the next sequential child of a node.",
        run: |target, arguments| {
            let path = path(arguments.word()?)?;
            let next = arguments.last(number)?;
            found(&path, target.server()?.preset_sequence(&path, next).then(String::new))
        },
    },
    Command {
        usage: "version PATH NUMBER",
        what: "Sets the version of a node's data.",
        run: |target, arguments| {
            let path = path(arguments.word()?)?;
            let version = arguments.last(number)?;
            found(&path, target.server()?.preset_version(&path, version).then(String::new))
        },
    },
    Command {
        usage: "reap",
        what: "Removes empty containers and nodes that have outlived their time now.",
        run: |target, arguments| done(arguments, || target.server().map(Server::reap)),
    },
    Command {
        usage: "sessions",
        what: "Answers the sessions that have not ended, oldest first.",
        run: |target, arguments| {
            arguments.end()?;
            Ok(join(target.sessions()?))
        },
    },
    Command {
        usage: "watches",
        what: "Answers SESSION,KIND,PATH of each watch that is set.",
        run: |target, arguments| {
            arguments.end()?;
            Ok(join(target.look(Core::watches)?.into_iter().map(|watch| {
                let path = escape::encode(watch.path.as_bytes());
                format!("{},{},{path}", watch.session, watch.kind)
            })))
        },
    },
    Command {
        usage: "exists PATH",
        what: "Answers true or false.",
        run: |target, arguments| {
            let path = arguments.last(path)?;
            target.look(|core| core.has_node(&path).to_string())
        },
    },
    Command {
        usage: "children PATH",
        what: "Answers the names of a node's children, in order.",
        run: |target, arguments| {
            let path = arguments.last(path)?;
            let encoded = |name: String| escape::encode(name.as_bytes());
            let names = target.look(|core| {
                let names = join(core.children(&path).into_iter().map(encoded));
                core.has_node(&path).then_some(names)
            });
            found(&path, names?)
        },
    },
    Command {
        usage: "data PATH",
        what: "Answers the data of a node.",
        run: |target, arguments| {
            let path = arguments.last(path)?;
            found(&path, target.look(|core| core.data(&path))?.map(|data| escape::encode(&data)))
        },
    },
    Command {
        usage: "stat PATH",
        what: "Answers the fields of a node's stat, each as NAME=NUMBER.",
        run: |target, arguments| {
            let path = arguments.last(path)?;
            found(&path, target.look(|core| core.stat(&path))?.map(|stat| fields(&stat)))
        },
    },
    Command {
        usage: "zxid",
        what: "Answers the zxid of the last transaction.",
        run: |target, arguments| {
            arguments.end()?;
            target.look(|core| core.last_zxid().to_string())
        },
    },
    Command {
        usage: "history [ZXID]",
        what: "Answers ZXID,SESSION,CHANGE,PATH of each change after ZXID; takes --history.",
        run: history,
    },
    Command {
        usage: "save FILE",
        what: "Writes a snapshot.",
        run: |target, arguments| {
            let file = arguments.last(path)?;
            let saved = files::replace(Path::new(&file), &target.server()?.snapshot());
            saved.map(|()| String::new()).map_err(|error| format!("cannot write {file}: {error}"))
        },
    },
    Command {
        usage: "load FILE",
        what: "Replaces the tree by that of a snapshot, and ends all sessions.",
        run: |target, arguments| {
            let file = arguments.last(path)?;
            let snapshot = files::read(Path::new(&file))
                .map_err(|error| format!("cannot read {file}: {error}"))?;
            let loaded = target.server()?.restore(&snapshot);
            loaded.map(|()| String::new()).map_err(|error| error.to_string())
        },
    },
    Command {
        usage: "at MEMBER COMMAND",
        what: "In an ensemble: carries out COMMAND at the member with this number, from 0 on.",
        run: |_, arguments| arguments.wrong(),
    },
    Command {
        usage: "help",
        what: "Prints this table, each line behind a #, and then ok.",
        run: help,
    },
    Command {
        usage: "quit",
        what: "Ends the program.",
        run: |target, arguments| done(arguments, || target.all().map(drop)),
    },
];

fn inject(
    target: Target<'_>,
    fault: Fault,
    arguments: &mut Arguments<'_>,
) -> Result<String, String> {
    let fault = arguments.words.by_ref().try_fold(fault, narrow)?;
    target.inject(&fault)?;
    Ok(String::new())
}

/// Injects a fault that takes one word.
fn inject_of<T>(
    target: Target<'_>,
    arguments: &mut Arguments<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
    fault: impl Fn(T) -> Fault,
) -> Result<String, String> {
    let fault = fault(parse(arguments.word()?)?);
    inject(target, fault, arguments)
}

fn millis(word: &str) -> Result<Duration, String> {
    number(word).map(Duration::from_millis)
}

/// A command that takes no words and answers nothing.
fn done(
    arguments: &mut Arguments<'_>,
    act: impl FnOnce() -> Result<(), String>,
) -> Result<String, String> {
    arguments.end()?;
    act()?;
    Ok(String::new())
}

/// A command that takes a session and fails if the server does not know it.
fn known(
    arguments: &mut Arguments<'_>,
    act: impl FnOnce(SessionId) -> Result<bool, String>,
) -> Result<String, String> {
    let id = arguments.last(session)?;
    if act(id)? {
        Ok(String::new())
    } else {
        Err(format!("session {id} is over, or has no connection"))
    }
}

fn found(path: &str, value: Option<String>) -> Result<String, String> {
    value.ok_or_else(|| format!("no node at {}", escape::encode(path.as_bytes())))
}

fn help(_: Target<'_>, arguments: &mut Arguments<'_>) -> Result<String, String> {
    arguments.end()?;
    let line = |Command { usage, what, .. }: &Command| format!("# {usage:<28} {what}\n");
    Ok(COMMANDS.iter().map(line).collect())
}

fn history(target: Target<'_>, arguments: &mut Arguments<'_>) -> Result<String, String> {
    if !target.keeps_history {
        return Err("the program was started without --history".to_owned());
    }
    // Zxids are printed like sessions.
    let after = arguments.words.next().map(session).transpose()?.map_or(0, |zxid| zxid.0);
    arguments.end()?;
    let commits = target.history()?.into_iter().filter(|commit| commit.zxid > Zxid(after));
    Ok(join(commits.map(|commit| {
        let session = commit.session.map_or("-".to_owned(), |session| session.to_string());
        let change = match commit.change {
            Change::Created => "created",
            Change::Deleted => "deleted",
            Change::DataSet => "dataSet",
            Change::AclSet => "aclSet",
            _ => "other",
        };
        format!("{},{session},{change},{}", commit.zxid, escape::encode(commit.path.as_bytes()))
    })))
}

fn fields(stat: &Stat) -> String {
    let Stat {
        czxid,
        mzxid,
        ctime,
        mtime,
        version,
        cversion,
        aversion,
        ephemeral_owner,
        data_length,
        num_children,
        pzxid,
    } = stat;
    format!(
        "czxid={czxid} mzxid={mzxid} ctime={ctime} mtime={mtime} version={version} \
         cversion={cversion} aversion={aversion} ephemeralOwner={ephemeral_owner} \
         dataLength={data_length} numChildren={num_children} pzxid={pzxid}"
    )
}

fn join<T: ToString>(words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().map(|word| word.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_embedded::Config;

    use super::*;
    use crate::target::Servers;

    fn alone() -> Servers {
        Servers::Alone(Arc::new(Server::in_memory(Config::new())))
    }

    fn ensemble() -> Servers {
        Servers::Ensemble(Arc::new(Ensemble::in_memory(Config::new(), 3)))
    }

    fn say(servers: &Servers, line: &str) -> String {
        answer(Target { servers, keeps_history: true, member: None }, line).text
    }

    #[tokio::test]
    async fn every_command_answers_one_line_to_whatever_stands_behind_it() {
        let (alone, ensemble) = (alone(), ensemble());
        let words =
            ["", "-1", "0", "99999999999999999999", "0x", "%", "=", "op=", "session=%", "/"];
        // The answer of `help` is longer, and `save` would write files of these names.
        let left_out = |command: &&Command| ["help", "save"].contains(&command.name());
        for command in COMMANDS.iter().filter(|command| !left_out(command)) {
            for first in words {
                for second in words {
                    let line = format!("{} {first} {second}", command.name());
                    let at_member = format!("at 2 {line}");
                    for (servers, line) in
                        [(&alone, &line), (&ensemble, &line), (&ensemble, &at_member)]
                    {
                        let text = say(servers, line);
                        assert_eq!(text.lines().count(), 1, "{line}: {text}");
                        let begins = ["ok", "error "].iter().any(|begin| text.starts_with(begin));
                        assert!(begins && text.ends_with('\n'), "{line}: {text}");
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn names_are_unique_and_wrong_words_name_the_right_ones() {
        let server = alone();
        for command in COMMANDS {
            let same = COMMANDS.iter().filter(|other| other.name() == command.name());
            assert_eq!(same.count(), 1, "{}", command.name());
        }
        assert_eq!(say(&server, "expire"), "error usage: expire SESSION\n");
        assert_eq!(say(&server, "clear all"), "error usage: clear\n");
        assert_eq!(say(&server, "data /none%20"), "error no node at /none%20\n");
        let target = Target { servers: &server, keeps_history: true, member: None };
        assert_eq!(answer(target, "GET / HTTP/1.1").then, Then::Distrust);
    }

    #[tokio::test]
    async fn a_member_is_named_where_it_matters_and_only_in_an_ensemble() {
        let (alone, ensemble) = (alone(), ensemble());
        for line in ["at 0 zxid", "leader", "cut", "lag 1"] {
            let refused = "error this is for ensembles, see --members\n";
            assert_eq!(say(&alone, line), refused, "{line}");
        }
        for line in ["cut", "lag 1", "elect", "stop", "start", "heal", "clear", "lose-reply"] {
            let refused = "error say at which member: at MEMBER COMMAND\n";
            assert_eq!(say(&ensemble, line), refused, "{line}");
            assert!(say(&ensemble, &format!("at 3 {line}")).contains("no member 3"), "{line}");
        }
        for line in ["save /x", "reap", "disconnect-all", "partition 1", "version / 1"] {
            assert_eq!(say(&ensemble, line), "error this is not for ensembles\n", "{line}");
        }
        assert_eq!(say(&ensemble, "at 1 at 2 zxid"), "error usage: at MEMBER COMMAND\n");
        assert_eq!(say(&ensemble, "at x zxid"), "error x is no number, or is out of range\n");
    }

    #[tokio::test]
    async fn every_fault_can_be_injected_with_every_filter() {
        let server = alone();
        let filter = "op=create2 path=/a%20b session=0x1 after=2";
        let faults = [
            "lose-request",
            "serve-late 1",
            "lose-reply",
            "cut-reply 1",
            "go-silent",
            "delay 1",
            "refuse ThrottledOp",
            "disown -999",
            "mutate 7",
            "expire-session",
            "swap-session",
        ];
        for (count, fault) in faults.iter().enumerate() {
            assert_eq!(say(&server, &format!("{fault} {filter}")), "ok\n");
            assert_eq!(say(&server, "pending"), format!("ok {}\n", count + 1));
        }
        assert_eq!(say(&server, "clear"), "ok\n");
        assert_eq!(say(&server, "pending"), "ok 0\n");
    }
}
