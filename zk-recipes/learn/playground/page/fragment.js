/*
  A scene as the fragment of an address, so that it can be shared and loaded again:

    #queue@12
    #7/exclusive/Ana,Ben:read/100.Ana.acquire,500.Ana.delay.40/20000@12

  The first is a ready-made scene by its name, the second a script: seed, lock, contenders with
  their modes, actions, and the end in milliseconds. `Ana2~Ana` is a task of Ana's process. Behind the @ stands the number of events that
  have happened, or one more for the end. Knows no elements; what it reads is checked by the server.
*/
'use strict';

const Fragment = (() => {
  function ofContender(contender) {
    const mode = contender.mode === 'read' ? ':read' : '';
    const process = contender.with === undefined ? '' : `~${contender.with}`;
    return `${contender.name}${mode}${process}`;
  }

  function ofAction(action) {
    const parts = [action.at_ms, action.who, action.do];
    if (action.ms !== undefined && action.ms !== null) parts.push(action.ms);
    return parts.join('.');
  }

  /* Writes a script, or a name, and how many events have happened. */
  function write(scene, happened) {
    const at = happened > 0 ? `@${happened}` : '';
    if (typeof scene === 'string') return `#${encodeURIComponent(scene)}${at}`;
    const parts = [
      scene.seed,
      encodeURIComponent(scene.lock),
      scene.contenders.map(ofContender).join(','),
      scene.actions.map(ofAction).join(','),
      scene.until_ms,
    ];
    return `#${parts.join('/')}${at}`;
  }

  function number(text) {
    if (!/^\d{1,15}$/.test(text)) throw new Error(`“${text}” is no number`);
    return Number(text);
  }

  function list(text, read) {
    return text === '' ? [] : text.split(',').map(read);
  }

  function toContender(text) {
    const [own, process] = text.split('~');
    const [name, mode = 'write'] = own.split(':');
    return process === undefined ? { name, mode } : { name, mode, with: process };
  }

  function toAction(text) {
    const [at, who, verb, ms] = text.split('.');
    const action = { at_ms: number(at), who, do: verb };
    return ms === undefined ? action : { ...action, ms: number(ms) };
  }

  /*
    Reads a fragment. Returns null if it is empty, or { id, script, happened } with either an id or
    a script. Throws an error if it is neither.
  */
  function read(fragment) {
    const [text, at = '0'] = decodeURIComponent(fragment.replace(/^#/, '')).split('@');
    if (text === '') return null;
    const happened = number(at);
    const parts = text.split('/');
    if (parts.length === 1) return { id: text, script: null, happened };
    if (parts.length !== 5) throw new Error('the address holds no scene');
    const [seed, lock, contenders, actions, until] = parts;
    const script = {
      seed: number(seed),
      lock,
      contenders: list(contenders, toContender),
      actions: list(actions, toAction),
      until_ms: number(until),
    };
    return { id: null, script, happened };
  }

  return { write, read };
})();
