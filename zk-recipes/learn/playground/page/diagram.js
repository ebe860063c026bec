/*
  The sequence diagram: a line for each lane, time running down, and every frame an arrow.

  It is drawn once for a scene. A step then changes three things: where the veil over the future
  begins, which event is marked, and what is scrolled into view. For those who do not see it, the
  list of events says the same.
*/
'use strict';

const Diagram = (() => {
  const { svg, html, attribute } = Elements;

  /*
    Pixels: the column of times and a lane at least, where there is room and on a phone, a bar on a
    lane, and the present below a row.
  */
  const WIDE = { axis: 76, lane: 148 };
  const NARROW = { axis: 58, lane: 72 };
  const NARROW_BELOW = 500;
  const BAR = 10;
  const BELOW = 8;

  /* If less of the diagram is in the window, it is about to be scrolled into it. */
  const LEAST_SEEN = 80;

  /*
    The lanes in the order of the picture: servers in the middle, so that arrows stay short, and a
    server that is cut off on the side of its client.
  */
  function arrange(lanes) {
    const servers = lanes.filter((lane) => lane.kind === 'server');
    const others = lanes.filter((lane) => lane.kind !== 'server');
    const half = Math.ceil(others.length / 2);
    const [left, right] = [others.slice(0, half), others.slice(half)];
    const of = (side) => servers.filter((lane) => side.some((client) => client.id === lane.of));
    return [...left, ...of(left), ...servers.filter((lane) => !lane.of), ...of(right), ...right];
  }

  /* How wide a character of a label is, in pixels, on the average. */
  const letterWidth = (() => {
    const sample = 'create2 /lock/lock-0000000000 (ephemeral)';
    let width = 0;
    return (element) => {
      if (width === 0) {
        const pen = document.createElement('canvas').getContext('2d');
        pen.font = `12px ${getComputedStyle(element).fontFamily}`;
        width = pen.measureText(sample).width / sample.length;
      }
      return width;
    };
  })();

  function cut(text, width, letter) {
    const letters = Math.max(4, Math.floor(width / letter));
    return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
  }

  /* The head of an arrow at a point, for a line that comes from the left or from the right. */
  function head(x, y, fromLeft) {
    const back = fromLeft ? -8 : 8;
    return `M${x + back},${y - 4.5}L${x},${y}L${x + back},${y + 4.5}`;
  }

  function cross(x, y) {
    return `M${x - 5},${y - 5}L${x + 5},${y + 5}M${x - 5},${y + 5}L${x + 5},${y - 5}`;
  }

  function create(container, chosen) {
    const heads = html('div', { class: 'heads', 'aria-hidden': 'true' });
    const body = svg('svg', { class: 'sequence', 'aria-hidden': 'true', focusable: 'false' });
    container.append(heads, body);
    let scene = null;
    let line = null;
    let drawnFor = 0;
    let present = 0;
    let marks = [];
    let endsOf = [];
    let coming = [];
    let current = -1;
    let axis = WIDE.axis;
    let each = WIDE.lane;
    let letter = 0;
    let width = 0;
    let veil = null;
    let now = null;
    let times = null;

    function drawLanes(lanes, x) {
      heads.replaceChildren(...lanes.map((lane) => {
        const name = html('span', { class: Words.laneClass(scene, lane.id) },
          Words.laneName(scene, lane));
        name.style.left = `${x.get(lane.id)}px`;
        name.style.maxWidth = `${each - 4}px`;
        return name;
      }));
      return lanes.map((lane) => svg('line', {
        class: `lifeline ${Words.laneClass(scene, lane.id)} ${lane.kind}`,
        x1: x.get(lane.id), x2: x.get(lane.id), y1: 0, y2: line.height,
      }));
    }

    function drawBar(x, who, from, to, kind) {
      return svg('rect', {
        class: `belief ${Words.laneClass(scene, who)} ${kind}`,
        x: x.get(who) - BAR / 2, y: from, width: BAR, height: Math.max(2, to - from),
      });
    }

    /* A full bar along a lane where its client takes the lock for its own. */
    function drawSpans(x) {
      return scene.spans.map((span) => drawBar(x, span.who, Timeline.yAt(line, span.from_us),
        Timeline.yAt(line, span.to_us), span.kind));
    }

    /* Calls `found(who, from, to)` for each time in which `is` is true of a client. */
    function eachTime(is, found) {
      const since = new Map();
      const end = (who, y) => {
        if (since.has(who)) found(who, since.get(who), y);
        since.delete(who);
      };
      scene.states.forEach((state, index) => {
        for (const client of state.clients) {
          if (!is(client)) end(client.who, line.eventY[index]);
          else if (!since.has(client.who)) since.set(client.who, line.eventY[index]);
        }
      });
      for (const who of [...since.keys()]) end(who, line.height);
    }

    /* A hollow bar where a client waits for the lock. */
    function drawWaits(x) {
      const bars = [];
      eachTime((client) => client.lock === 'waiting' || client.lock === 'joining',
        (who, from, to) => bars.push(drawBar(x, who, from, to, 'waiting')));
      return bars;
    }

    /* A line between a server and the others, where it is cut off from them. */
    function drawCuts(x) {
      const drawn = [];
      const main = scene.lanes.find((lane) => lane.kind === 'server' && !lane.of);
      const apart = new Map(scene.lanes.filter((lane) => lane.of).map((lane) => [lane.of, lane.id]));
      eachTime((client) => client.link === 'isolated', (who, from, to) => {
        if (!apart.has(who)) return;
        const at = (x.get(apart.get(who)) + x.get(main.id)) / 2;
        const told = svg('title', {}, `The server of ${who} is cut off from the majority`);
        drawn.push(svg('path', { class: 'cut', d: `M${at},${from}V${to}` }, told));
        drawn.push(svg('path', { class: 'cut end', d: cross(at, from) + cross(at, to) }));
      });
      return drawn;
    }

    /* The label of an event, with a sign if only this scene has it, and not its pair. */
    function labelOf(event, index) {
      return `${scene.only?.has(index) ? '+ ' : ''}${Words.label(event)}`;
    }

    function drawFrame(event, index, x) {
      const from = x.get(event.from);
      const to = x.get(event.to);
      const isLost = event.arrived_us === null;
      const fromLeft = from < to;
      const y1 = line.sentY[index];
      const y2 = isLost ? y1 + 6 : line.eventY[index];
      const inset = fromLeft ? BAR / 2 : -BAR / 2;
      const end = isLost ? from + (to - from) * 0.6 : to - inset;
      const path = `M${from + inset},${y1}L${end},${y2}`;
      const room = Math.abs(to - from) - 2 * BAR;
      return [
        svg('path', { class: 'reach', d: path }),
        svg('path', { class: 'shaft', d: path }),
        svg('path', { class: 'head', d: isLost ? cross(end, y2) : head(end, y2, fromLeft) }),
        svg('text', {
          x: from + (fromLeft ? BAR : -BAR), y: y1 - 4,
          'text-anchor': fromLeft ? 'start' : 'end',
        }, cut(labelOf(event, index), room, letter)),
      ];
    }

    function drawPoint(event, index, x) {
      const at = x.get(event.who) ?? axis / 2;
      const y = line.eventY[index];
      const label = labelOf(event, index);
      // A long text goes on across other lanes, and stands where there is more room for it.
      const [before, behind] = [at - axis - 2 * BAR, width - at - 2 * BAR];
      const fits = label.length * letter < behind || before < behind;
      return [
        svg('rect', { class: 'reach', x: at - 10, y: y - 9, width: 20, height: 18 }),
        svg('path', { class: 'point', d: `M${at},${y - 7}l7,7l-7,7l-7,-7z` }),
        svg('text', {
          x: at + (fits ? BAR : -BAR), y: y + 4, 'text-anchor': fits ? 'start' : 'end',
        }, cut(label, Math.max(before, behind), letter)),
      ];
    }

    function drawEvent(index, x) {
      const event = scene.events[index];
      const parts = event.kind === 'frame'
        ? drawFrame(event, index, x) : drawPoint(event, index, x);
      const lane = Words.laneClass(scene, Words.party(scene, event));
      const kind = event.role ?? event.tone ?? '';
      return svg('g', {
        class: `event ${event.kind} ${kind} ${event.fate ?? ''} ${lane}` +
          `${scene.only?.has(index) ? ' only' : ''}`,
        'data-index': index,
      }, svg('title', {}, Words.sentence(scene, event)), ...parts);
    }

    /* The times at the left, as many as there is room for. They stay when lanes are scrolled. */
    function drawTimes() {
      const drawn = [
        svg('rect', { class: 'axis', x: 0, y: 0, width: axis - 6, height: line.height }),
      ];
      let free = 0;
      for (const index of line.steps) {
        const event = scene.events[index];
        const y = line.sentY[index];
        if (y < free) continue;
        free = y + 20;
        const us = event.kind === 'frame' ? event.sent_us : event.at_us;
        drawn.push(svg('text', { class: 'when', x: axis - 8, y: y + 4 }, Words.time(us)));
      }
      times = svg('g', {}, ...drawn);
      return times;
    }

    function drawPauses() {
      return line.pauses.map((pause) => svg('line', {
        class: 'pause', x1: axis - 4, x2: width,
        y1: (pause.from + pause.to) / 2 - 4, y2: (pause.from + pause.to) / 2 - 4,
      }));
    }

    /* Where the promise of the lock is broken. */
    function drawBreach() {
      const breach = scene.verdict.breach;
      if (breach === null) return [];
      const y = line.breachY - 16;
      const height = Math.max(22, Timeline.yAt(line, breach.to_us) - y);
      return [
        svg('rect', { class: 'breach', x: axis, y, width: width - axis, height }),
        svg('text', { class: 'breach', x: axis + 8, y: line.breachY },
          cut(Words.breach(scene), width - axis - 16, letter * 1.1)),
      ];
    }

    function load(newScene, newLine) {
      scene = newScene;
      line = newLine;
      drawnFor = container.clientWidth;
      // Before the changes, since what comes behind them lays the page out once more.
      container.scrollTo(0, 0);
      current = -1;
      letter = letterWidth(body);
      const lanes = arrange(scene.lanes);
      const isNarrow = container.clientWidth < NARROW_BELOW;
      const least = isNarrow ? NARROW : WIDE;
      container.classList.toggle('narrow', isNarrow);
      axis = least.axis;
      each = Math.max(least.lane, Math.floor((container.clientWidth - axis) / lanes.length));
      const x = new Map(lanes.map((lane, index) => [lane.id, axis + (index + 0.5) * each]));
      width = axis + lanes.length * each;
      attribute(body, 'width', width);
      attribute(body, 'height', line.height);
      heads.style.width = `${width}px`;
      marks = scene.events.map(() => null);
      endsOf = [];
      for (const index of line.steps) {
        const { from, to, who } = scene.events[index];
        marks[index] = drawEvent(index, x);
        endsOf[index] = [from, to, who].filter((id) => x.has(id)).map((id) => x.get(id));
      }
      veil = svg('rect', { class: 'veil', x: axis - 4, y: 0, width, height: line.height });
      now = svg('line', { class: 'now', x1: 0, x2: width, y1: 0, y2: 0 });
      body.replaceChildren(
        ...drawPauses(), ...drawLanes(lanes, x), ...drawCuts(x), ...drawWaits(x),
        ...drawSpans(x), ...drawBreach(),
        ...marks.filter((mark) => mark !== null), veil, drawTimes(), now,
      );
    }

    /* Keeps the lanes of an event in what is seen, as far as there is room. */
    function followLanes(ends) {
      const from = Math.min(...ends) - 2 * BAR;
      const to = Math.max(...ends) + 2 * BAR;
      if (from < container.scrollLeft + axis) container.scrollLeft = from - axis;
      else if (to > container.scrollLeft + container.clientWidth) {
        container.scrollLeft = to - container.clientWidth;
      }
    }

    /* Where the part of the diagram that is in the window begins, and how high it is. */
    function seen() {
      const box = container.getBoundingClientRect();
      const top = Math.max(0, -box.top);
      const bottom = Math.min(container.clientHeight, chosen.floor() - box.top);
      return bottom - top < LEAST_SEEN ? [0, container.clientHeight] : [top, bottom - top];
    }

    /* Keeps the present in the middle half of what is seen, and a new event with its lanes. */
    function follow() {
      if (coming.length > 0) followLanes(coming);
      coming = [];
      const [top, height] = seen();
      const at = present - container.scrollTop - top;
      if (at < height * 0.25 || at > height * 0.7) {
        container.scrollTop = present - top - height * 0.45;
      }
    }

    /* Shows a moment. It measures nothing: `follow` does, when all else is shown, too. */
    function show(position, index) {
      present = position;
      attribute(veil, 'y', position + BELOW);
      attribute(now, 'transform', `translate(0 ${position + BELOW})`);
      if (index !== current) {
        marks[current]?.classList.remove('current');
        marks[index]?.classList.add('current');
        current = index;
        coming = endsOf[index] ?? [];
      }
    }

    body.addEventListener('click', (event) => {
      const mark = event.target.closest('.event');
      if (mark) chosen.event(Number(mark.dataset.index));
      else chosen.position(event.clientY - body.getBoundingClientRect().top);
    });

    // Lanes take the room that there is.
    new ResizeObserver(() => {
      if (line === null || container.clientWidth === drawnFor) return;
      const index = current;
      load(scene, line);
      show(present, index);
      follow();
    }).observe(container);

    container.addEventListener('scroll', () => {
      if (times) attribute(times, 'transform', `translate(${container.scrollLeft} 0)`);
    });

    return { load, show, follow };
  }

  return { create };
})();
