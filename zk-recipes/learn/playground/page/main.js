/*
  The page as a whole: which scene is shown, at which moment, and who is told of it.

  A scene is shown by drawing what stays, and then the moment; a moment is shown by telling each
  view, which changes what differs. A change of the script keeps the address before it for undo.
*/
'use strict';

(() => {
  const { html, text, attribute, byId } = Elements;

  /* How many scripts undo can go back. */
  const MOST_UNDO = 100;

  const source = Source.create();
  const player = Player.create(showMoment);
  const diagram = Diagram.create(byId('lanes'), {
    event(index) { player.moveTo(line.eventY[index]); openFrame(); },
    position(y) { player.moveTo(y); },
    /* The lowest line of the window that the bar with the time does not cover. */
    floor() {
      const { top } = document.querySelector('.transport').getBoundingClientRect();
      return top > 0 ? Math.min(top, innerHeight) : innerHeight;
    },
  });
  const guess = Guess.create();
  const tree = Tree.create(byId('tree'));
  const clients = Clients.create(byId('clients'));
  const frame = Frame.create(byId('frame'), (hadFocus) => { if (hadFocus) byId('lanes').focus(); });
  const list = List.create(byId('events'), (index) => {
    player.moveTo(line.eventY[index]);
    openFrame();
  });
  let catalogue = null;
  let controls = null;
  /* The ready-made scene that is shown, or null if the script is the reader's own. */
  let entry = null;
  let scene = null;
  let line = null;
  let step = -1;
  let undo = [];
  let retry = null;
  let addressTimer = 0;

  function isShown(event) {
    return byId('routine').checked || !Words.isRoutine(event);
  }

  function currentEvent() {
    const passed = Timeline.stepAt(line, player.position());
    return passed === 0 ? null : scene.events[line.steps[passed - 1]];
  }

  /* The end counts as one more than all events. */
  function address() {
    const isEnd = player.position() >= line.height;
    const happened = Timeline.eventAt(line, player.position()) + (isEnd ? 2 : 1);
    return Fragment.write(entry === null ? scene.script : entry.id, happened);
  }

  /* Sets the address of the page, as a new entry of the history if it is another scene. */
  function noteAddress(isOther = false) {
    clearTimeout(addressTimer);
    if (isOther) history.pushState(null, '', address());
    else history.replaceState(null, '', address());
    attribute(byId('link'), 'href', address());
  }

  /* The address follows the moment, but not so often that a browser refuses it. */
  function noteAddressSoon() {
    clearTimeout(addressTimer);
    addressTimer = setTimeout(noteAddress, 250);
  }

  /* Where a reader steps or plays, the diagram is in view. */
  function showDiagram() {
    byId('diagram').scrollIntoView({ block: 'nearest' });
  }

  function showMoment(position, why) {
    const now = player.time();
    const passed = Timeline.stepAt(line, position);
    const index = passed === 0 ? -1 : line.steps[passed - 1];
    const state = scene.states[Math.max(0, Timeline.eventAt(line, position))];
    diagram.show(position, index);
    tree.show(scene, state);
    clients.show(scene, state, now);
    list.show(index);
    const time = Words.time(Math.round(now));
    const slider = byId('time');
    if (slider.value !== String(Math.round(position))) slider.value = Math.round(position);
    attribute(slider, 'aria-valuetext', `${time}, event ${passed} of ${line.steps.length}`);
    text(byId('moment'), time);
    text(byId('interfere-moment'), time);
    text(byId('clock'), `${time}  ${passed}/${line.steps.length}`);
    text(byId('play'), player.isPlaying() ? 'Pause' : 'Play');
    if (index !== step) {
      step = index;
      text(byId('said'), index < 0 ? 'The scene begins.'
        : Words.sentence(scene, scene.events[index]));
      if (frame.isOpen() && why === 'step') showFrame();
    }
    // What measures comes behind all changes, so that the page is laid out once.
    if (why === 'step') showDiagram();
    diagram.follow();
    if (why !== 'play') noteAddressSoon();
  }

  function showFrame() {
    const event = currentEvent();
    if (event?.kind === 'frame') frame.show(scene, event);
  }

  function openFrame() {
    if (currentEvent()?.kind !== 'frame') return;
    showFrame();
    frame.focus();
  }

  function showUnfired() {
    const { unfired } = scene;
    byId('unfired').hidden = unfired.length === 0;
    text(byId('unfired-text'), unfired.join(' '));
  }

  function showText() {
    const lock = catalogue.locks.find((one) => one.kind === scene.script.lock);
    text(byId('title'), entry?.title ?? 'A scene of your own');
    const said = entry?.text ?? `${lock?.title ?? 'A lock'}. ${lock?.text ?? ''}`;
    byId('text').replaceChildren(html('p', {}, said));
    byId('program').hidden = !lock?.source;
    text(byId('source'), lock?.source ?? '');
    byId('pair').hidden = !entry?.pair;
    text(byId('pair'), entry?.group === 'broken' ? 'Show the repair' : 'Show it broken');
    byId('look').hidden = !entry?.look;
    text(byId('look-text'), entry?.look ?? '');
    byId('scene').value = entry?.id ?? '';
  }

  /* Marks the events that only this scene has, and not its pair, and says how many there are. */
  function showDifference(pair) {
    byId('difference').hidden = pair === null;
    if (pair === null) return;
    const difference = Difference.between(scene, pair);
    scene.only = difference.only;
    const name = entry.group === 'repaired' ? 'in the broken one' : 'in the repair';
    text(byId('difference'), Difference.tell(scene, difference, name));
  }

  /* A recording has frames alone, and nothing is known of the state. */
  function showStage() {
    const hasState = scene.states.some((state) => state.clients.length > 0);
    byId('state').hidden = !hasState;
    attribute(byId('stage'), 'class', hasState ? 'stage' : 'stage alone');
  }

  /* Draws a scene, at the moment after so many of its events. */
  function draw(happened) {
    line = Timeline.build(scene, isShown);
    step = null;
    tree.forget();
    clients.forget();
    frame.hide();
    list.load(scene, line);
    diagram.load(scene, line);
    byId('time').max = line.height;
    player.load(line, [0, ...line.eventY][happened] ?? line.height);
  }

  /*
    Gets a scene and shows it. `at` tells the number of events to show, from the scene. If it is
    another scene, the browser's way back leads to the one before. Beside its pair, a scene shows
    what differs, and its verdict is known.
  */
  async function open(newEntry, script, at, isOther = false, pair = null) {
    try {
      const played = await (newEntry === null ? source.play(script) : source.ready(newEntry));
      entry = newEntry;
      scene = played;
      byId('problem').hidden = true;
      showText();
      showDifference(pair);
      guess.load(scene, entry?.lesson ?? '', pair !== null);
      showUnfired();
      showStage();
      if (source.canPlay) controls.load(scene);
      draw(at(scene));
      noteAddress(isOther);
      document.documentElement.dataset.ready = 'true';
      return true;
    } catch (error) {
      const again = () => open(newEntry, script, at, isOther, pair);
      if (error.name !== 'AbortError') tell(error, again);
      return false;
    }
  }

  /* Shows what went wrong, with a button that does it again. */
  function tell(error, again) {
    text(byId('problem-text'), error.message);
    byId('problem').hidden = false;
    retry = again;
    if (!(error instanceof Source.Problem)) console.error(error);
  }

  /* Replaces the script by another, which undo takes back. Returns true if it was played. */
  async function change(script, at = () => 0) {
    const before = address();
    if (!(await open(null, script, at, true))) return false;
    undo.push(before);
    undo = undo.slice(-MOST_UNDO);
    byId('undo').disabled = false;
    return true;
  }

  async function act(action) {
    const goesOn = player.isPlaying();
    const isOwn = (kind) => catalogue.actions.find((one) => one.do === kind)?.on === 'lock';
    const { script, index } =
      Scripts.withAction(scene.script, catalogue.limits, player.time(), action, isOwn);
    const cutOff = scene.script.actions.length + 1 - script.actions.length;
    const placeOf = () => byId('interfere').getBoundingClientRect().top;
    const place = placeOf();
    const isPlayed = await change(script, (played) =>
      played.events.findIndex((event) => event.kind === 'action' && event.action === index) + 1);
    if (!isPlayed) return;
    // What is above has another height now, and the next action is to be where the last one was.
    scrollBy(0, placeOf() - place);
    diagram.follow();
    if (cutOff > 0) {
      byId('said').append(cutOff === 1 ? ` One later action of ${action.who} is cut off.`
        : ` ${cutOff} later actions of ${action.who} are cut off.`, ' Undo brings back what was.');
    }
    if (goesOn) player.play();
  }

  /* Shows what an address names, or the first scene. */
  async function openAddress(fragment, isOther = false) {
    let wanted;
    try {
      wanted = Fragment.read(fragment);
    } catch (error) {
      await open(catalogue.scenes[0], null, () => 0);
      tell(new Source.Problem(`The address is not one of a scene: ${error.message}.`),
        () => openAddress(''));
      return;
    }
    const id = wanted === null ? catalogue.scenes[0].id : wanted.id;
    const named = catalogue.scenes.find((one) => one.id === id) ?? null;
    if (wanted?.script) await open(null, wanted.script, () => wanted.happened, isOther);
    else if (named !== null) await open(named, null, () => wanted?.happened ?? 0, isOther);
    else {
      await open(catalogue.scenes[0], null, () => 0);
      tell(new Source.Problem(`There is no scene named “${id}”.`), () => openAddress(''));
    }
  }

  /* Shows a ready-made scene from its start, or one in which nothing happens yet. */
  async function choose(id) {
    const chosen = catalogue.scenes.find((one) => one.id === id) ?? null;
    await open(chosen, Scripts.EMPTY, () => 0, true);
  }

  /* Shows the pair of a scene at the same moment, and what differs. */
  async function showPair() {
    const us = player.time();
    const pair = scene;
    const chosen = catalogue.scenes.find((one) => one.id === entry.pair);
    if (!(await open(chosen, null, () => 0, true, pair))) return;
    player.moveTo(Timeline.yAt(line, us));
    noteAddress();
  }

  /* Goes to the moment at which the rule is broken. All that happens then has happened. */
  function showBreach() {
    const { breach } = scene.verdict;
    if (guess.isRevealed() && breach !== null) moveTo(Timeline.yAt(line, breach.from_us));
  }

  async function start() {
    try {
      catalogue = await source.catalogue();
    } catch (error) {
      tell(error, start);
      return;
    }
    const own = html('option', { value: '', id: 'own' }, 'A scene of your own');
    byId('scene').replaceChildren(...Controls.options(catalogue.scenes, (one) => one.id));
    if (source.canPlay) byId('scene').prepend(own);
    byId('interfere').hidden = !source.canPlay;
    if (source.canPlay) {
      controls = Controls.create(catalogue, {
        action: act,
        change: (make) => change(make(scene.script)),
      });
    }
    await openAddress(location.hash);
  }

  /* Keys that work wherever the focus is, but for elements that need them for themselves. */
  function press(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || !line) return;
    const needs = event.target.closest('select, input:not([type="range"]), [role="listbox"]');
    if (needs) return;
    const isButton = event.target.closest('button, summary, a') !== null;
    const keys = {
      ArrowLeft: () => player.step(-1),
      ArrowRight: () => player.step(1),
      Home: () => moveTo(0),
      End: () => moveTo(line.height),
      b: showBreach,
      B: showBreach,
      ' ': isButton ? null : toggle,
      Enter: event.target === byId('lanes') ? openFrame : null,
    };
    if (event.target === byId('lanes')) {
      keys.ArrowUp = keys.ArrowLeft;
      keys.ArrowDown = keys.ArrowRight;
    }
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  function moveTo(position) {
    showDiagram();
    player.moveTo(position);
  }

  function toggle() {
    if (player.isPlaying()) {
      player.pause();
    } else {
      showDiagram();
      player.play();
    }
  }

  function listen(id, type, does) {
    byId(id).addEventListener(type, does);
  }

  listen('first', 'click', () => moveTo(0));
  listen('back', 'click', () => player.step(-1));
  listen('play', 'click', toggle);
  listen('forward', 'click', () => player.step(1));
  listen('last', 'click', () => moveTo(line.height));
  listen('time', 'input', () => player.moveTo(Number(byId('time').value)));
  listen('speed', 'change', () => player.setSpeed(Number(byId('speed').value)));
  listen('routine', 'change', () => draw(Timeline.eventAt(line, player.position()) + 1));
  listen('retry', 'click', () => retry());
  listen('scene', 'change', () => choose(byId('scene').value));
  listen('break', 'click', showBreach);
  listen('pair', 'click', showPair);
  listen('link', 'focus', () => noteAddress());
  listen('link', 'pointerenter', () => noteAddress());
  listen('undo', 'click', async () => {
    const before = undo.pop();
    byId('undo').disabled = undo.length === 0;
    await openAddress(before, true);
  });
  addEventListener('keydown', press);
  addEventListener('popstate', () => openAddress(location.hash));
  start();
})();
