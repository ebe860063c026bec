//! Every ready-made scene plays, is the same each time, and shows what it claims.

use std::collections::BTreeSet;

use zk_playground::catalogue::{self, Ready};
use zk_playground::{
    ClientState, Connection, Content, Do, Event, Fate, LinkState, LockState, Mode, Role, Scene,
    SpanKind, State, VerdictKind, play,
};

pub(crate) fn scene(id: &str) -> Scene {
    ready(id).play().unwrap()
}

pub(crate) fn ready(id: &str) -> Ready {
    catalogue::scenes().into_iter().find(|ready| ready.id == id).unwrap()
}

/// The times of the notes of a contender that begin like this.
pub(crate) fn notes(scene: &Scene, name: &str, beginning: &str) -> Vec<u64> {
    let notes = scene.events.iter().filter_map(|event| match event {
        Event::Note { at_us, who, text, .. } if who == name && text.starts_with(beginning) => {
            Some(*at_us)
        }
        _ => None,
    });
    notes.collect()
}

/// The whole state after each event.
fn states(scene: &Scene) -> Vec<State> {
    let mut whole = State::default();
    let states = scene.states.iter().map(|state| {
        whole.tree = state.tree.clone().or_else(|| whole.tree.take());
        whole.watches = state.watches.clone().or_else(|| whole.watches.take());
        for client in &state.clients {
            whole.clients.retain(|known| known.who != client.who);
            whole.clients.push(client.clone());
        }
        whole.clone()
    });
    states.collect()
}

#[test]
fn each_scene_shows_what_it_claims() {
    for ready in catalogue::scenes() {
        let verdict = ready.play().unwrap().verdict;
        assert_eq!(verdict.kind, ready.claim, "{}: {}", ready.id, verdict.text);
        assert_eq!(verdict.holds, ready.claim == VerdictKind::Holds, "{}", ready.id);
        let has_no_time = matches!(ready.claim, VerdictKind::Holds | VerdictKind::Herd);
        assert_eq!(verdict.breach.is_none(), has_no_time, "{}", ready.id);
    }
}

#[test]
fn each_broken_lock_has_a_scene_and_its_repair_the_same_script() {
    let scenes = catalogue::scenes();
    let broken = scenes.iter().filter(|ready| ready.group == "broken").collect::<Vec<_>>();
    assert_eq!(broken.len(), 9);
    for broken in broken {
        let repaired = ready(broken.pair.unwrap());
        assert_eq!((repaired.group, repaired.pair), ("repaired", Some(broken.id)));
        assert_eq!(repaired.script.actions, broken.script.actions, "{}", broken.id);
        assert_eq!(repaired.script.lock, format!("{}_repaired", broken.script.lock));
        assert_ne!(broken.claim, VerdictKind::Holds, "{}", broken.id);
    }
    let ids = scenes.iter().map(|ready| ready.id).collect::<BTreeSet<_>>();
    assert_eq!(ids.len(), scenes.len());
}

#[test]
fn a_script_gives_the_same_bytes_each_time_and_another_seed_gives_others() {
    for ready in catalogue::scenes() {
        let bytes = |ready: &Ready| serde_json::to_string(&ready.play().unwrap()).unwrap();
        let first = bytes(&ready);
        assert!(first == bytes(&ready), "{}", ready.id);
        assert!(first.len() < 1_000_000, "{}: {} bytes", ready.id, first.len());
    }
    let mut other = ready("queue");
    other.script.seed += 1;
    assert_ne!(other.play().unwrap().events, scene("queue").events);
}

#[test]
fn events_are_in_order_and_each_has_a_state() {
    for ready in catalogue::scenes() {
        let scene = ready.play().unwrap();
        assert_eq!(scene.events.len(), scene.states.len(), "{}", ready.id);
        assert!(scene.events.is_sorted_by_key(Event::at_us), "{}", ready.id);
        assert!(scene.events.iter().all(|event| event.at_us() <= scene.ended_us));
        let first = &scene.states[0];
        assert!(first.tree.is_some() && first.watches.is_some(), "{}", ready.id);
        assert_eq!(first.clients.len(), ready.script.contenders.len(), "{}", ready.id);
    }
}

#[test]
fn the_bytes_of_a_frame_are_its_fields() {
    let mut roles = BTreeSet::new();
    for ready in catalogue::scenes() {
        for event in ready.play().unwrap().events {
            let Event::Frame(frame) = event else { continue };
            let content = &frame.content;
            roles.insert(format!("{:?}", content.role));
            let length = frame.bytes.len() / 2;
            let said = u32::from_str_radix(&frame.bytes[..8], 16).unwrap() as usize;
            assert_eq!(said + 4, length, "{}", content.summary);
            let mut end = 0;
            for field in content.fields.iter().filter(|field| field.depth == 0) {
                assert_eq!(field.offset, end, "{}: {}", content.summary, field.name);
                end += field.length;
            }
            assert_eq!(end, length, "{}", content.summary);
            assert_eq!(frame.arrived_us.is_some(), frame.fate == Fate::Arrived);
            assert!(frame.sent_us <= frame.at_us, "{}", content.summary);
            assert_ne!(content.op, "?", "{}: {}", ready.id, content.summary);
        }
    }
    assert_eq!(roles.len(), 5, "{roles:?}");
}

#[test]
fn a_lease_never_outlives_the_session() {
    let mut leases = 0;
    for ready in catalogue::scenes() {
        let scene = ready.play().unwrap();
        for state in states(&scene) {
            for ClientState { who, lock, lease_until_us, deadline_us, .. } in state.clients {
                let (Some(lease), Some(deadline)) = (lease_until_us, deadline_us) else {
                    continue;
                };
                assert!(lease <= deadline, "{}: {who}", ready.id);
                assert!(matches!(lock, LockState::Held | LockState::Maybe), "{}: {who}", ready.id);
                leases += 1;
            }
        }
    }
    assert!(leases > 50, "{leases}");
}

#[test]
fn the_queue_hands_the_lock_over_by_one_notification() {
    let scene = scene("queue");
    let releases = [2_000_000, 3_000_000];
    for (next, release) in ["Ben", "Cho"].into_iter().zip(releases) {
        let held = notes(&scene, next, "holds the lock")[0];
        let on_the_way = scene.events.iter().filter_map(|event| match event {
            Event::Frame(frame) if frame.to == next || frame.from == next => Some(frame),
            _ => None,
        });
        let critical = on_the_way
            .filter(|frame| frame.content.role != Role::Ping)
            .filter(|frame| release <= frame.sent_us && frame.at_us <= held);
        let critical = critical.map(|frame| frame.content.role).collect::<Vec<_>>();
        assert_eq!(critical, [Role::Notification], "{next}");
        assert!(held - release < 20_000, "{next}: {held}");
    }
}

#[test]
fn a_linger_makes_the_second_acquire_free() {
    let scene = scene("two_level");
    let held = notes(&scene, "Ana", "holds the lock");
    assert_eq!(held.len(), 2);
    assert_eq!(held[1], 1_000_000, "at the moment of the acquire");
    let ben = notes(&scene, "Ben", "holds the lock")[0];
    assert!((2_500_000..2_600_000).contains(&ben), "{ben}");
}

#[test]
fn the_tasks_of_a_process_hand_the_lock_on_without_a_frame() {
    let scene = scene("tasks");
    for (next, release) in [("Ana2", 450_000), ("Ana3", 500_000), ("Ben2", 700_000)] {
        let held = notes(&scene, next, "holds the lock");
        assert_eq!(held, [release], "at the moment of the release, for {next}");
    }
    // Between the processes a delete and a notification have to travel.
    let ben = notes(&scene, "Ben", "holds the lock")[0];
    assert!((550_001..570_000).contains(&ben), "{ben}");
    for state in states(&scene) {
        let in_queue = |path: &str| path.starts_with("/lock/");
        let nodes = state.tree.unwrap().into_iter().filter(|node| in_queue(&node.path));
        assert!(nodes.count() <= 2, "each process has one node");
        let of_tasks = |who: &str| who.ends_with(|c: char| c.is_ascii_digit());
        assert!(!state.watches.unwrap().iter().any(|watch| of_tasks(&watch.who)));
    }
    let ends = scene.events.iter().filter_map(|event| match event {
        Event::Frame(frame) => Some([frame.from.as_str(), frame.to.as_str()]),
        _ => None,
    });
    assert_eq!(ends.flatten().collect::<BTreeSet<_>>(), ["Ana", "Ben", "server"].into());
    assert_eq!(scene.verdict.owners_at_once, 1);
}

#[test]
fn what_happens_to_a_process_happens_to_all_its_tasks() {
    let mut script = ready("tasks").script;
    script.until_ms = 30_000;
    script.actions.retain(|action| action.what == Do::Acquire);
    let mut crash = script.actions[0].clone();
    // Ana2 waits in Ana's process, which has the lock.
    (crash.at_ms, crash.who, crash.what) = (1000, "Ana2".to_owned(), Do::Crash);
    script.actions.push(crash);
    let scene = play(&script).unwrap();
    let last = states(&scene).pop().unwrap();
    let of_ana = last.clients.iter().filter(|client| client.who.starts_with("Ana"));
    let of_ana = of_ana.map(|client| (client.connection, client.lock)).collect::<Vec<_>>();
    assert_eq!(of_ana, [(Connection::Gone, LockState::Idle); 3]);
    let told = scene.events.iter().find_map(|event| match event {
        Event::Action { who, what: Do::Crash, text, .. } => Some((who.as_str(), text.as_str())),
        _ => None,
    });
    assert_eq!(told, Some(("Ana", "Ana crashes: the process vanishes")));
    assert_eq!(notes(&scene, "server", "ends the session of").len(), 1);
    assert_eq!(notes(&scene, "Ben", "holds the lock").len(), 1);
}

#[test]
fn a_holder_that_is_cut_off_gives_up_before_its_session_ends() {
    let scene = scene("lost_lease");
    let lost = notes(&scene, "Ana", "knows that the lock is lost")[0];
    let ended = notes(&scene, "server", "ends the session of Ana")[0];
    let next = notes(&scene, "Ben", "holds the lock")[0];
    assert!(lost < ended && ended < next, "{lost} {ended} {next}");
}

#[test]
fn a_stopped_process_does_nothing_and_then_knows() {
    let scene = scene("stopped_holder");
    let (stopped, resumed) = (2_000_000, 26_000_000);
    for event in &scene.events {
        if let Event::Frame(frame) = event {
            let is_out = frame.from == "Ana" && (stopped..resumed).contains(&frame.sent_us);
            assert!(!is_out, "{}", frame.content.summary);
        }
    }
    assert_eq!(notes(&scene, "Ana", "has not written"), [resumed]);
    let of_ana = scene.spans.iter().filter(|span| span.who == "Ana");
    assert!(of_ana.map(|span| span.to_us).max().unwrap() < 13_000_000);
}

#[test]
fn a_missed_change_is_reported_on_the_next_connection_of_the_same_session() {
    let scene = scene("missed_change");
    let of_ben = scene.events.iter().filter_map(|event| match event {
        Event::Frame(frame) if [&*frame.from, &*frame.to].contains(&"Ben") => Some(&frame.content),
        _ => None,
    });
    let of_ben = of_ben.collect::<Vec<_>>();
    let session = |content: &&&Content| {
        let field = content.fields.iter().find(|field| field.name == "session_id");
        field.map(|field| field.value.clone())
    };
    // Each handshake is a frame either way. The first one asks for a new session.
    let handshakes = of_ben.iter().filter(|it| it.role == Role::Connect).collect::<Vec<_>>();
    let sessions = handshakes.iter().map(|it| session(it).unwrap()).collect::<Vec<_>>();
    assert_eq!(sessions.len(), 4, "{sessions:?}");
    assert!(sessions[1] == sessions[2] && sessions[2] == sessions[3], "{sessions:?}");
    let place = |what: &str| of_ben.iter().position(|it| it.summary.starts_with(what)).unwrap();
    assert!(place("setWatches") < place("NodeDeleted"));
    assert!(place("NodeDeleted") < place("ok: setWatches"));
    let held = notes(&scene, "Ben", "holds the lock")[0];
    assert!(held > notes(&scene, "Ben", "is connected")[1]);
}

#[test]
fn a_lost_reply_is_lost_and_the_node_is_found() {
    let scene = scene("lost_reply_found");
    let lost = scene.events.iter().filter_map(|event| match event {
        Event::Frame(frame) if frame.fate == Fate::Lost => Some(frame),
        _ => None,
    });
    let lost = lost.filter(|frame| frame.to == "Ana").collect::<Vec<_>>();
    assert_eq!(lost[0].content.op, "create2");
    for state in states(&scene) {
        let own =
            state.tree.unwrap().into_iter().filter(|node| node.owner.as_deref() == Some("Ana"));
        assert!(own.count() <= 1);
    }
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let scene = scene("read_write");
    assert_eq!(scene.verdict.owners_at_once, 2);
    let writer = scene.spans.iter().find(|span| span.mode == Mode::Write).unwrap();
    let beside = scene.spans.iter().filter(|span| {
        span.who != writer.who && span.from_us < writer.to_us && writer.from_us < span.to_us
    });
    assert_eq!(beside.count(), 0);
}

#[test]
fn a_holder_whose_node_is_gone_is_stale_until_it_knows() {
    let scene = scene("lost_session");
    let stale = scene.spans.iter().filter(|span| span.kind == SpanKind::Stale);
    let stale = stale.collect::<Vec<_>>();
    assert_eq!(stale.len(), 1);
    assert_eq!((stale[0].who.as_str(), stale[0].from_us), ("Ana", 2_000_000));
    assert!(stale[0].to_us < 2_100_000, "{}", stale[0].to_us);
}

#[test]
fn a_write_of_a_holder_whose_node_is_gone_is_told() {
    let mut script = ready("release_by_name").script;
    script.actions.retain(|action| action.who != "Cho");
    let mut write = script.actions[0].clone();
    (write.at_ms, write.who, write.what) = (17_000, "Ben".to_owned(), Do::Write);
    script.actions.push(write);
    let verdict = play(&script).unwrap().verdict;
    assert_eq!(verdict.kind, VerdictKind::StaleWrite, "{}", verdict.text);
}

#[test]
fn a_server_that_is_cut_off_is_left_with_the_connection() {
    let mut script = ready("queue").script;
    script.actions.truncate(1);
    for (at_ms, what) in [(3000, Do::Isolate), (4000, Do::Reset)] {
        let mut action = script.actions[0].clone();
        (action.at_ms, action.what) = (at_ms, what);
        script.actions.push(action);
    }
    let scene = play(&script).unwrap();
    let last = states(&scene).pop().unwrap();
    let ana = last.clients.iter().find(|client| client.who == "Ana").unwrap();
    assert_eq!((ana.connection, ana.link), (Connection::Connected, LinkState::Up));
}
