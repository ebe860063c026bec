/*
  Making and changing elements. The page is changed only where it differs from what is to be shown:
  a step of a long scene must not draw the page anew.
*/
'use strict';

const Elements = (() => {
  const SVG = 'http://www.w3.org/2000/svg';

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === 'function') element.addEventListener(name, value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  /* Creates an element. A function among the attributes is a listener. */
  function html(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
  }

  function svg(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
  }

  /* Sets a text, if it is another one. */
  function text(element, value) {
    if (element.textContent !== value) element.textContent = value;
  }

  /* Sets an attribute, if it is another one; null removes it. */
  function attribute(element, name, value) {
    if (value === null) {
      if (element.hasAttribute(name)) element.removeAttribute(name);
    } else if (element.getAttribute(name) !== String(value)) {
      element.setAttribute(name, value);
    }
  }

  /*
    Makes the children of an element those of a list, in its order. A child whose key was there
    before is kept, and only updated.
  */
  function keyed(parent, items, key, create, update) {
    const before = new Map();
    for (const child of parent.children) before.set(child.dataset.key, child);
    const wanted = new Set(items.map(key));
    for (const [name, child] of before) if (!wanted.has(name)) child.remove();
    let next = parent.firstElementChild;
    for (const item of items) {
      const name = key(item);
      let child = before.get(name);
      if (!child) {
        child = create(item);
        child.dataset.key = name;
      }
      if (child === next) next = next.nextElementSibling;
      else parent.insertBefore(child, next);
      update(child, item);
    }
  }

  /* The only element with an id. */
  function byId(id) {
    return document.getElementById(id);
  }

  return { html, svg, text, attribute, keyed, byId };
})();
