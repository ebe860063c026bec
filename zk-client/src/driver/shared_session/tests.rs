//! Tests of the turns of the driver and of the slots.

use std::time::Duration;

use bytes::Bytes;
use zk_proto::EventType;

use super::*;
use crate::config::SessionConfig;
use crate::driver::wake_counter::WakeCounter;
use crate::model::event::StreamEvent;
use crate::random::Random;

fn shared() -> Arc<SharedSession> {
    let core = Session::new(SessionConfig::new(Duration::from_secs(4), 1));
    let names = UniqueNames { client: 1, random: Random::new(1) };
    SharedSession::new(core, Hosts::new(Vec::new(), 1), names, Clock::new(|| Duration::ZERO))
}

#[test]
fn what_a_burst_took_is_given_back() {
    let shared = shared();
    let mut buffers = TurnBuffers::default();
    let mut answers = Vec::new();
    for _ in 0..10 * KEPT_EVENTS {
        let (token, answer) = shared.open_slot("/a");
        let result = Err(Failure::Ended { sent: false, ended: Ended::Closed });
        buffers.events.push_back(Event::Completed { token, result, zxid: None });
        answers.push(answer);
    }
    shared.deliver(&mut buffers);
    shared.turn(&Context::from_waker(Waker::noop()), &mut buffers, false, |_, _, _| ());
    assert!(buffers.events.capacity() <= 2 * KEPT_EVENTS, "{}", buffers.events.capacity());
    assert!(buffers.spent.capacity() <= 2 * KEPT_EVENTS, "{}", buffers.spent.capacity());
}

#[test]
fn a_driver_comes_again_by_itself_or_is_woken_by_the_next_change() {
    let shared = shared();
    let told = |stream: &Arc<EventQueue>| Event::StreamEvent {
        stream: Arc::clone(stream),
        event: StreamEvent::Rearmed,
    };
    let unwatched = || Event::StreamClosed { stream: Arc::default() };
    let (one, other) = (Arc::default(), Arc::default());
    let fired = || {
        let (watcher, _) = oneshot::channel();
        let change = Change { kind: EventType::NODE_DATA_CHANGED, zxid: None, missed: false };
        Event::WatchFired { watcher, path: Arc::from("/a"), change }
    };
    let answered = || {
        let result = Err(Failure::Ended { sent: false, ended: Ended::Closed });
        Event::Completed { token: shared.open_slot("/a").0, result, zxid: None }
    };
    let cases: [(Vec<CoreEvent>, bool, bool); 12] = [
        (vec![], true, false),
        (vec![told(&one)], true, false),
        (vec![told(&one), told(&one), told(&one)], false, false),
        (vec![told(&one), told(&one)], true, true),
        (vec![told(&one), told(&one), told(&other)], false, true),
        (vec![told(&one), unwatched()], false, true),
        (vec![unwatched(), told(&one)], false, true),
        (vec![fired(), answered()], false, false),
        (vec![fired(), answered()], true, true),
        (vec![fired(), fired()], false, true),
        (vec![answered(), answered()], false, true),
        (vec![fired(), answered(), answered()], false, true),
    ];
    for (case, (events, more, should_yield)) in cases.into_iter().enumerate() {
        let wakes = Arc::new(WakeCounter::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut buffers = TurnBuffers { events: events.into(), ..TurnBuffers::default() };
        let cx = Context::from_waker(&waker);
        let result = shared.turn(&cx, &mut buffers, more, |_, _, _| ());
        assert_eq!(result.should_yield, should_yield, "case {case}");
        shared.with(|_| ());
        assert_eq!(wakes.count(), usize::from(!should_yield), "case {case}");
    }
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn answered(body: &Bytes) -> Answered {
    let reply = RawReply { zxid: Zxid(7), body: body.clone(), requested_at: Instant::now() };
    (Ok(reply), Some(Zxid(7)))
}

fn body() -> Bytes {
    Bytes::from(vec![1; 100])
}

fn poll(
    receiver: &mut ReplyReceiver,
    wakes: &Arc<WakeCounter>,
) -> Poll<Option<Result<Bytes, Failure>>> {
    let waker = Waker::from(Arc::clone(wakes));
    let answer = receiver.poll(&Context::from_waker(&waker));
    answer.map(|answer| answer.map(|(completion, _)| completion.map(|reply| reply.body)))
}

#[test]
fn an_answer_is_told_once_and_wakes_the_last_who_waited() {
    let (responder, mut receiver) = ReplySlots::default().open("/a");
    let (first, second) = (Arc::default(), Arc::default());
    assert!(poll(&mut receiver, &first).is_pending());
    assert!(poll(&mut receiver, &second).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "it waits no longer");
    assert!(responder.answer(answered(&body())).is_some());
    let woken = [first, second.clone()].map(|wakes| wakes.count());
    assert_eq!(woken, [0, 1]);
    assert_eq!(poll(&mut receiver, &second), Poll::Ready(Some(Ok(body()))));
    assert_eq!(poll(&mut receiver, &second), Poll::Ready(None));
}

#[test]
fn who_waits_in_vain_is_woken_and_told() {
    let (responder, mut receiver) = ReplySlots::default().open("/a");
    let wakes = Arc::default();
    assert!(poll(&mut receiver, &wakes).is_pending());
    drop(responder);
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut receiver, &wakes), Poll::Ready(None));
}

#[test]
fn an_answer_goes_with_who_asked_before_it_came_and_behind() {
    for polled in [false, true] {
        let (body, wakes) = (body(), Arc::default());
        let mut slots = ReplySlots::default();
        for before in [false, true] {
            let (responder, mut receiver) = slots.open("/a");
            if polled {
                assert!(poll(&mut receiver, &wakes).is_pending());
            }
            let mut receiver = Some(receiver);
            receiver.take_if(|_| before);
            let spent = responder.answer(answered(&body));
            drop(receiver);
            assert!(body.is_unique(), "{polled} {before}: what is kept for later keeps it");
            assert_eq!(Arc::strong_count(&wakes), 1, "{polled} {before}");
            slots.keep(spent.into_iter());
        }
    }
}

#[test]
fn a_slot_is_used_again_once_its_caller_is_done_and_not_before() {
    let wakes = Arc::default();
    let mut slots = ReplySlots::default();
    let (responder, mut late) = slots.open("/late");
    let kept = Arc::downgrade(&late.slot);
    slots.keep(responder.answer(answered(&body())).into_iter());
    let (responder, mut other) = slots.open("/other");
    assert!(!std::ptr::eq(kept.as_ptr(), Arc::as_ptr(&other.slot)));
    assert_eq!(late.path(), "/late");
    assert_eq!(poll(&mut late, &wakes), Poll::Ready(Some(Ok(body()))));
    assert!(poll(&mut other, &wakes).is_pending());

    let used = Arc::as_ptr(&other.slot);
    slots.keep(responder.answer(answered(&body())).into_iter());
    assert_eq!(poll(&mut other, &wakes), Poll::Ready(Some(Ok(body()))));
    drop(other);
    let (_responder, mut next) = slots.open("/next");
    assert!(std::ptr::eq(used, Arc::as_ptr(&next.slot)));
    assert_eq!(next.path(), "/next");
    assert!(poll(&mut next, &wakes).is_pending(), "the last answer is no answer to this");
}

#[test]
fn no_more_is_kept_than_was_said() {
    let mut slots = ReplySlots::default();
    let spend = |(responder, _): (Responder, ReplyReceiver)| responder.answer(answered(&body()));
    let long = "x".repeat(KEPT_SLOT_PATH + 1);
    let spent = slots.open(&long);
    slots.keep(spend(spent).into_iter());
    assert!(slots.0.is_empty());
    let open = (0..KEPT_SLOTS + 9).map(|_| slots.open("/a")).collect::<Vec<_>>();
    slots.keep(open.into_iter().filter_map(spend));
    assert_eq!(slots.0.len(), KEPT_SLOTS);
}
