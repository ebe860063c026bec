//! The mirror against a server that is only a set of names: nobody may be first by the mirror who
//! is not by the server, whatever is hidden, lost or late.

use std::collections::VecDeque;

use super::*;
use crate::layout::{Layout, Role};

const FOLDER: &str = "/f";

/// The upper half of the unique part of everybody who is ours.
const OURS: u64 = 7;

fn names() -> Names {
    Layout::CURATOR.read_write()
}

fn mirror() -> Mirror {
    Mirror::new(names(), Folder::new(FOLDER), names().siblings(OURS))
}

fn name(role: Role, unique: u128, number: i32) -> String {
    format!("{}{number:010}", names().stem(role, unique))
}

fn writer(number: i32) -> String {
    name(Role::Exclusive, 1000 + number as u128, number)
}

fn own(number: i32) -> Contender {
    let unique = (u128::from(OURS) << 64) | number as u128;
    Contender::parse(&names(), &name(Role::Exclusive, unique, number)).unwrap()
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn created(mirror: &mut Mirror, name: &str) {
    mirror.told(EventType::NODE_CREATED, &path(name));
}

fn deleted(mirror: &mut Mirror, name: &str) {
    mirror.told(EventType::NODE_DELETED, &path(name));
}

fn list(mirror: &mut Mirror, names: &[&str]) {
    let listing = mirror.listing();
    mirror.listed(&listing, names.iter().copied());
}

/// A mirror that knows its count: everybody up to number 3 came and went.
fn in_step() -> Mirror {
    let mut mirror = mirror();
    created(&mut mirror, &writer(3));
    deleted(&mut mirror, &writer(3));
    list(&mut mirror, &[]);
    mirror
}

#[test]
fn nothing_is_known_before_a_list_and_a_count() {
    let mut mirror = mirror();
    created(&mut mirror, &own(1).name);
    assert_eq!(mirror.turn(&own(1)), Turn::Unknown, "without a list");
    list(&mut mirror, &[&own(1).name]);
    assert_eq!(mirror.turn(&own(1)), Turn::First);
    created(&mut mirror, &own(2).name);
    assert_eq!(mirror.turn(&own(2)), Turn::Waiting { sibling: true });
    deleted(&mut mirror, &own(1).name);
    assert_eq!(mirror.turn(&own(2)), Turn::First);
}

#[test]
fn a_list_tells_who_is_ahead_of_whom_it_names() {
    let mut mirror = mirror();
    created(&mut mirror, &writer(1));
    created(&mut mirror, &own(2).name);
    let listing = mirror.listing();
    created(&mut mirror, &own(3).name);
    mirror.listed(&listing, [writer(1).as_str(), &own(2).name]);
    assert_eq!(mirror.turn(&own(2)), Turn::Waiting { sibling: false });
    assert_eq!(mirror.turn(&own(3)), Turn::Unknown, "it may be older than the list's answer");
    // Somebody came untold between the two.
    let mut mirror = in_step();
    mirror.doubt();
    created(&mut mirror, &own(5).name);
    list(&mut mirror, &[&writer(4), &own(5).name]);
    assert_eq!(mirror.turn(&own(5)), Turn::Unknown, "{} may end untold", writer(4));
}

#[test]
fn the_end_of_everybody_ahead_is_the_turn() {
    let mut mirror = in_step();
    created(&mut mirror, &writer(4));
    created(&mut mirror, &own(5).name);
    created(&mut mirror, &writer(6));
    assert_eq!(mirror.turn(&own(5)), Turn::Waiting { sibling: false });
    deleted(&mut mirror, &writer(6));
    assert_eq!(mirror.turn(&own(5)), Turn::Waiting { sibling: false });
    deleted(&mut mirror, &writer(4));
    assert_eq!(mirror.turn(&own(5)), Turn::First);
    deleted(&mut mirror, &own(5).name);
    assert_eq!(mirror.turn(&own(5)), Turn::Absent);
}

#[test]
fn a_number_that_is_not_the_next_one_proves_nothing() {
    for number in [3, 5, 9] {
        let mut mirror = in_step();
        created(&mut mirror, &own(number).name);
        assert_eq!(mirror.turn(&own(number)), Turn::Unknown, "4 was due and {number} came");
        if number > 4 {
            assert!(!mirror.is_complete(), "somebody came untold");
        }
        // The count goes on from there, once a list has told who they were.
        list(&mut mirror, &[&own(number).name]);
        deleted(&mut mirror, &own(number).name);
        let next = number.max(4) + 1;
        created(&mut mirror, &own(next).name);
        assert_eq!(mirror.turn(&own(next)), Turn::First);
    }
}

#[test]
fn children_of_every_kind_count() {
    let mut mirror = in_step();
    created(&mut mirror, "config");
    created(&mut mirror, &own(5).name);
    assert_eq!(mirror.turn(&own(5)), Turn::First);
    // What is deeper does not.
    created(&mut mirror, "config/part");
    created(&mut mirror, &own(6).name);
    assert_eq!(mirror.turn(&own(6)), Turn::Waiting { sibling: true });
}

#[test]
fn who_is_only_listed_may_go_untold() {
    let mut mirror = in_step();
    list(&mut mirror, &[&writer(2)]);
    created(&mut mirror, &own(4).name);
    assert_eq!(mirror.turn(&own(4)), Turn::Unknown);
    list(&mut mirror, &[&own(4).name]);
    assert_eq!(mirror.turn(&own(4)), Turn::First);
}

#[test]
fn who_is_listed_and_then_told_of_is_one() {
    let mut mirror = in_step();
    list(&mut mirror, &[&own(4).name, "config"]);
    created(&mut mirror, &own(4).name);
    assert_eq!(mirror.contenders(), 1);
    assert_eq!(mirror.turn(&own(4)), Turn::First);
    created(&mut mirror, "config");
    assert_eq!(mirror.others().collect::<Vec<_>>(), ["config"]);
    deleted(&mut mirror, "config");
    assert_eq!(mirror.others().count(), 0);
}

#[test]
fn a_list_is_too_old_behind_a_doubt() {
    let mut mirror = in_step();
    let listing = mirror.listing();
    mirror.doubt();
    created(&mut mirror, &writer(4));
    mirror.listed(&listing, []);
    assert!(!mirror.is_complete());
    list(&mut mirror, &[&writer(4)]);
    assert!(mirror.is_complete());
}

#[test]
fn a_list_from_before_the_count_completes_nothing() {
    let mut mirror = mirror();
    list(&mut mirror, &[]);
    // Number 3 came behind the list, and untold.
    created(&mut mirror, &own(4).name);
    created(&mut mirror, &own(5).name);
    deleted(&mut mirror, &own(4).name);
    assert_eq!(mirror.turn(&own(5)), Turn::Unknown);
}

#[test]
fn a_list_that_is_looked_at_late_completes_nothing_either() {
    // Whoever is told of first is a contender, or tells no number.
    for first in [None, Some("config")] {
        let mut mirror = mirror();
        let listing = mirror.listing();
        first.iter().for_each(|name| created(&mut mirror, name));
        // The list is answered; number 3 comes behind it, and untold.
        created(&mut mirror, &writer(4));
        mirror.listed(&listing, first);
        created(&mut mirror, &own(5).name);
        deleted(&mut mirror, &writer(4));
        assert_eq!(mirror.turn(&own(5)), Turn::Unknown, "{first:?}");
    }
}

#[test]
fn who_comes_or_goes_during_a_list_is_not_taken_from_it() {
    let mut mirror = in_step();
    created(&mut mirror, &writer(4));
    let listing = mirror.listing();
    deleted(&mut mirror, &writer(4));
    created(&mut mirror, &own(5).name);
    let gone = writer(4);
    mirror.listed(&listing, [gone.as_str()]);
    assert_eq!(mirror.turn(&own(5)), Turn::First);
    assert_eq!(mirror.contenders(), 1);
}

#[test]
fn a_folder_that_was_made_anew_begins_a_new_count() {
    let mut mirror = in_step();
    mirror.told(EventType::NODE_DELETED, FOLDER);
    mirror.told(EventType::NODE_CREATED, FOLDER);
    created(&mut mirror, &own(0).name);
    assert_eq!(mirror.turn(&own(0)), Turn::Unknown);
    list(&mut mirror, &[&own(0).name]);
    created(&mut mirror, &own(1).name);
    assert_eq!(mirror.turn(&own(1)), Turn::Waiting { sibling: true });
}

#[test]
fn a_writer_that_becomes_a_reader_stays_ahead() {
    let mut mirror = in_step();
    created(&mut mirror, &writer(4));
    created(&mut mirror, &own(5).name);
    let reader = name(Role::Shared, 1004, 4);
    created(&mut mirror, &reader);
    deleted(&mut mirror, &writer(4));
    assert_eq!(mirror.turn(&own(5)), Turn::Waiting { sibling: false });
    deleted(&mut mirror, &reader);
    assert_eq!(mirror.turn(&own(5)), Turn::First);
    // The one that was put at an old place counts like any other.
    created(&mut mirror, &own(7).name);
    assert_eq!(mirror.turn(&own(7)), Turn::Waiting { sibling: true });
}

#[test]
fn writes_are_counted_where_they_are_told() {
    let mut mirror = in_step();
    created(&mut mirror, &own(4).name);
    assert_eq!(mirror.writes(&own(4).name), Some(0));
    mirror.told(EventType::NODE_DATA_CHANGED, &path(&own(4).name));
    assert_eq!(mirror.writes(&own(4).name), Some(1));
    mirror.doubt();
    assert_eq!(mirror.writes(&own(4).name), None);
    created(&mut mirror, &writer(5));
    list(&mut mirror, &[&own(4).name, &writer(2)]);
    assert_eq!(mirror.writes(&own(4).name), Some(2), "one more may have been untold");
    assert_eq!(mirror.writes(&writer(2)), None, "it was only listed");
    assert_eq!(mirror.writes(&writer(9)), None);
}

#[test]
fn strangers_are_all_contenders_but_the_own_one() {
    let mut mirror = in_step();
    let own = own(4).name;
    assert!(!mirror.has_strangers(&own));
    created(&mut mirror, &own);
    created(&mut mirror, "config");
    assert!(!mirror.has_strangers(&own));
    assert!(mirror.has_strangers(""), "another lock of this client waits like anybody");
    created(&mut mirror, &writer(6));
    assert!(mirror.has_strangers(&own));
    deleted(&mut mirror, &writer(6));
    assert!(!mirror.has_strangers(&own));
    mirror.doubt();
    assert!(mirror.has_strangers(&own), "who knows");
}

/// What travels to the client, in order.
enum Message {
    Event(EventType, String),
    List(Listing, Vec<String>),
    Created(Contender),
    Rearmed,
}

/// What travels to the server.
enum Request {
    Create(Role),
    List(Listing),
    Delete(Contender),
}

struct Child {
    name: String,
    hidden: bool,
}

/// A server, one client with a mirror, and a way between them that is slow and breaks.
struct World {
    random: u64,
    children: Vec<Child>,
    next: i32,
    unique: u128,
    up: VecDeque<Request>,
    down: VecDeque<Message>,
    mirror: Mirror,
    /// Lists that were answered, and that nobody has looked at yet.
    answers: VecDeque<(Listing, Vec<String>)>,
    /// Own contenders whose creates have been answered.
    waiting: Vec<Contender>,
    seen: BTreeMap<&'static str, u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (up, down, answers) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let (children, waiting) = (Vec::new(), Vec::new());
        let seen = BTreeMap::new();
        let (random, unique, next) = (seed * 2 + 1, 1, 0);
        let mirror = mirror();
        Self { random, children, next, unique, up, down, mirror, answers, waiting, seen }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % n
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn tell(&mut self, kind: EventType, path: String) {
        self.down.push_back(Message::Event(kind, path));
    }

    /// A watch may be dead for a moment.
    fn tells(&mut self) -> bool {
        let lost = self.percent(1);
        if lost {
            self.saw("creation lost");
        }
        !lost
    }

    fn create(&mut self, name: String, hidden: bool) {
        let told = self.tells();
        self.put(name, hidden, told);
    }

    fn put(&mut self, name: String, hidden: bool, told: bool) {
        self.next += 1;
        if told && !hidden {
            self.tell(EventType::NODE_CREATED, path(&name));
        }
        self.children.push(Child { name, hidden });
    }

    fn delete(&mut self, name: &str) {
        self.take(name, true);
    }

    fn take(&mut self, name: &str, told: bool) {
        if let Some(at) = self.children.iter().position(|child| child.name == name) {
            let child = self.children.remove(at);
            if told && !child.hidden {
                self.tell(EventType::NODE_DELETED, path(name));
            }
        }
    }

    fn role(&mut self) -> Role {
        if self.percent(40) { Role::Shared } else { Role::Exclusive }
    }

    /// Somebody else does something.
    fn stranger(&mut self) {
        self.unique += 1;
        let unique = self.unique;
        let any = self.below(self.children.len().max(1));
        match self.below(20) {
            0..7 => {
                let (role, hidden) = (self.role(), self.percent(15));
                self.create(name(role, unique, self.next), hidden);
                if hidden {
                    self.saw("hidden");
                }
            }
            7 => self.create(format!("config{unique}"), false),
            8 => {
                // A writer becomes a reader.
                let child = self.children.get(any).map(|child| (child.name.clone(), child.hidden));
                let recast = child.and_then(|(name, hidden)| {
                    let reader = names().recast(&name, Role::Exclusive, Role::Shared)?;
                    Some((name, reader, hidden))
                });
                if let Some((writer, reader, hidden)) = recast {
                    self.waiting.retain(|own| own.name != writer);
                    // Of one transaction all is told, or nothing.
                    let told = self.tells();
                    self.put(reader, hidden, told);
                    self.take(&writer, told);
                }
            }
            9 if self.percent(10) => {
                self.saw("made anew");
                let all = self.children.iter().map(|child| child.name.clone()).collect::<Vec<_>>();
                all.iter().for_each(|name| self.delete(name));
                self.tell(EventType::NODE_DELETED, FOLDER.to_owned());
                self.tell(EventType::NODE_CREATED, FOLDER.to_owned());
                self.next = 0;
            }
            _ => {
                if let Some(name) = self.children.get(any).map(|child| child.name.clone()) {
                    self.delete(&name);
                }
            }
        }
    }

    fn client(&mut self) {
        match self.below(8) {
            0..3 => {
                let role = self.role();
                self.up.push_back(Request::Create(role));
            }
            3..5 => {
                let listing = self.mirror.listing();
                self.up.push_back(Request::List(listing));
            }
            _ if !self.waiting.is_empty() => {
                let at = self.below(self.waiting.len());
                let own = self.waiting.swap_remove(at);
                self.up.push_back(Request::Delete(own));
            }
            _ => {}
        }
    }

    fn serve(&mut self) {
        match self.up.pop_front() {
            None => {}
            Some(Request::Create(role)) => {
                self.unique += 1;
                let unique = (u128::from(OURS) << 64) | self.unique;
                let name = name(role, unique, self.next);
                self.create(name.clone(), false);
                let own = Contender::parse(&names(), &name).unwrap();
                self.down.push_back(Message::Created(own));
            }
            Some(Request::List(listing)) => {
                let all = self.children.iter().map(|child| child.name.clone()).collect();
                self.down.push_back(Message::List(listing, all));
            }
            Some(Request::Delete(own)) => self.delete(&own.name),
        }
    }

    fn deliver(&mut self) {
        match self.down.pop_front() {
            None => {}
            Some(Message::Event(kind, path)) => self.mirror.told(kind, &path),
            Some(Message::List(listing, all)) => self.answers.push_back((listing, all)),
            Some(Message::Created(own)) => self.waiting.push(own),
            Some(Message::Rearmed) => self.mirror.doubt(),
        }
    }

    /// Whoever has asked for a list looks at the answer, when more may have been told of, or has
    /// gone.
    fn look(&mut self) {
        let Some((listing, all)) = self.answers.pop_front() else {
            return;
        };
        if self.percent(10) {
            self.mirror.not_listed();
            return;
        }
        self.mirror.listed(&listing, all.iter().map(String::as_str));
    }

    fn cut(&mut self) {
        self.saw("cut");
        let lists = self.up.drain(..).filter(|request| matches!(request, Request::List(_))).count()
            + self.down.drain(..).filter(|message| matches!(message, Message::List(..))).count();
        (0..lists).for_each(|_| self.mirror.not_listed());
        // Nothing is told of what happens now.
        for _ in 0..self.below(4) {
            self.stranger();
        }
        self.down.clear();
        self.down.push_back(Message::Rearmed);
    }

    /// What the mirror says must be so.
    fn check(&mut self, seed: u64) {
        for own in self.waiting.clone() {
            let turn = self.mirror.turn(&own);
            match turn {
                Turn::First => self.saw("first"),
                Turn::Waiting { .. } => self.saw("waiting"),
                Turn::Absent => self.saw("absent"),
                Turn::Unknown => self.saw("unknown"),
            }
            let is_there = self.children.iter().any(|child| child.name == own.name);
            if !is_there {
                continue;
            }
            let ahead = self.children.iter().find(|child| {
                let other = Contender::parse(&names(), &child.name);
                other.is_some_and(|other| other.blocks(&own))
            });
            if let Some(ahead) = ahead {
                assert_ne!(turn, Turn::First, "seed {seed}: {} blocks {}", ahead.name, own.name);
                if ahead.hidden {
                    self.saw("hidden ahead");
                }
            }
        }
    }
}

#[test]
fn nobody_is_first_whom_the_server_has_behind_another() {
    let mut seen = BTreeMap::<&str, u32>::new();
    for seed in 0..2000 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            match world.below(100) {
                0..20 => world.stranger(),
                20..40 => world.client(),
                40..65 => world.serve(),
                65..90 => world.deliver(),
                90..99 => world.look(),
                _ => world.cut(),
            }
            world.check(seed);
        }
        for (what, times) in world.seen {
            *seen.entry(what).or_default() += times;
        }
    }
    for what in ["first", "waiting", "unknown", "hidden ahead", "creation lost", "made anew", "cut"]
    {
        assert!(seen.get(what).is_some_and(|times| *times > 500), "{what} is rare: {seen:?}");
    }
}
