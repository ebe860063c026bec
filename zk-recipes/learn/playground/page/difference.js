/*
  What differs between two scenes of one script, such as a broken lock and its repair. The events of
  both are laid side by side, as a comparison of two texts does with lines. Knows no elements.
*/
'use strict';

const Difference = (() => {
  /* What makes two events the same: who does what, and not when. */
  function keyOf(event) {
    const ends = event.kind === 'frame' ? `${event.from} ${event.to}` : event.who;
    return `${event.kind} ${ends} ${Words.label(event)}`;
  }

  /* The events that are not routine, each with its place in the scene. */
  function stepsOf(scene) {
    return scene.events.map((event, index) => ({ event, index, key: keyOf(event) }))
      .filter(({ event }) => !Words.isRoutine(event));
  }

  /* How many steps are in both, from each pair of places to the ends. */
  function common(here, there) {
    const table = Array.from({ length: here.length + 1 },
      () => new Uint16Array(there.length + 1));
    for (let i = here.length - 1; i >= 0; i -= 1) {
      for (let j = there.length - 1; j >= 0; j -= 1) {
        table[i][j] = here[i].key === there[j].key ? table[i + 1][j + 1] + 1
          : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    return table;
  }

  /*
    Compares a scene with another. Returns the places of the events that are only in it, and the
    events that are only in the other one.
  */
  function between(scene, other) {
    const [here, there] = [stepsOf(scene), stepsOf(other)];
    const table = common(here, there);
    const only = new Set();
    const missing = [];
    let [i, j] = [0, 0];
    while (i < here.length || j < there.length) {
      if (i < here.length && j < there.length && here[i].key === there[j].key) {
        [i, j] = [i + 1, j + 1];
      } else if (j === there.length || (i < here.length && table[i + 1][j] >= table[i][j + 1])) {
        only.add(here[i].index);
        i += 1;
      } else {
        missing.push(there[j].event);
        j += 1;
      }
    }
    return { only, missing };
  }

  /* The difference in sentences. `name` is what the other scene is called. */
  function tell(scene, { only, missing }, name) {
    const steps = (count) => (count === 1 ? '1 step is' : `${count} steps are`);
    const [first] = only;
    const told = [`${steps(only.size)} only here, marked with a plus, and ` +
      `${steps(missing.length)} only ${name}.`];
    if (first !== undefined) {
      told.push(`The first one here: ${Words.sentence(scene, scene.events[first])}`);
    }
    if (missing.length > 0) told.push(`The first one there: ${Words.sentence(scene, missing[0])}`);
    return told.join(' ');
  }

  return { between, tell };
})();
