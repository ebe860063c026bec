/*
  One frame opened: its fields beside its bytes. The field that is pointed at, or chosen with the
  arrow keys, marks its bytes; a byte that is pointed at marks the innermost field that it is of.
*/
'use strict';

const Frame = (() => {
  const { html, text } = Elements;

  const BYTES_IN_A_ROW = 16;

  /* What a byte is as a character, where it is one that can be printed. */
  function printed(byte) {
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·';
  }

  function bytesOf(hex) {
    return (hex.match(/../g) ?? []).map((pair) => Number.parseInt(pair, 16));
  }

  /* The rows of the dump, and for each byte the two elements that show it. */
  function dump(bytes) {
    const cells = [];
    const rows = [];
    for (let start = 0; start < bytes.length; start += BYTES_IN_A_ROW) {
      const hex = html('span', { class: 'hex' });
      const ascii = html('span', { class: 'ascii' });
      bytes.slice(start, start + BYTES_IN_A_ROW).forEach((byte, place) => {
        const index = start + place;
        const pair = html('span', { 'data-byte': index }, byte.toString(16).padStart(2, '0'));
        const letter = html('span', { 'data-byte': index }, printed(byte));
        cells.push([pair, letter]);
        hex.append(pair);
        ascii.append(letter);
      });
      const offset = html('span', { class: 'offset' }, start.toString(16).padStart(4, '0'));
      rows.push(html('div', { class: 'row' }, offset, hex, ascii));
    }
    return { cells, rows };
  }

  function create(panel, closed) {
    const title = html('h2', { id: 'frame-title', tabindex: '-1' });
    const close = html('button', { type: 'button', click: () => hide() }, 'Close');
    const summary = html('p', { class: 'prose' });
    const fields = html('ul', { class: 'fields', role: 'listbox', tabindex: '0',
      'aria-label': 'Fields of the frame' });
    const bytes = html('div', { class: 'bytes', role: 'img' });
    panel.append(html('div', { class: 'heading' }, title, close), summary,
      html('div', { class: 'columns' }, fields, bytes));
    panel.hidden = true;
    let frame = null;
    let cells = [];
    let marked = -1;

    /* Marks a field and its bytes; -1 marks none. */
    function mark(index) {
      if (index === marked) return;
      const before = frame.fields[marked];
      if (before) paint(before, marked, false);
      marked = index;
      const field = frame.fields[index];
      if (field) paint(field, index, true);
    }

    function paint(field, index, on) {
      const option = fields.children[index];
      option.setAttribute('aria-selected', on);
      if (on) {
        fields.setAttribute('aria-activedescendant', option.id);
        option.scrollIntoView({ block: 'nearest' });
      } else {
        fields.removeAttribute('aria-activedescendant');
      }
      for (const pair of cells.slice(field.offset, field.offset + field.length)) {
        for (const cell of pair) cell.classList.toggle('marked', on);
      }
    }

    /* The innermost field of a byte: the last, since members come after their group. */
    function fieldOf(byte) {
      return frame.fields.findLastIndex((field) =>
        field.offset <= byte && byte < field.offset + field.length);
    }

    function show(scene, event) {
      frame = event;
      marked = -1;
      text(title, `Frame: ${event.op} ${event.role}`);
      text(summary, Words.sentence(scene, event));
      fields.replaceChildren(...event.fields.map((field, index) => html('li', {
        role: 'option', id: `field-${index}`, 'aria-selected': 'false', 'data-field': index,
        class: `depth-${Math.min(field.depth, 4)}`,
      }, html('span', { class: 'name' }, field.name), ' ',
      html('span', { class: 'value' }, field.value))));
      fields.removeAttribute('aria-activedescendant');
      const drawn = dump(bytesOf(event.bytes));
      cells = drawn.cells;
      bytes.replaceChildren(...drawn.rows);
      bytes.setAttribute('aria-label', `The ${cells.length} bytes of the frame`);
      panel.hidden = false;
    }

    function hide() {
      if (panel.hidden) return;
      const hadFocus = panel.contains(document.activeElement);
      panel.hidden = true;
      closed(hadFocus);
    }

    fields.addEventListener('pointerover', (event) => {
      const option = event.target.closest('[data-field]');
      if (option) mark(Number(option.dataset.field));
    });
    bytes.addEventListener('pointerover', (event) => {
      const cell = event.target.closest('[data-byte]');
      if (cell) mark(fieldOf(Number(cell.dataset.byte)));
    });
    fields.addEventListener('keydown', (event) => {
      const last = frame.fields.length - 1;
      const to = { ArrowDown: marked + 1, ArrowUp: marked - 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      mark(Math.max(0, Math.min(to, last)));
    });
    panel.addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });

    return {
      show,
      hide,
      isOpen: () => !panel.hidden,
      focus() {
        title.focus({ preventScroll: true });
        panel.scrollIntoView({ block: 'nearest' });
      },
    };
  }

  return { create };
})();
