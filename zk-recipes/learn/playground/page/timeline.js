/*
  Where each moment of a scene stands in the diagram, in pixels from its top.

  Frames take milliseconds and sessions take seconds, so time is not drawn to scale: every event
  has a row of its own, and a pause is drawn by the logarithm of its length. Between two rows the
  scale is even, so that positions and times can be turned into each other. Knows no elements.
*/
'use strict';

const Timeline = (() => {
  /* Pixels: above the first row, between two rows, and below the last. */
  const ABOVE = 20;
  const ROW = 24;
  const ARRIVAL = 8;
  const LONGEST_PAUSE = 44;
  const BELOW = 48;

  /* From this pause on, in microseconds, a note tells how long it is. */
  const TOLD_PAUSE = 250_000;

  /* The height of a pause, beyond what its rows take. */
  function pauseHeight(us) {
    if (us < 1000) return 0;
    return Math.min(LONGEST_PAUSE, 9 * Math.log10(us / 1000));
  }

  /*
    The rows of a scene: each event that is shown has one at its own time, and a frame that took its
    time one more where it was sent. Of rows at the same time, those sent stand before those that
    arrive. What is told of a breach has a row where it begins.
  */
  function rowsOf(events, isShown, breach) {
    const rows = breach === null ? []
      : [{ us: breach.from_us, index: -1, sends: false, height: ROW }];
    events.forEach((event, index) => {
      if (!isShown(event)) return;
      const isSentBefore = event.kind === 'frame' && event.sent_us < event.at_us;
      rows.push({ us: event.at_us, index, sends: false, height: isSentBefore ? ARRIVAL : ROW });
      if (isSentBefore) rows.push({ us: event.sent_us, index, sends: true, height: ROW });
    });
    return rows.sort((a, b) => a.us - b.us || a.index - b.index || b.sends - a.sends);
  }

  /* Returns the index of the last value that is not above `wanted`, or -1. */
  function lastUpTo(values, wanted) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= wanted) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /* Lays out a scene. Events that are not shown have a position too, between the rows. */
  function build(scene, isShown) {
    const events = scene.events;
    const line = {
      rowYs: [0], rowTimes: [0], pauses: [], eventY: [], sentY: [], steps: [], breachY: null,
    };
    let y = ABOVE;
    let us = 0;
    for (const row of rowsOf(events, isShown, scene.verdict.breach)) {
      const pause = row.us - us;
      const top = y;
      y += pauseHeight(pause) + row.height;
      us = row.us;
      if (pause >= TOLD_PAUSE) line.pauses.push({ from: top, to: y, us: pause });
      if (row.index < 0) line.breachY = y;
      else (row.sends ? line.sentY : line.eventY)[row.index] = y;
      line.rowYs.push(y);
      line.rowTimes.push(us);
    }
    line.end = Math.max(us, scene.ended_us);
    line.height = Math.ceil(y + pauseHeight(line.end - us) + BELOW);
    line.rowYs.push(line.height);
    line.rowTimes.push(line.end);
    place(line, events, isShown);
    return line;
  }

  /* Gives the events without a row a position that keeps the order of all. */
  function place(line, events, isShown) {
    let next = line.height;
    for (let index = events.length - 1; index >= 0; index -= 1) {
      if (isShown(events[index])) {
        next = line.eventY[index];
        line.steps.unshift(index);
      } else {
        line.eventY[index] = Math.min(next, yAt(line, events[index].at_us));
        next = line.eventY[index];
      }
    }
    events.forEach((event, index) => {
      line.sentY[index] ??= line.eventY[index];
      if (index > 0) line.eventY[index] = Math.max(line.eventY[index], line.eventY[index - 1]);
    });
  }

  /* The time at a position. */
  function timeAt(line, y) {
    const row = Math.max(0, Math.min(lastUpTo(line.rowYs, y), line.rowYs.length - 2));
    const height = line.rowYs[row + 1] - line.rowYs[row];
    const part = height === 0 ? 0 : (y - line.rowYs[row]) / height;
    return line.rowTimes[row] + part * (line.rowTimes[row + 1] - line.rowTimes[row]);
  }

  /* The position of a time: below all rows of that time. */
  function yAt(line, us) {
    const row = lastUpTo(line.rowTimes, us);
    if (row < 0) return 0;
    if (row === line.rowTimes.length - 1) return line.rowYs[row];
    const length = line.rowTimes[row + 1] - line.rowTimes[row];
    const part = (us - line.rowTimes[row]) / length;
    return line.rowYs[row] + part * (line.rowYs[row + 1] - line.rowYs[row]);
  }

  /* The index of the last event up to a position, or -1 before the first. */
  function eventAt(line, y) {
    return lastUpTo(line.eventY, y);
  }

  /* How many of the events that are shown have happened at a position. */
  function stepAt(line, y) {
    let low = 0;
    let high = line.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (line.eventY[line.steps[middle]] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return { build, timeAt, yAt, eventAt, stepAt };
})();
