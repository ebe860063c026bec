/*
  What the page says about a scene: times, sentences, and the names of classes in the style sheets.
  Knows no elements.
*/
'use strict';

const Words = (() => {
  const COLOURS = 6;

  const CONNECTIONS = {
    connecting: 'connecting',
    connected: 'connected',
    suspended: 'connection lost',
    expired: 'session expired',
    closed: 'session closed',
    gone: 'process gone',
  };

  const LOCKS = {
    idle: 'wants no lock',
    joining: 'joins the queue',
    waiting: 'waits in the queue',
    held: 'holds the lock',
    maybe: 'may hold the lock',
    lost: 'has lost the lock',
  };

  /* A time, or a length of time, in the unit that reads best. */
  function time(us) {
    if (us < 1000 && us > 0) return `${Math.round(us)}\u00a0µs`;
    const ms = us / 1000;
    if (ms < 1000) return `${Number.isInteger(ms) ? ms : ms.toFixed(1)}\u00a0ms`;
    return `${(ms / 1000).toFixed(3)}\u00a0s`;
  }

  /* A time that is left: to a tenth of a second, so that it reads calmly while it runs. */
  function left(us) {
    return us <= 0 ? 'over' : `${(Math.ceil(us / 100_000) / 10).toFixed(1)} s left`;
  }

  /* The class with the colour of a contender; the server has none. */
  function laneClass(scene, id) {
    const index = scene.lanes.filter((lane) => lane.kind !== 'server')
      .findIndex((lane) => lane.id === id);
    return index < 0 ? 'lane-server' : `lane-${index % COLOURS}`;
  }

  function isServer(scene, id) {
    return scene.lanes.some((lane) => lane.id === id && lane.kind === 'server');
  }

  /* The contender that an event is about, or the server if it is about that alone. */
  function party(scene, event) {
    if (event.kind !== 'frame') return event.who;
    return isServer(scene, event.from) ? event.to : event.from;
  }

  /* Without a server that is cut off, all are one. */
  function isSplit(scene) {
    return scene.lanes.some((lane) => lane.of);
  }

  /* What stands at the head of a lane. */
  function laneName(scene, lane) {
    return lane.kind === 'server' && !lane.of && isSplit(scene) ? 'majority' : lane.id;
  }

  function the(scene, id) {
    const lane = scene.lanes.find((one) => one.id === id && one.kind === 'server');
    return lane && !lane.of ? `the ${laneName(scene, lane)}` : id;
  }

  /* A text without the part of names that only makes them unique. */
  function short(text) {
    return text.replace(/_c_[0-9a-f]{8}-[0-9a-f-]{27}-/g, '…');
  }

  function capital(text) {
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  function fate(event) {
    if (event.fate === 'lost') return 'It is lost on the way.';
    if (event.fate === 'in_flight' || event.arrived_us === null) {
      return 'It is still on its way when the scene ends.';
    }
    // A recording has one time for each frame.
    if (event.arrived_us === event.sent_us) return '';
    return `It arrives after ${time(event.arrived_us - event.sent_us)}.`;
  }

  /* What happens in an event, without its time. */
  function happening(scene, event) {
    if (event.kind === 'action') return `${event.text}.`;
    if (event.kind === 'note') {
      // A note goes on after a name, but for one that tells of the scene and not of the server.
      const isOfScene = event.text.startsWith('the ');
      const who = isOfScene ? '' : `${the(scene, event.who)} `;
      return `${capital(who + event.text)}.`;
    }
    return `${capital(the(scene, event.from))} sends to ${the(scene, event.to)}: ` +
      `${short(event.summary)}. ${fate(event)}`.trimEnd();
  }

  /* An event in sentences, for those who listen. */
  function sentence(scene, event) {
    return `${time(event.at_us)}: ${happening(scene, event)}`;
  }

  /* The short text of an event in the diagram. */
  function label(event) {
    if (event.kind === 'action') return event.do.replaceAll('_', ' ');
    if (event.kind === 'note') return event.text;
    return short(event.summary);
  }

  /* The contenders that take the lock for their own at some moment of a time span. */
  function ownersBetween(scene, from, to) {
    const spans = scene.spans.filter((span) => span.from_us <= to && span.to_us > from);
    return [...new Set(spans.map((span) => span.who))];
  }

  /*
    What a contender believes of the lock at a time, and the word for its colour. Who takes the lock
    for its own is wrong if its node does not have the lock, and knows by the clock alone that its
    lease is over.
  */
  function belief(client, us) {
    const takes = client.lock === 'held' || client.lock === 'maybe';
    if (takes && client.lease_until_us !== null && client.lease_until_us <= us) {
      return { colour: 'lost', text: 'has no lease any more' };
    }
    if (takes && !client.owns) return { colour: 'lost', text: 'believes that it holds the lock' };
    return { colour: client.lock, text: LOCKS[client.lock] ?? client.lock };
  }

  /* What the mark over a breach says. */
  function breach(scene) {
    const { breach: { from_us: from, to_us: to }, kind } = scene.verdict;
    const when = from === to ? `at ${time(from)}` : `from ${time(from)} to ${time(to)}`;
    const owners = ownersBetween(scene, from, to);
    const known = { two_owners: `two owners, ${owners.join(' and ')},`, told: 'broken' };
    const what = known[kind] ?? kind.replaceAll('_', ' ');
    return `${capital(what)} ${when}`;
  }

  /* True of handshakes and pings, which are many and say little. */
  function isRoutine(event) {
    return event.kind === 'frame' && (event.role === 'ping' || event.role === 'connect');
  }

  return {
    time, left, laneClass, laneName, party, sentence, label, breach, belief, isRoutine, capital,
    connection: (word) => CONNECTIONS[word] ?? word,
  };
})();
