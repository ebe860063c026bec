/*
  The tree of the server: its nodes in the order of the queue, and the watches as dashed lines from
  who watches to what is watched.

  Every node is a row of a fixed height, so that the lines can be placed without measuring.
*/
'use strict';

const Tree = (() => {
  const { html, svg, text, attribute, keyed } = Elements;

  /* Pixels, as in stage.css: a row, and the room for lines at its right. */
  const ROW = 46;
  const GUTTER = 96;


  function parent(path) {
    return path.slice(0, path.lastIndexOf('/'));
  }

  /* Parents before children, and children in the order of their numbers. */
  function inOrder(tree) {
    const children = new Map();
    for (const node of tree) {
      const above = parent(node.path);
      if (!children.has(above)) children.set(above, []);
      children.get(above).push(node);
    }
    const known = new Set(tree.map((node) => node.path));
    const ordered = [];
    const visit = (node, depth) => {
      ordered.push({ ...node, depth });
      const below = children.get(node.path) ?? [];
      below.sort((a, b) => (a.sequence ?? -1) - (b.sequence ?? -1));
      for (const child of below) visit(child, depth + 1);
    };
    for (const node of tree) if (!known.has(parent(node.path))) visit(node, 0);
    return ordered;
  }

  function createRow() {
    return html('li', { class: 'node' },
      html('span', { class: 'name' }, html('span', { class: 'prefix' }),
        html('b', { class: 'number' })),
      html('span', { class: 'facts' }),
      html('span', { class: 'hidden' }));
  }

  /* A name ends in the number that the server gave it; that is what tells nodes apart. */
  function split(node) {
    const name = node.depth === 0 ? node.path : node.path.slice(node.path.lastIndexOf('/') + 1);
    const digits = node.sequence === null ? 0 : 10;
    return [name.slice(0, name.length - digits), name.slice(name.length - digits)];
  }

  function facts(node) {
    const parts = [];
    if (node.owner !== null) parts.push(node.owner);
    parts.push(`czxid ${node.czxid}`);
    if (node.version > 0) parts.push(`version ${node.version}`);
    if (node.data !== '') parts.push(`“${node.data}”`);
    return parts.join(' · ');
  }

  function updateRow(row, node, scene, watchers) {
    const [prefix, number] = split(node);
    const [name, told, heard] = row.children;
    text(name.children[0], prefix);
    text(name.children[1], node.sequence === null ? '' : number);
    text(told, facts(node));
    text(heard, watchers.length === 0 ? '' : `, watched by ${watchers.join(' and ')}`);
    const lane = node.owner === null ? '' : ` ${Words.laneClass(scene, node.owner)} owned`;
    attribute(row, 'class', `node depth-${Math.min(node.depth, 4)}${lane}`);
  }

  /* A dashed line in the gutter, from one row to another, further out the more there are. */
  function bend(from, to, index) {
    const out = 18 + 12 * (index % 5);
    const y1 = (from + 0.5) * ROW;
    const y2 = (to + 0.5) * ROW + 6 - 4 * (index % 4);
    const line = from === to
      ? `M2,${y1 - 8}C${out},${y1 - 16} ${out},${y1 + 16} 3,${y1 + 8}`
      : `M2,${y1}C${out * 1.6},${y1} ${out * 1.6},${y2} 3,${y2}`;
    const tip = from === to ? y1 + 8 : y2;
    return [line, `M10,${tip - 5}L3,${tip}L10,${tip + 5}`];
  }

  function create(container) {
    const rows = html('ul', { class: 'nodes' });
    const lines = svg('svg', { class: 'watches', width: GUTTER, 'aria-hidden': 'true' });
    const outside = html('p', { class: 'outside' });
    container.append(rows, lines, outside);
    let shown = null;

    /* Each watch with the rows that its line joins; null where there is no such row. */
    function placed(nodes, watches) {
      const row = new Map(nodes.map((node, index) => [node.path, index]));
      const own = new Map();
      nodes.forEach((node, index) => {
        if (node.owner !== null && !own.has(node.owner)) own.set(node.owner, index);
      });
      return watches.map((watch) => ({
        ...watch,
        from: own.get(watch.who) ?? null,
        to: row.get(watch.path) ?? null,
      }));
    }

    function drawLines(scene, watches) {
      const drawn = watches.filter((watch) => watch.to !== null);
      attribute(lines, 'height', Math.max(1, rows.children.length) * ROW);
      keyed(lines, drawn, (watch) => `${watch.who} ${watch.kind} ${watch.path}`,
        () => svg('g', {}, svg('path', { class: 'dashed' }), svg('path')), (group, watch) => {
          const [line, tip] = bend(watch.from ?? watch.to, watch.to, drawn.indexOf(watch));
          attribute(group.children[0], 'd', line);
          attribute(group.children[1], 'd', tip);
          attribute(group, 'class', Words.laneClass(scene, watch.who));
        });
    }

    /* Says of the watches what no line can. */
    function tellOthers(watches) {
      const told = watches.filter((watch) => watch.to === null || watch.from === null)
        .map((watch) => `${watch.who} watches ${watch.path}` +
          `${watch.to === null ? ', which is not there' : ''}.`);
      text(outside, told.join(' '));
    }

    function show(scene, state) {
      if (shown !== null && shown.tree === state.tree && shown.watches === state.watches) return;
      shown = state;
      const nodes = inOrder(state.tree);
      const watchersOf = (path) => [...new Set(state.watches
        .filter((watch) => watch.path === path).map((watch) => watch.who))];
      keyed(rows, nodes, (node) => node.path, createRow,
        (row, node) => updateRow(row, node, scene, watchersOf(node.path)));
      const watches = placed(nodes, state.watches);
      drawLines(scene, watches);
      tellOthers(watches);
    }

    return {
      show,
      /* Draws all of the next state anew: another scene has other colours. */
      forget() { shown = null; },
    };
  }

  return { create };
})();
