/*
  The list of all events: the same as the diagram, as a table that can be read aloud. Each line has
  a button that goes to its event. It is made once for a scene; a step only moves the mark.
*/
'use strict';

const List = (() => {
  const { html, attribute } = Elements;

  function create(table, chosen) {
    const body = table.tBodies[0];
    let rows = [];
    let current = null;

    function createRow(scene, event, index) {
      const isFrame = event.kind === 'frame';
      const name = (id) => {
        const lane = scene.lanes.find((one) => one.id === id);
        return lane ? Words.laneName(scene, lane) : id;
      };
      const from = isFrame ? event.from : event.who;
      const to = isFrame ? event.to : '';
      const happens = isFrame
        ? `${Words.label(event)}${event.arrived_us === null ? ' (does not arrive)' : ''}`
        : Words.capital(event.kind === 'note' ? event.text : event.do.replaceAll('_', ' '));
      const isOnly = scene.only?.has(index) ?? false;
      return html('tr', { 'data-index': index, class: isOnly ? 'only' : null },
        html('td', {}, Words.time(event.at_us)),
        html('td', { class: `party ${Words.laneClass(scene, from)}` }, name(from)),
        html('td', { class: `party ${to === '' ? '' : Words.laneClass(scene, to)}` }, name(to)),
        html('td', {}, html('button', { type: 'button' }, `${isOnly ? '+ ' : ''}${happens}`)));
    }

    function load(scene, line) {
      rows = [];
      for (const index of line.steps) {
        rows[index] = createRow(scene, scene.events[index], index);
      }
      body.replaceChildren(...line.steps.map((index) => rows[index]));
      current = null;
    }

    function show(index) {
      const row = rows[index] ?? null;
      if (row === current) return;
      if (current !== null) attribute(current, 'aria-current', null);
      if (row !== null) attribute(row, 'aria-current', 'step');
      current = row;
    }

    body.addEventListener('click', (event) => {
      const row = event.target.closest('button')?.closest('tr');
      if (row) chosen(Number(row.dataset.index));
    });

    return { load, show };
  }

  return { create };
})();
