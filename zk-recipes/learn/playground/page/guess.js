/*
  What will happen? The verdict on a scene is hidden until the reader has guessed it, or asked to see
  it: who has said what will come looks at what comes.
*/
'use strict';

const Guess = (() => {
  const { html, text, attribute, byId } = Elements;

  /* What can be guessed, by the kinds of verdicts. */
  const KINDS = [
    ['holds', 'It holds'],
    ['two_owners', 'Two hold the lock at once'],
    ['stuck', 'Somebody waits for ever'],
    ['lost_update', 'A write is overwritten unseen'],
    ['stale_write', 'One writes that has lost the lock'],
    ['herd', 'Everybody is woken'],
  ];

  function create() {
    let scene = null;
    let lesson = '';
    let isRevealed = false;

    function show(told = '') {
      const { holds, text: said } = scene.verdict;
      const isShown = isRevealed && said !== '';
      byId('guess').hidden = isRevealed || said === '';
      byId('verdict').hidden = !isShown;
      attribute(byId('verdict'), 'class', holds ? 'verdict' : 'verdict breach');
      text(byId('verdict'), isShown ? said : '');
      byId('guessed').hidden = told === '';
      text(byId('guessed'), told);
      byId('lesson').hidden = !isShown || lesson === '';
      text(byId('lesson'), lesson);
      byId('break').hidden = !isShown || scene.verdict.breach === null;
      byId('lanes').classList.toggle('guessing', !isShown);
    }

    function reveal(told) {
      if (isRevealed) return;
      isRevealed = true;
      show(told);
    }

    function guess(kind, label) {
      const isRight = kind === scene.verdict.kind;
      reveal(isRight ? 'You guessed right.' : `You guessed: ${label.toLowerCase()}.`);
      byId('guessed').focus();
    }

    byId('kinds').replaceChildren(...KINDS.map(([kind, label]) => html('button', {
      type: 'button', 'data-guess': kind, click: () => guess(kind, label),
    }, label)));
    byId('reveal').addEventListener('click', () => { reveal(''); });

    return {
      /* Takes another scene, whose verdict is seen at once if it is known already. */
      load(newScene, newLesson, isKnown) {
        const isTold = newScene.verdict.kind === 'told';
        [scene, lesson, isRevealed] = [newScene, newLesson, isKnown || isTold];
        show();
      },
      isRevealed: () => isRevealed,
    };
  }

  return { create };
})();
