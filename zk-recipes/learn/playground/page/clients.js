/*
  What each client knows: its connection, what it thinks of the lock, and two bars that run out. The
  lease is what the client knows of its hold; the deadline is when the server ends the session. A
  lock is right if the lease never outlasts the deadline.
*/
'use strict';

const Clients = (() => {
  const { html, text, attribute, keyed } = Elements;

  /* What a full bar stands for at least, in microseconds: the timeout of a session. */
  const FULL = 10_000_000;

  function createBar(name, label) {
    return html('div', { class: `bar ${name}` },
      html('span', { class: 'of' }, label),
      html('span', { class: 'track', 'aria-hidden': 'true' }, html('span', { class: 'fill' })),
      html('span', { class: 'left' }));
  }

  function createCard(client) {
    return html('li', { class: 'client' },
      html('strong', { class: 'name' }, client.who),
      html('span', { class: 'belief' }),
      html('span', { class: 'link' }),
      html('span', { class: 'facts' }),
      createBar('lease', 'Lease'),
      createBar('deadline', 'Session'));
  }

  function link(scene, client) {
    const process = scene.script.contenders.find((one) => one.name === client.who)?.with;
    const parts = process === undefined ? [] : [`a task of ${process}`];
    parts.push(Words.connection(client.connection));
    if (!client.running) parts.push('process stopped');
    if (client.link === 'cut') parts.push('link cut');
    if (client.link === 'isolated') parts.push('its server is cut off');
    if (client.delay_ms > 0) parts.push(`${client.delay_ms} ms late`);
    return parts.join(' · ');
  }

  /* The end of a node's name, which has its number. */
  function short(path) {
    const name = path.slice(path.lastIndexOf('/') + 1);
    return name.length <= 20 ? name : `…${name.slice(-15)}`;
  }

  function facts(client) {
    const parts = [];
    if (client.node !== null) parts.push(short(client.node));
    if (client.token !== null) parts.push(`token ${client.token}`);
    if (client.mode === 'read') parts.push('reads');
    return parts.join(' · ');
  }

  function updateCard(card, client, scene, belief) {
    text(card.children[1], belief.text);
    text(card.children[2], link(scene, client));
    text(card.children[3], facts(client));
    const isIll = client.connection !== 'connected' || !client.running || client.link !== 'up';
    attribute(card, 'class', `client ${Words.laneClass(scene, client.who)} ` +
      `lock-${belief.colour}` +
      `${isIll ? ' ill' : ''}${client.running ? '' : ' stopped'}`);
  }

  /* Shows what is left until a time; null is a bar that does not apply. */
  function updateBar(bar, until, now, full) {
    attribute(bar, 'class', bar.className.replace(/ none| over/g, '') +
      (until === null ? ' none' : until <= now ? ' over' : ''));
    text(bar.children[2], until === null ? 'none' : Words.left(until - now));
    const part = until === null ? 0 : Math.max(0, Math.min(1, (until - now) / full));
    const width = `scaleX(${part.toFixed(3)})`;
    const style = bar.children[1].firstElementChild.style;
    if (style.transform !== width) style.transform = width;
  }

  function create(list) {
    let shown = null;
    let shownBeliefs = '';

    /* Shows the clients in a state, and their bars at a time. */
    function show(scene, state, now) {
      const beliefs = new Map(state.clients.map((one) => [one.who, Words.belief(one, now)]));
      const told = [...beliefs.values()].map((belief) => belief.text).join();
      if (shown !== state.clients || told !== shownBeliefs) {
        shown = state.clients;
        shownBeliefs = told;
        keyed(list, shown, (client) => client.who, createCard,
          (card, client) => updateCard(card, client, scene, beliefs.get(client.who)));
      }
      shown.forEach((client, index) => {
        const card = list.children[index];
        updateBar(card.children[4], client.lease_until_us, now, FULL);
        updateBar(card.children[5], client.deadline_us, now, FULL);
      });
    }

    return { show, forget() { shown = null; } };
  }

  return { create };
})();
