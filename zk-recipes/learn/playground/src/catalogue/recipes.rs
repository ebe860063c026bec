//! Scenes of the locks of zk-recipes, and of the textbook lock.

use crate::catalogue::ready::{Ready, script};
use crate::scene::VerdictKind;
use crate::script::Do::{
    Acquire, Crash, Cut, Drop, Expire, FencedWrite, Heal, LoseReply, Release, Reset, Resume, Stop,
    Write,
};
use crate::script::Script;

pub(super) fn scenes() -> Vec<Ready> {
    vec![
        queue(),
        hand_over(),
        cancelled(),
        textbook(),
        lost_reply(),
        missed_change(),
        lost_lease(),
        stopped_holder(),
        crash(),
        lost_session(),
        read_write(),
        two_level(),
        tasks(),
    ]
}

fn ready(
    (id, title, group): (&'static str, &'static str, &'static str),
    text: &str,
    look: &'static str,
    script: Script,
) -> Ready {
    let (text, claim) = (text.to_owned(), VerdictKind::Holds);
    Ready { id, title, text, lesson: "", look, group, pair: None, script, claim }
}

fn queue() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (400, "Ben", Acquire),
        (700, "Cho", Acquire),
        (1500, "Ana", FencedWrite),
        (2000, "Ana", Release),
        (2500, "Ben", FencedWrite),
        (3000, "Ben", Release),
        (3500, "Cho", FencedWrite),
        (4000, "Cho", Release),
    ];
    ready(
        ("queue", "The queue", "basics"),
        "A lock is a folder. Each contender creates a node in it, which ends with its session, and \
         the server numbers the nodes. Who has the lowest number holds the lock. Everybody else \
         watches the nodes right ahead, so that a release wakes one or two and not all.",
        "The numbers of the nodes, whose node each contender watches, and the one notification by \
         which the lock changes hands.",
        script("exclusive", 5000, &[], &actions),
    )
}

fn hand_over() -> Ready {
    let actions = [(100, "Ana", Acquire), (300, "Ben", Acquire), (1000, "Ana", Release)];
    ready(
        ("hand_over", "The hand-over", "basics"),
        "Ben waits behind Ana. When she releases the lock, her delete and the notification to Ben \
         are all that has to travel: he asks for nothing before he goes in.",
        "The time between Ana's release and the moment at which Ben holds the lock: one way up and \
         one way down.",
        script("exclusive", 2000, &[], &actions),
    )
}

fn cancelled() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (300, "Ben", Acquire),
        (500, "Cho", Acquire),
        (1500, "Ben", Drop),
        (3000, "Ana", Release),
    ];
    ready(
        ("cancelled", "A waiter that leaves", "basics"),
        "Ben changes his mind: the future that waits for the lock is dropped. His node has to go, \
         and Cho, who waits behind it, must not take that for the lock.",
        "Cho is notified twice. Only the second time the lock is free.",
        script("exclusive", 4000, &[], &actions),
    )
}

fn textbook() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (400, "Ben", Acquire),
        (1500, "Ana", Release),
        (2500, "Ben", Release),
    ];
    ready(
        ("textbook", "The textbook lock", "basics"),
        "The same algorithm in one function on the client alone. While nothing goes wrong it does \
         what it should. Try what happens when Ana is stopped for twenty seconds.",
        "After the notification Ben lists the folder again, which the lock of the first scene need \
         not do.",
        script("textbook", 4000, &[], &actions),
    )
}

fn lost_reply() -> Ready {
    let actions = [
        (100, "Ana", LoseReply),
        (200, "Ana", Acquire),
        (2000, "Ben", Acquire),
        (4000, "Ana", Release),
    ];
    ready(
        ("lost_reply_found", "A lost reply", "faults"),
        "The server creates Ana's node, but the reply is lost and the connection breaks. She \
         cannot know whether she is in the queue. Her client connects again and looks for a node \
         with the unique name that it chose.",
        "There is only one node of Ana's, although she never got the reply to her create.",
        script("exclusive", 6000, &[], &actions),
    )
}

fn missed_change() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (400, "Ben", Acquire),
        (1000, "Ben", Reset),
        (1000, "Ben", Cut),
        (2000, "Ana", Release),
        (3000, "Ben", Heal),
        (7000, "Ben", Release),
    ];
    ready(
        ("missed_change", "A change that is missed", "faults"),
        "Ben waits behind Ana when his connection breaks, and for a while he cannot connect again. \
         In that time Ana releases the lock, and the server has nobody to notify. Then Ben's \
         client comes back with the same session and says what it watches and up to which \
         transaction it knows, and the server notifies it of what it has missed.",
        "The session has the same number in both handshakes, so that Ben keeps his node and his \
         place in the queue.",
        script("textbook", 8000, &[], &actions),
    )
}

fn lost_lease() -> Ready {
    let actions =
        [(100, "Ana", Acquire), (1000, "Ben", Acquire), (3000, "Ana", Cut), (22_000, "Ana", Heal)];
    ready(
        ("lost_lease", "Cut off: the deadline", "faults"),
        "Ana holds the lock when her link is cut. Nobody can tell her anything any more. But she \
         knows when her session was proven alive, and so until when the lock is surely hers. She \
         stops by herself, before the server gives the lock to Ben.",
        "Ana's lease ends before the deadline at which the server ends her session. In between \
         nobody holds the lock.",
        script("exclusive", 25_000, &[], &actions),
    )
}

fn stopped_holder() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (1000, "Ben", Acquire),
        (2000, "Ana", Stop),
        (20_000, "Ben", FencedWrite),
        (25_000, "Ana", FencedWrite),
        (26_000, "Ana", Resume),
    ];
    ready(
        ("stopped_holder", "A holder that is stopped", "faults"),
        "Ana's process is stopped while it holds the lock, as by a debugger or a long collection \
         of garbage. Her timers do not run, so she cannot give up in time. When she goes on, the \
         first thing that she asks her guard tells her the truth, and her fenced write is refused.",
        "Ana sends nothing between the stop and the resume. Her write comes to nothing, since it \
         is one transaction with the check of her node.",
        script("exclusive", 30_000, &[], &actions),
    )
}

fn crash() -> Ready {
    let actions = [(100, "Ana", Acquire), (500, "Ben", Acquire), (2000, "Ana", Crash)];
    ready(
        ("crash", "A crash", "faults"),
        "Ana's process vanishes. Her connection ends at once, but that does not end her session: \
         the server waits for a session timeout, in case she comes back. Then it deletes her node.",
        "How long Ben waits: that is the price of a crash, and the reason for a short session \
         timeout.",
        script("exclusive", 16_000, &[], &actions),
    )
}

fn lost_session() -> Ready {
    let actions =
        [(100, "Ana", Acquire), (500, "Ben", Acquire), (2000, "Ana", Expire), (2000, "Ana", Write)];
    let ready = ready(
        ("lost_session", "The session is ended by hand", "faults"),
        "The server ends Ana's session at once, as an operator can make it, without waiting for \
         the timeout. Her node goes with it, and Ben is next. No deadline covers that: until the \
         news reaches Ana, two take the lock for their own. What she writes in that time comes to \
         nothing, since her writes end with her session. Another store has to compare tokens.",
        "Between the end of the session and the moment at which Ana knows, her lane is marked as \
         stale. Her write is lost.",
        script("exclusive", 6000, &[], &actions),
    );
    Ready { claim: VerdictKind::TwoOwners, ..ready }
}

fn read_write() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (300, "Ben", Acquire),
        (600, "Cho", Acquire),
        (900, "Dan", Acquire),
        (2000, "Ana", Release),
        (2500, "Ben", Release),
        (3500, "Cho", Release),
        (4500, "Dan", Release),
    ];
    ready(
        ("read_write", "Readers and writers", "recipes"),
        "Ana and Ben read at the same time. Cho wants to write and waits for both. Dan wants to \
         read, but he came after Cho, so he waits for her: otherwise a writer might wait for ever.",
        "Who watches whom: Cho watches readers, and Dan watches only the writer.",
        script("read_write", 5500, &["Ana", "Ben", "Dan"], &actions),
    )
}

fn two_level() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (500, "Ana", Release),
        (1000, "Ana", Acquire),
        (1500, "Ana", Release),
        (2500, "Ben", Acquire),
        (4000, "Ben", Release),
    ];
    ready(
        ("two_level", "Two levels, with linger", "recipes"),
        "Ana's process keeps its node for a while after a release. So its next acquire needs no \
         request at all. When Ben joins the queue, Ana's process lets go at once.",
        "No frame passes when Ana acquires the lock for the second time. The node goes when Ben \
         comes.",
        script("reentrant", 10_000, &[], &actions),
    )
}

fn tasks() -> Ready {
    let actions = [
        (100, "Ana", Acquire),
        (200, "Ana2", Acquire),
        (250, "Ana3", Acquire),
        (300, "Ben", Acquire),
        (350, "Ben2", Acquire),
        (400, "Ben3", Acquire),
        (450, "Ana", Release),
        (500, "Ana2", Release),
        (550, "Ana3", Release),
        (700, "Ben", Release),
        (750, "Ben2", Release),
        (800, "Ben3", Release),
    ];
    let mut script = script("reentrant", 2000, &[], &actions);
    for contender in &mut script.contenders {
        let process = contender.name.trim_end_matches(|c: char| c.is_ascii_digit());
        contender.with = (process != contender.name).then(|| process.to_owned());
    }
    ready(
        ("tasks", "Two levels, with tasks", "recipes"),
        "Ana and Ben are processes with three tasks each, and each process has one session and one \
         node. The tasks of a process hand the lock on among themselves, for up to half a second \
         while others wait. When the last of Ana's tasks has released the lock, her node goes, and \
         Ben's process is next.",
        "No frame passes when the lock goes from Ana to Ana2 and from Ana2 to Ana3. One node each \
         is in the tree, although six want the lock.",
        script,
    )
}
