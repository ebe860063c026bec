/*
  Where scenes come from: the server that the page came from, or the page itself when it was saved
  as one file with its scenes. Both answer in the same way; only a server can play a new script.

  A scene is handed on with its states whole: the server sends only what has changed since the state
  before.
*/
'use strict';

const Source = (() => {
  /* What went wrong, in a sentence for the reader. */
  class Problem extends Error {}

  async function ask(path, options = {}) {
    let answer;
    try {
      answer = await fetch(path, { cache: 'no-store', ...options });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Problem('The server of this page does not answer. Is it still running?');
    }
    const said = await answer.json().catch(() => null);
    if (answer.ok && said !== null) return said;
    throw new Problem(said?.error?.text ?? `The server answered with ${answer.status}.`);
  }

  /*
    Makes every state whole. What has not changed is the same object as in the state before, so that
    nothing is copied, and a view sees at once that it has nothing to do.
  */
  function unfold(scene) {
    let before = { tree: [], watches: [], clients: [] };
    const states = scene.states.map((delta) => {
      let clients = before.clients;
      if (delta.clients) {
        const changed = new Map(delta.clients.map((client) => [client.who, client]));
        clients = clients.map((client) => changed.get(client.who) ?? client);
        const known = new Set(clients.map((client) => client.who));
        clients.push(...delta.clients.filter((client) => !known.has(client.who)));
      }
      before = {
        tree: delta.tree ?? before.tree,
        watches: delta.watches ?? before.watches,
        clients,
      };
      return before;
    });
    return { ...scene, states };
  }

  function ofServer() {
    let asked = null;
    return {
      canPlay: true,
      catalogue: () => ask('catalogue.json'),
      /* Plays a script. A request that is under way is given up: only the last one counts. */
      async play(script) {
        asked?.abort();
        asked = new AbortController();
        return unfold(await ask('scene', {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(script),
          signal: asked.signal,
        }));
      },
      /* A ready-made scene is played as its script. */
      ready(entry) { return this.play(entry.script); },
    };
  }

  function ofFile(bundle) {
    return {
      canPlay: false,
      catalogue: async () => bundle.catalogue,
      async play() {
        throw new Problem('This page was saved as one file: it shows the ready-made scenes, and ' +
          'needs its server to play others.');
      },
      async ready(entry) {
        return unfold(bundle.scenes[bundle.catalogue.scenes.indexOf(entry)]);
      },
    };
  }

  function create() {
    const bundle = document.getElementById('scenes');
    return bundle === null ? ofServer() : ofFile(JSON.parse(bundle.textContent));
  }

  return { create, Problem };
})();
