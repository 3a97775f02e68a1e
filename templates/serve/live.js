(() => {
  'use strict';
  // The most letters of a log that a page keeps.
  const MOST = 1 << 18;
  const live = () => document.getElementById('live');
  const state = document.getElementById('live-state');
  const say = (text, isLost) => {
    state.classList.toggle('lost', isLost);
    if (state.textContent !== text) state.textContent = text;
  };
  let source, version = live().dataset.version, wanted = version, isBusy = false;

  // The parts that a new version replaces. The logs of a job grow in place.
  const isJob = document.getElementById('facts') !== null;
  const PARTS = ['#live', 'body > header', ...(isJob ? ['#facts'] : ['body > nav', 'main'])];

  // The state of the page that the reader has changed: it is restored after a replacement.
  const nameOf = it => {
    const summary = it.querySelector('summary');
    const own = it.parentElement.tagName === 'SECTION' ? '' : summary?.ariaLabel ?? summary?.textContent;
    return `${it.closest('[id]')?.id} ${own}`;
  };
  const boxOf = table => table.closest('.scroll')?.ariaLabel;
  const heads = table => [...table.tHead?.rows[0]?.cells ?? []];
  const pathOf = it => it === document.body || !it ? '' : `${pathOf(it.parentElement)}>${[...it.parentElement.children].indexOf(it)}`;
  const at = path => path.split('>').slice(1).reduce((it, place) => it?.children[place], document.body);
  const look = () => {
    const anchor = [...document.querySelectorAll('section[id]')].find(it => it.getBoundingClientRect().bottom > 0);
    const focused = document.activeElement;
    return {
      open: new Set([...document.querySelectorAll('details[open]')].map(nameOf)),
      filters: [...document.querySelectorAll('input[aria-label]')].map(it => [it.ariaLabel, it.value]),
      sorted: [...document.querySelectorAll('table')].flatMap(table => heads(table).map((head, column) =>
        [boxOf(table), column, ['ascending', 'descending'].indexOf(head.ariaSort) + 1])).filter(it => it[2] > 0),
      focus: focused && focused !== document.body ? [pathOf(focused), focused.tagName] : null,
      anchor: anchor ? [anchor.id, anchor.getBoundingClientRect().top] : null,
    };
  };
  const restore = ({ open, filters, sorted, focus, anchor }) => {
    for (const it of document.querySelectorAll('details')) if (open.has(nameOf(it))) it.open = true;
    for (const table of document.querySelectorAll('table')) {
      for (const [box, column, presses] of sorted) {
        if (box !== boxOf(table)) continue;
        for (let press = 0; press < presses; press += 1) heads(table)[column]?.querySelector('button')?.click();
      }
    }
    for (const [name, value] of filters) {
      const input = value && document.querySelector(`input[aria-label=${CSS.escape(name)}]`);
      if (!input) continue;
      input.value = value;
      input.dispatchEvent(new Event('input'));
    }
    const focused = focus && at(focus[0]);
    if (focused && focused.tagName === focus[1]) focused.focus({ preventScroll: true });
    const section = anchor && document.getElementById(anchor[0]);
    if (section) scrollBy(0, section.getBoundingClientRect().top - anchor[1]);
  };

  // A report has a different script and style sheet, so the page before the first result is reloaded, not swapped.
  const hasReport = page => page.getElementById('measurement') !== null;

  const swap = next => {
    if (hasReport(document) !== hasReport(next)) {
      location.reload();
      return;
    }
    const seen = look();
    for (const part of PARTS) {
      const [old, fresh] = [document, next].map(it => it.querySelector(part));
      if (old && fresh) old.replaceWith(document.adoptNode(fresh));
    }
    document.title = next.title;
    document.dispatchEvent(new Event('renewed'));
    restore(seen);
    if (isJob) swapLogs(next);
    showTimes();
  };
  // Another attempt has other logs, and the same attempt can get new ones.
  const swapLogs = next => {
    const [old, fresh] = [document, next].map(it => it.getElementById('logs'));
    const has = name => document.querySelector(`[data-log=${CSS.escape(name)}]`) !== null;
    const isNew = [...fresh.querySelectorAll('[data-log]')].some(it => !has(it.dataset.log));
    if (old.dataset.attempt !== fresh.dataset.attempt || isNew) {
      old.replaceWith(document.adoptNode(fresh));
      toEnds();
    }
  };
  const renew = async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      let asked;
      do {
        asked = wanted;
        const answer = await fetch(location.pathname, { cache: 'no-store' });
        const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const found = next.getElementById('live');
        if (!found) throw new Error(`${answer.status}`);
        swap(next);
        version = found.dataset.version;
      } while (wanted !== asked);
    } catch {
      // The server is gone. It sends its version when it is back.
      version = '';
    } finally {
      isBusy = false;
    }
  };

  const toEnds = () => document.querySelectorAll('[data-log] pre').forEach(it => { it.scrollTop = it.scrollHeight; });
  const grow = async (box, size) => {
    box.wanted = size;
    if (box.isBusy) return;
    box.isBusy = true;
    try {
      while (Number(box.dataset.end) !== box.wanted) {
        const answer = await fetch(`${box.dataset.url}?from=${box.dataset.end}`, { cache: 'no-store' });
        const piece = await answer.json();
        if (piece.end === Number(box.dataset.end)) break;
        const pre = box.querySelector('pre'), isAtEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
        const isLeap = piece.from !== Number(box.dataset.end);
        const text = pre.textContent + (isLeap ? `\n[… left out …]\n` : '') + piece.text;
        if (text.length > MOST || isLeap) pre.textContent = text.slice(-MOST);
        else pre.append(piece.text);
        box.dataset.end = piece.end;
        box.querySelector('small').textContent = piece.size;
        if (isAtEnd) pre.scrollTop = pre.scrollHeight;
        if (piece.end >= box.wanted) break;
      }
    } catch {
      // The next event fetches the rest.
    } finally {
      box.isBusy = false;
    }
  };

  const connect = () => {
    if (source) return;
    const mine = source = new EventSource('events');
    mine.onopen = () => say('live', false);
    mine.onerror = () => {
      say('not connected: this is the last known state; trying again', true);
      if (mine.readyState !== EventSource.CLOSED) return;
      disconnect();
      setTimeout(follow, 3000);
    };
    mine.addEventListener('change', event => {
      wanted = event.data;
      if (wanted !== version) renew();
    });
    mine.addEventListener('logs', event => {
      for (const [name, size] of Object.entries(JSON.parse(event.data))) {
        const box = document.querySelector(`[data-log=${CSS.escape(name)}]`);
        if (box) grow(box, size);
        else renew();
      }
    });
    mine.addEventListener('sensors', event => {
      const place = document.getElementById('sensors');
      if (place) place.textContent = event.data;
    });
  };
  const disconnect = () => {
    source?.close();
    source = undefined;
  };
  // A hidden page does not connect: a browser has few connections per server.
  const follow = () => (document.hidden ? disconnect() : connect());
  document.addEventListener('visibilitychange', follow);
  addEventListener('pagehide', disconnect);
  addEventListener('pageshow', follow);

  const showTimes = () => {
    for (const it of document.querySelectorAll('time[data-since]')) {
      const seconds = Math.max(0, Math.round((Date.now() - Date.parse(it.dateTime)) / 1000));
      const parts = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']].map(([unit, name], place, units) =>
        [Math.floor((place ? seconds % units[place - 1][0] : seconds) / unit), name]).filter(([number]) => number > 0);
      const began = it.dataset.since ||= it.textContent;
      it.textContent = `${began} (${parts.slice(0, 2).map(part => part.join('')).join(' ') || '0s'})`;
    }
  };
  setInterval(showTimes, 1000);
  showTimes();
  toEnds();
  follow();
})();
