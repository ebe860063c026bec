/*
  What changes a script: actions on a contender at the shown time, and the set-up of the scene. The
  functions at the top make a new script of an old one; the rest are the buttons.
*/
'use strict';

const Scripts = (() => {
  const NAMES = ['Ana', 'Ben', 'Cho', 'Dan', 'Eve', 'Fay', 'Gus', 'Hal'];

  /* How long a scene goes on after a new action: a session ends, and the next one gets the lock. */
  const AFTER_MS = 15_000;

  /* What a scene of one's own begins with. */
  const EMPTY = {
    seed: 7,
    lock: 'exclusive',
    contenders: [{ name: 'Ana', mode: 'write' }, { name: 'Ben', mode: 'write' }],
    actions: [],
    until_ms: AFTER_MS,
  };

  /*
    Adds an action at a time. One that a contender does takes the place of what it does later, and
    one that happens to it does not: `isOwn` tells which it is, by the kind of an action. The others
    go on with what they do. Returns the script and the place of the action in it.
  */
  function withAction(script, limits, us, action, isOwn) {
    // All that has been shown has happened before the next whole millisecond.
    const at = Math.floor(us / 1000) + 1;
    const before = script.actions.filter((one) => one.at_ms < at);
    const gives = (one) => isOwn(action.do) && isOwn(one.do) && one.who === action.who;
    const later = script.actions.filter((one) => one.at_ms >= at && !gives(one));
    const until = Math.max(script.until_ms, at + AFTER_MS);
    const actions = [...before, { at_ms: at, ...action }, ...later];
    return {
      script: { ...script, actions, until_ms: Math.min(until, limits.until_ms) },
      index: before.length,
    };
  }

  /* Adds or removes contenders at the end. One that is added acquires the lock. */
  function withContenders(script, count) {
    const contenders = script.contenders.slice(0, count);
    const names = new Set(contenders.map((contender) => contender.name));
    let actions = script.actions.filter((action) => names.has(action.who));
    for (const name of NAMES) {
      if (contenders.length >= count) break;
      if (names.has(name)) continue;
      contenders.push({ name, mode: 'write' });
      actions = [...actions, { at_ms: 100 * contenders.length, who: name, do: 'acquire' }];
    }
    return { ...script, contenders, actions };
  }

  /*
    Sets the lock. Contenders that want what it does not have write instead, and each is a process of
    its own where it has no tasks.
  */
  function withLock(script, lock) {
    const contenders = script.contenders.map(({ name, mode, with: process }) => {
      const contender = { name, mode: lock.modes.includes(mode) ? mode : 'write' };
      return lock.tasks && process ? { ...contender, with: process } : contender;
    });
    return { ...script, lock: lock.kind, contenders };
  }

  function withMode(script, name, mode) {
    const contenders = script.contenders.map((contender) => (
      contender.name === name ? { ...contender, mode } : contender
    ));
    return { ...script, contenders };
  }

  return { EMPTY, withAction, withContenders, withLock, withMode };
})();

const Controls = (() => {
  const { html, byId } = Elements;

  /* How long an action takes unless the reader says something else, in milliseconds. */
  const USUAL_MS = { delay: 50, work: 1000 };

  /* An option for each entry, under the headings of their groups. */
  function options(entries, value) {
    const groups = new Map();
    for (const entry of entries) {
      const label = Words.capital(entry.group);
      if (!groups.has(label)) groups.set(label, html('optgroup', { label }));
      groups.get(label).append(html('option', { value: value(entry) }, entry.title));
    }
    return [...groups.values()];
  }

  /*
    Creates the controls. `chosen.action(action)` is called with an action but for its time, and
    `chosen.change(make)` with a function that makes a script of the one shown.
  */
  function create(catalogue, chosen) {
    const who = byId('who');
    const lock = byId('lock');
    const contenders = byId('contenders');
    const seed = byId('seed');

    function act(action, time) {
      const name = who.querySelector(':checked').value;
      chosen.action({ who: name, do: action.do, ...time });
    }

    /* The button of an action, with a field of its own if it takes a time. */
    function button(action) {
      const label = Words.capital(action.do.replaceAll('_', ' '));
      const field = html('input', {
        type: 'number', min: 0, max: catalogue.limits.delay_ms, value: USUAL_MS[action.do] ?? 0,
        'data-ms': action.do, 'aria-label': `Milliseconds of ${action.do}`,
      });
      const made = html('button', {
        type: 'button', 'data-do': action.do, title: action.text,
        click: () => act(action, action.ms ? { ms: Number(field.value) } : {}),
      }, label);
      return action.ms ? [made, field, ' ms'] : [made];
    }

    function createActions() {
      const groups = new Map();
      for (const action of catalogue.actions) {
        if (!groups.has(action.on)) groups.set(action.on, html('div'));
        groups.get(action.on).append(...button(action));
      }
      return [...groups].map(([on, buttons]) => html('fieldset', {},
        html('legend', {}, `The ${on}`), buttons));
    }

    function lockOf(kind) {
      return catalogue.locks.find((one) => one.kind === kind);
    }

    function modeOf(contender, modes) {
      const select = html('select', {
        'aria-label': `What ${contender.name} wants`,
        change: () => chosen.change((script) =>
          Scripts.withMode(script, contender.name, select.value)),
      }, ...modes.map((mode) => html('option', { value: mode }, `${mode}s`)));
      select.value = contender.mode;
      return select;
    }

    byId('actions').replaceChildren(...createActions());
    lock.replaceChildren(...options(catalogue.locks, (entry) => entry.kind));
    contenders.max = catalogue.limits.contenders;
    byId('setup').addEventListener('submit', (event) => {
      event.preventDefault();
      chosen.change((script) => {
        const other = Scripts.withContenders(script, Number(contenders.value));
        return { ...Scripts.withLock(other, lockOf(lock.value)), seed: Number(seed.value) };
      });
    });

    /* Shows what a script says. The chosen contender stays chosen if it is still there. */
    function load(scene) {
      const { script } = scene;
      const before = who.querySelector(':checked')?.value;
      const modes = lockOf(script.lock)?.modes ?? ['write'];
      who.replaceChildren(...script.contenders.map((contender) => {
        const radio = html('input', { type: 'radio', name: 'who', value: contender.name });
        const label = html('label', { class: Words.laneClass(scene, contender.name) },
          radio, contender.name);
        return modes.length > 1
          ? html('span', { class: 'with-mode' }, label, modeOf(contender, modes)) : label;
      }));
      const radios = [...who.querySelectorAll('input')];
      (radios.find((radio) => radio.value === before) ?? radios[0]).checked = true;
      const possible = lockOf(script.lock)?.actions;
      for (const one of byId('actions').querySelectorAll('[data-do]')) {
        one.disabled = possible !== undefined && !possible.includes(one.dataset.do);
      }
      lock.value = script.lock;
      contenders.value = script.contenders.length;
      seed.value = script.seed;
    }

    return { load };
  }

  return { create, options };
})();
