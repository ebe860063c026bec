//! Why a lock is broken, as the server's tree, its watches and the last frames show it.
//!
//! A reason is for a student: what the run shows, and the rule behind it. It rests on facts of the
//! run alone, so a program that breaks in another way gets another reason.

use zk_embedded::{Change, OpCode, SessionId};
use zk_simulation::net::Way;

use crate::contender::FOLDER;
use crate::fault::Kind;
use crate::record::{Break, Event, Violation};
use crate::world::{World, name};

/// The reason for the violation of a run, if it has one.
pub(crate) fn why(world: &World) -> String {
    let Some(Violation { kind, processes, .. }) = &world.record.violation else {
        return String::new();
    };
    match kind {
        Break::TwoHolders => two_holders(world, processes),
        Break::Stuck => stuck(world, processes),
        Break::Herd => "Everybody who waits watches the same node, or the folder. All of them ask \
                        again, and all but one wait again: the work grows with the square of \
                        those who wait. Let each watch only the node right ahead of its own."
            .to_owned(),
        Break::Polling => {
            "Nothing has changed in the folder between these requests, so it has learnt \
                           nothing from them. The longer the lock is held, and the more wait, the \
                           more of them the server has to answer; and after a release it is free \
                           until somebody asks again. Set a watch with the look, and wait for its \
                           notification: the server speaks when there is something to say."
                .to_owned()
        }
        Break::LostMoney => "A process that was stopped does not know it, and goes on in the \
                             middle of its work: it has written what it computed from an old \
                             balance. It cannot refuse itself, so the store must. Show a number \
                             that grows from holder to holder, such as the czxid of your node, \
                             before you read and when you write."
            .to_owned(),
        Break::Error if world.strikes.is_empty() => {
            "An error in a run in which nothing goes wrong is the program's own. Look at the \
             request that was answered with it."
                .to_owned()
        }
        Break::Error if world.net.core.stat(FOLDER).is_none() => {
            "The folder is gone: whoever finds it empty may remove it, at any moment between two \
             of your requests. Make it again where a create is answered with NoNode."
                .to_owned()
        }
        Break::Error => "Nothing that goes wrong lasts that long, and to try again does not help: \
                         the program has to do something about it. Look at the request that was \
                         answered with it."
            .to_owned(),
        Break::Panic => "Its message is printed above. Return an error instead.".to_owned(),
        Break::Busy => "Wait for something: for a reply, a notification or a connection. A loop \
                        that only asks again never ends while nothing changes."
            .to_owned(),
    }
}

/// The nodes of a process in the folder, with their numbers.
fn own(world: &World, process: usize) -> Vec<(String, Option<u32>)> {
    let nodes = world.nodes().into_iter().filter(|(_, owner)| *owner == Some(process));
    nodes.map(|(path, _)| (short(&path), number(&path))).collect()
}

fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}

/// A name without most of its random digits.
fn short(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let digits = name.bytes().take_while(u8::is_ascii_hexdigit).count();
    match (digits > 12, name.get(..6), name.get(digits..)) {
        (true, Some(first), Some(rest)) => format!("{first}..{rest}"),
        _ => name.to_owned(),
    }
}

fn two_holders(world: &World, holders: &[usize]) -> String {
    if let Some(gone) = holders.iter().find(|holder| own(world, **holder).is_empty()) {
        return without_node(world, *gone);
    }
    // The one that is behind has come in too early.
    let first = |holder: &&usize| own(world, **holder).into_iter().filter_map(|(_, it)| it).min();
    let (Some(ahead), Some(behind)) =
        (holders.iter().min_by_key(first), holders.iter().max_by_key(first))
    else {
        return String::new();
    };
    let (early, late) = (name(*ahead), name(*behind));
    let nodes = |holder: usize| {
        let nodes = own(world, holder).into_iter().map(|(name, _)| name);
        nodes.collect::<Vec<_>>().join(" and ")
    };
    let facts = format!(
        "{early} is ahead, with {}, and {late} is behind, with {}.",
        nodes(*ahead),
        nodes(*behind)
    );
    match last_heard(world, *behind) {
        Some(Kind::Notification) => format!(
            "{facts} {late} took a notification for the lock. It says that a node is gone, and \
             not why: a waiter may have left. Look again whenever you wake up."
        ),
        _ => match looks(world, *behind) {
            (_, true) => format!(
                "{facts} {late} looked, and took itself for the first. Only the number that the \
                 server has appended says who came first: compare the numbers, and not whole names."
            ),
            (true, false) => format!(
                "{facts} {late} looked before its own node was there, and {early} did what it did \
                 in between. Create your node first, and look then."
            ),
            (false, false) => format!(
                "{facts} {late} has a node, and never looked who is ahead of it. List the folder \
                 when your node is there."
            ),
        },
    }
}

/// Whether a process has read something before its last create, and whether behind it.
fn looks(world: &World, process: usize) -> (bool, bool) {
    let asked = world.record.events.iter().filter_map(|event| match event {
        Event::Frame(one) if one.process == process && one.way == Way::Up => one.frame.op,
        _ => None,
    });
    let asked = asked.collect::<Vec<_>>();
    let creates = [OpCode::CREATE, OpCode::CREATE2];
    let last = asked.iter().rposition(|op| creates.contains(op)).unwrap_or_default();
    let reads = |ops: &[OpCode]| ops.iter().any(|op| op.is_read());
    let (before, behind) = asked.split_at(last);
    (reads(before), reads(behind))
}

/// Why a holder has no node in the folder.
fn without_node(world: &World, holder: usize) -> String {
    let who = name(holder);
    let history = world.net.core.history();
    let is_own = |session| world.owner(session) == Some(holder);
    let mut created = history.iter().filter(|one| {
        one.change == Change::Created
            && one.path.starts_with(FOLDER)
            && one.session.is_some_and(is_own)
    });
    let Some(created) = created.next_back() else {
        return format!(
            "{who} takes itself for the holder, and has no node: the server has refused it, or was \
             never asked for it. What was read may be out of date when it arrives, so a look \
             decides nothing, and NodeExists is no success: another one has the lock."
        );
    };
    let node = short(&created.path);
    let deleted = history.iter().rev().find(|one| {
        one.change == Change::Deleted && one.path == created.path && one.zxid > created.zxid
    });
    let by = deleted.and_then(|one| one.session).and_then(|session| world.owner(session));
    match by {
        Some(by) if by != holder => format!(
            "{} has deleted {node}, which was the node of {who}. Numbers begin anew in a new \
             folder, so a name that is remembered may be somebody else's by now. Give your node a \
             name that nobody else can have: client.unique() has 128 random bits.",
            name(by)
        ),
        Some(_) => format!(
            "{node}, the node of {who}, is gone with its session, and {who} does not know it. To \
             be connected is no proof: the server that answers may be cut off from the others. \
             Only the reply to a write proves that the session lived, and it does so for the \
             moment at which you asked: count one session timeout from there, and not from the \
             reply. Behind that, `lost` has to return. (Here one server hears of everything at \
             once. In an ensemble the count begins a little earlier: see \"Which rule is the real \
             one\" in chapter 6 of the book.)"
        ),
        None => format!("{node}, the node of {who}, is gone, and {who} does not know it."),
    }
}

/// What a process has heard last, pings left out.
fn last_heard(world: &World, process: usize) -> Option<Kind> {
    world.record.events.iter().rev().find_map(|event| match event {
        Event::Frame(one)
            if one.process == process
                && one.way == Way::Down
                && !one.is_lost
                && one.frame.kind != Kind::Ping =>
        {
            Some(one.frame.kind)
        }
        _ => None,
    })
}

fn stuck(world: &World, waiting: &[usize]) -> String {
    let is_left = |path: &String| {
        let is_persistent =
            world.net.core.stat(path).is_some_and(|stat| stat.ephemeral_owner == SessionId(0));
        let session = world.creator(path);
        is_persistent && session.is_some_and(|it| world.net.core.session_deadline(it).is_none())
    };
    if let Some((node, _)) = world.nodes().into_iter().find(|(path, _)| is_left(path)) {
        return format!(
            "{} is persistent, so it is still there, although the session that has created it is \
             over. An ephemeral node goes with its session, and nobody has to delete it.",
            short(&node)
        );
    }
    for process in waiting {
        let (who, nodes) = (name(*process), own(world, *process));
        if let [(first, _), (second, _), ..] = &nodes[..] {
            return format!(
                "{who} owns two nodes, {first} and {second}, and waits for its own. The first was \
                 created, and is not used: its reply was lost, or an error came behind it. The \
                 session lives, so the server keeps it. Give your node a name that you recognise, \
                 and look for it before you create another one; and delete it before you return \
                 an error."
            );
        }
    }
    let left = world.nodes().into_iter().find(|(_, owner)| {
        owner.is_some_and(|owner| !waiting.contains(&owner) && !is_at_work(world, owner))
    });
    if let Some((node, Some(owner))) = left {
        let (node, owner) = (short(&node), name(owner));
        return format!(
            "{node}, the node of {owner}, is still there, although {owner} is done, and its \
             session lives. A node that was created and is not used, or a release whose request \
             or reply was lost, blocks everybody behind it. Make sure that your node is gone: \
             NoNode is the proof."
        );
    }
    let nodes = world.nodes();
    let first = nodes.iter().filter_map(|(path, owner)| Some((number(path)?, path, (*owner)?)));
    if let Some((ours, path, owner)) = first.min() {
        let (who, node) = (name(owner), short(path));
        let watches = world.net.core.watches().into_iter();
        let mut watches = watches.filter(|watch| world.owner(watch.session) == Some(owner));
        let watched = watches.find(|watch| watch.path.starts_with(&format!("{FOLDER}/")));
        return match watched.filter(|watch| number(&watch.path).is_some_and(|it| it > ours)) {
            Some(watch) => format!(
                "{who} is the first in the queue, with {node}, and waits for {}, which is behind \
                 it and waits for {who}: a circle. Whom you wait for must be ahead of you.",
                short(&watch.path)
            ),
            None => format!(
                "{who} is the first in the queue, with {node}, and still waits: for a \
                 notification that does not come. Set the watch with the look, and look again \
                 when anything has happened, also when the connection was lost."
            ),
        };
    }
    let who = waiting.first().map_or("?", |process| name(*process));
    match nodes.first() {
        Some((node, _)) => format!("{who} waits, and {} belongs to nobody who runs.", short(node)),
        None => format!(
            "Nobody has a node in the folder, and {who} still waits. Set the watch with the look, \
             and look again when anything has happened."
        ),
    }
}

/// True for a process that still has turns to take.
fn is_at_work(world: &World, process: usize) -> bool {
    world.actors.get(process).is_some_and(|actor| actor.turns_left > 0)
}
