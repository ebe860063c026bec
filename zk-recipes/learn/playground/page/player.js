/*
  The position in a scene, and how it moves: by steps, by the slider, or by playing.

  A position is a place in the diagram, in pixels, and not a time: several events may happen at the
  same time, and each is a step. Playing moves evenly down the diagram, or from event to event for
  those who want no motion. Everyone who shows something is told through one function.
*/
'use strict';

const Player = (() => {
  /* Pixels a second at speed 1, and milliseconds for a step where nothing moves evenly. */
  const PACE = 48;
  const STEP_MS = 1200;

  /* Creates a player. `show(position, why)` is called after each change; `why` is a word. */
  function create(show) {
    const still = matchMedia('(prefers-reduced-motion: reduce)');
    let line = null;
    let position = 0;
    let speed = 1;
    let isPlaying = false;
    let drawn = 0;
    let request = 0;
    let timer = 0;

    function move(to, why) {
      position = Math.max(0, Math.min(to, line.height));
      show(position, why);
    }

    function halt() {
      isPlaying = false;
      cancelAnimationFrame(request);
      clearTimeout(timer);
    }

    function atEnd() {
      return line === null || position >= line.height;
    }

    function glide(now) {
      // A page in the background gets no frames: the time in which nothing was drawn is left out.
      const passed = Math.min(now - drawn, 100);
      drawn = now;
      move(position + (passed / 1000) * PACE * speed, 'play');
      carryOn();
    }

    function carryOn() {
      if (!isPlaying) return;
      if (atEnd()) {
        halt();
        show(position, 'pause');
      } else if (still.matches) {
        timer = setTimeout(() => { step(1, 'play'); carryOn(); }, STEP_MS / speed);
      } else {
        request = requestAnimationFrame(glide);
      }
    }

    /* Moves by events that are shown. Back from between two events is back to the one passed. */
    function step(by, why = 'step') {
      const passed = Timeline.stepAt(line, position);
      const isOnEvent = passed > 0 && position === line.eventY[line.steps[passed - 1]];
      const next = passed - 1 + by + (by < 0 && !isOnEvent ? 1 : 0);
      if (next < 0) move(0, why);
      else if (next >= line.steps.length) move(line.height, why);
      else move(line.eventY[line.steps[next]], why);
    }

    return {
      /* Takes another scene, at a position in it. */
      load(newLine, at) {
        halt();
        line = newLine;
        move(at, 'load');
      },
      play() {
        if (line === null) return;
        if (atEnd()) position = 0;
        isPlaying = true;
        drawn = performance.now();
        show(position, 'play');
        carryOn();
      },
      pause() {
        halt();
        if (line !== null) show(position, 'pause');
      },
      step(by) {
        halt();
        if (line !== null) step(by);
      },
      moveTo(to) {
        halt();
        if (line !== null) move(to, 'move');
      },
      setSpeed(factor) { speed = factor; },
      isPlaying: () => isPlaying,
      position: () => position,
      time: () => (line === null ? 0 : Timeline.timeAt(line, position)),
    };
  }

  return { create };
})();
