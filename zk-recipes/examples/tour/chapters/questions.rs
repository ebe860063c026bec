//! Questions to ask oneself at the end, with their answers and where they come from.

use crate::Error;
use crate::course::number;
use crate::stage::{Stage, Style};

struct Question {
    question: &'static str,
    answer: &'static str,
    /// The title of the chapter that shows it.
    chapter: &'static str,
}

const QUESTIONS: [Question; 12] = [
    Question {
        question: "Why is the node of a contender ephemeral?",
        answer: "So that a program that crashes leaves no lock behind. Its session ends after a \
                 timeout of silence, and the server deletes the node with it.",
        chapter: "Nodes, sessions, watches, zxids, frames",
    },
    Question {
        question: "Why is it not enough to look whether the lock is free, and to take it then?",
        answer: "Two contenders may look before either takes it. What was read may be out of date, \
                 so only a write can decide: the server puts the writes into one order.",
        chapter: "Check, then create",
    },
    Question {
        question: "Why is the node sequential?",
        answer: "The number is the place in a queue. With it, a contender knows whom to wait for, \
                 everybody gets a turn, and a release need not wake everybody.",
        chapter: "Everybody watches the lock",
    },
    Question {
        question: "Why watch the predecessor, and not the holder?",
        answer: "When the holder goes, exactly one contender can get in. If all watched the \
                 holder, all would be woken and all but one would wait again: 1225 notifications \
                 instead of 49 for fifty contenders.",
        chapter: "Everybody watches the lock",
    },
    Question {
        question: "Why look again after a wake-up?",
        answer: "The predecessor may have been a waiter that left. Its end does not say that the \
                 holder has gone, too.",
        chapter: "Every wake-up is taken for the lock",
    },
    Question {
        question: "What does a lost reply do?",
        answer: "The create was carried out, and its sender does not know. If it creates another \
                 node, that one waits behind the first, which stays as long as the session. So it \
                 must look for its node first, and needs a name by which it can recognise it.",
        chapter: "The reply to a create is lost",
    },
    Question {
        question: "Why must the name be one that nobody else can ever have?",
        answer: "Numbers begin anew in a new folder. A late release must not find the node of \
                 somebody else under the old name.",
        chapter: "The lock is released by name",
    },
    Question {
        question: "Why can a lock be lost while its holder believes that it has it?",
        answer: "The ensemble ends a session that it hears nothing of, and nobody can tell a \
                 client that is cut off. A server that answers pings may be cut off itself. So the \
                 holder needs a deadline. Only the reply to a write proves that its session lived, \
                 and the deadline counts from when a request was sent that such a write has \
                 confirmed, never from a reply. Chapter 6 of the book has it as a line of time.",
        chapter: "No deadline",
    },
    Question {
        question: "What is a fencing token for, if there is a deadline?",
        answer: "A process may be stopped between looking at the clock and writing. Only the store \
                 that gets the write can refuse it then, and for that it compares numbers that \
                 grow from holder to holder.",
        chapter: "No fence",
    },
    Question {
        question: "Why does a reader not wait for a younger writer?",
        answer: "The writer waits for the reader, which is ahead of it. If contenders wait only \
                 for those ahead of them, the first one waits for nobody, and there is no circle.",
        chapter: "A reader waits for a younger writer",
    },
    Question {
        question: "Why is one round trip enough for a free lock?",
        answer: "The create and the list leave together, and the server answers them in order. So \
                 the list is newer than the node, and whoever is not ahead in it never will be.",
        chapter: "The queue",
    },
    Question {
        question: "How does one take two locks without a deadlock?",
        answer: "Take all or none, or take them in an order that everybody keeps. Whoever waits \
                 holds only locks that come earlier in the order.",
        chapter: "Several locks at once",
    },
];

pub(crate) async fn tell(stage: &Stage) -> Result<(), Error> {
    for (index, Question { question, answer, chapter }) in (1..).zip(QUESTIONS) {
        stage.line(Style::Text, "");
        stage.line(Style::Event, format!("Question {index}. {question}"));
        // Time for an answer of one's own.
        stage.pause().await;
        stage.text(answer);
        let number = number(chapter).ok_or_else(|| format!("no chapter {chapter:?}"))?;
        stage
            .line(Style::Code, format!("See chapter {number}, {chapter}: tour --chapter {number}"));
        stage.pause().await;
    }
    stage.text(
        "More questions, with longer answers, are at the end of the book that goes with this \
         course: zk-recipes/learn/book/src/lib.rs says how it is opened.",
    );
    stage.pause().await;
    Ok(())
}
