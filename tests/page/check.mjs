// Checks reports in a headless Chromium: on screens of two widths, light and dark, with the keyboard, with axe-core's
// rules for accessibility, without scripts, and on paper.
//
//     node check.mjs MODULES CHROMIUM OUT PAGE…
//
// MODULES is where axe-core and playwright-core are. Screenshots and PDFs of each PAGE are left in the directory OUT.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, executablePath, out, ...pages] = process.argv.slice(2);
const require = createRequire(join(resolve(modules), 'node_modules', 'here.js'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core'), 'utf8');

const WIDTHS = [400, 1280];
const SCHEMES = ['light', 'dark'];
const HEIGHT = 800;
const problems = [];
let where = '';

function check(isTrue, problem) {
  if (!isTrue) problems.push(`${where}: ${problem}`);
}

// Opens the page in a new context, which records all requests.
async function open(browser, path, { width, colorScheme = 'light', javaScriptEnabled = true }) {
  const viewport = { width, height: HEIGHT };
  const context = await browser.newContext({ viewport, colorScheme, javaScriptEnabled });
  const page = await context.newPage();
  const asked = [];
  page.on('request', request => asked.push(request.url()));
  page.on('pageerror', error => check(false, `the script fails: ${error.message}`));
  page.on('console', message => check(message.type() !== 'error', `the console has an error: ${message.text()}`));
  await page.goto(pathToFileURL(resolve(path)).href);
  return { page, context, asked };
}

// All rules of axe-core.
async function checkRules(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  for (const { id, help, nodes } of violations) {
    check(false, `${id}: ${help} (${nodes.length} times, first ${nodes[0].target.join(' ')})`);
  }
}

// Nothing is cut: no table is wider than its box, nor the page than the screen. On a phone, large tables scroll.
async function checkFit(page, width) {
  const { boxes, whole, marks } = await page.evaluate(() => ({
    boxes: [...document.querySelectorAll('.scroll')].map(box =>
      ({ name: box.getAttribute('aria-label'), wide: box.scrollWidth, seen: box.clientWidth })),
    whole: document.documentElement.scrollWidth,
    marks: [...document.querySelectorAll('table')].flatMap(table => {
      const column = [...table.rows[0].cells].findIndex(cell => cell.textContent.trim().startsWith('marks'));
      return column < 0 ? [] : [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => {
        const { left, right, width } = row.cells[row.cells.length - 2].getBoundingClientRect();
        return { left, right, width };
      });
    }),
  }));
  check(whole <= width, `the page is ${whole} pixels wide on a screen of ${width}`);
  const fixed = width < 1280 ? boxes.filter(({ name }) => name === 'Fastest configs') : boxes;
  for (const { name, wide, seen } of fixed) check(wide <= seen, `${name} is ${wide} pixels wide in a box of ${seen}`);
  if (width < 1280) return;
  check(marks.length > 0, 'no table has a column of marks');
  check(marks.every(({ left, right, width: wide }) => left >= 0 && right <= width && wide > 0), 'a mark is off-screen');
  const tall = await page.evaluate(() => Math.max(...[...document.querySelectorAll('table.data tbody tr')]
    .map(row => row.getBoundingClientRect().height)));
  check(tall < 80, `a row of a table is ${tall} pixels tall`);
}

// The answer and its chart are on the first screen, and also the table of the fastest configs of a small study. With
// all sections closed, a page is short.
async function checkFirstScreen(page, name) {
  const { ends, height, words, open } = await page.evaluate(() => ({
    ends: ['.answer', '.first figure', '.fastest'].map(name => document.querySelector(name).getBoundingClientRect().bottom),
    height: document.documentElement.scrollHeight,
    words: document.body.innerText.split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length,
    open: document.querySelectorAll('details[open]').length,
  }));
  check(ends[0] <= HEIGHT, `the answer ends at ${ends[0]} pixels`);
  check(ends[1] <= HEIGHT, `the first chart ends at ${ends[1]} pixels`);
  if (name === 'small') check(ends[2] <= HEIGHT, `the table of the fastest ends at ${ends[2]} pixels`);
  check(height <= (name === 'small' ? 3500 : 6000), `the page is ${height} pixels tall`);
  check(words <= 700, `the page has ${words} words`);
  check(open === 0, `${open} sections are open`);
}

const openAll = page => page.evaluate(() => document.querySelectorAll('details').forEach(it => { it.open = true; }));

// A link opens the section of its target, and shows a row that is on another page of its table.
async function checkFolds(page) {
  const isSeen = selector => page.evaluate(selector => document.querySelector(selector).checkVisibility(), selector);
  const table = '[aria-label="All rows"] table';
  check(!await isSeen(table), 'the results are open at first');
  await page.locator('nav a[href="#measurement"]').click();
  check(await isSeen(table), 'a link to the results does not open them');
  const last = await page.evaluate(table => [...document.querySelector(table).tBodies[0].rows].at(-1).id, table);
  await page.evaluate(id => { location.hash = id; }, last);
  const row = `[id="${last}"]`;
  await page.waitForFunction(row => document.querySelector(row).checkVisibility(), row, { timeout: 5000 })
    .catch(() => check(false, `a link to the row ${last} does not show it`));
}

// Every cell of every table is in the text of the PDF, in the same order: none is cut or lost.
async function checkPaper(page, pdf) {
  await page.pdf({ path: pdf, preferCSSPageSize: true });
  const cells = await page.evaluate(() => [...document.querySelectorAll('table')].flatMap(table =>
    [...table.querySelectorAll('tbody th, tbody td')].map(cell => cell.textContent)));
  const text = execFileSync('pdftotext', ['-raw', pdf, '-'], { encoding: 'utf8', maxBuffer: 1 << 28 });
  // A line ends at a blank, or within a long word, where a hyphen may be added.
  const plain = words => words.normalize('NFKC').replace(/[\s\u00ad\u200b]+/g, '');
  const whole = plain(text);
  let from = 0, lost = 0;
  for (const cell of cells.map(plain).filter(Boolean)) {
    const at = whole.indexOf(cell, from);
    if (at < 0) {
      lost += 1;
      if (lost < 4) check(false, `“${cell}” is not on paper after “${whole.slice(from - 30, from)}”`);
    } else {
      from = at + cell.length;
    }
  }
  check(lost < 4, `${lost} of ${cells.length} cells are not on paper`);
  // A table that goes on over the page begins again with its headings.
  const { heads, rows } = await page.evaluate(() => {
    const table = document.querySelector('[aria-label="All rows"] table');
    return { heads: table.tHead.textContent, rows: table.tBodies[0].rows.length };
  });
  if (rows > 50) check(whole.split(plain(heads)).length > 2, 'the headings of the results are only on one page');
}

const cellsOf = (page, name, column) => page.evaluate(([name, column]) =>
  [...document.querySelector(`${name} tbody`).rows].filter(row => !row.hidden).map(row => {
    let at = 0;
    return [...row.cells].find(cell => (at += cell.colSpan) > column).textContent.trim();
  }), [name, column]);

// A table sorts and filters with only the keyboard, and announces it.
async function checkKeyboard(page, name) {
  const table = '[aria-label="All rows"] table';
  const index = await page.evaluate(table => [...document.querySelector(table).tHead.rows[0].cells]
    .findIndex(cell => /^(images|samples)\/s$/.test(cell.textContent.trim())), table);
  check(index >= 0, 'no column of the results is a throughput');
  if (index < 0) return;
  const head = page.locator(`${table} thead th`).nth(index);
  const before = await cellsOf(page, table, index);
  const numbers = cells => cells.map(parseFloat).filter(number => !Number.isNaN(number));
  await head.locator('button').focus();
  for (const [key, sort, order] of [['Enter', 'ascending', 1], ['Space', 'descending', -1]]) {
    await page.keyboard.press(key);
    const found = numbers(await cellsOf(page, table, index));
    const sorted = [...found].sort((left, right) => order * (left - right));
    check(await head.getAttribute('aria-sort') === sort, `after ${key} the column is not called ${sort}`);
    check(found.length > 2 && found.join() === sorted.join(), `after ${key} the column is not ${sort}: ${found}`);
  }
  await page.keyboard.press('Enter');
  check((await cellsOf(page, table, index)).join() === before.join(), 'the third press does not restore the order');
  await page.keyboard.press('Tab');
  const input = page.locator('#measurement .controls input').first();
  if (await input.count() === 0) return;
  const all = await page.evaluate(table => document.querySelector(table).tBodies[0].rows.length, table);
  await input.focus();
  const [model, precision] = name === 'wide' ? ['gpt2_small', 'bf16'] : ['vgg16', 'amp'];
  await page.keyboard.type(`${model} ${precision}`);
  const left = await cellsOf(page, table, 0);
  check(left.length > 0 && left.length < before.length, `the filter leaves ${left.length} of ${before.length} rows`);
  check(left.every(cell => cell.includes(model)), 'the filter leaves rows without its words');
  const said = await page.locator('#measurement .controls output').first().textContent();
  check(said === `${left.length} of ${all} rows`, `the filter says “${said}”`);
}

// The first stop of the keyboard skips the navigation.
async function checkSkip(page) {
  await page.keyboard.press('Tab');
  const focus = await page.evaluate(() => document.activeElement.getAttribute('href'));
  check(focus === '#summary', `the first stop of the keyboard is ${focus}`);
}

// Links to files of runs have an existing target.
async function checkLinks(page, path) {
  const links = await page.evaluate(() => [...document.querySelectorAll('a[href]')].map(link => link.getAttribute('href')));
  const outside = links.filter(link => /^[a-z]+:|^\//i.test(link));
  check(outside.length === 0, `it links to ${outside[0]}`);
  const files = links.filter(link => !link.startsWith('#'));
  const { existsSync } = await import('node:fs');
  const gone = files.filter(link => !existsSync(join(dirname(path), decodeURIComponent(link))));
  check(gone.length === 0, `it links to ${gone[0]}, which is not there`);
  check(files.some(link => link.includes('/runs/')), 'no link to the files of a run');
  const missing = await page.evaluate(() => [...document.querySelectorAll('a[href^="#"]')]
    .map(link => link.getAttribute('href').slice(1)).filter(id => !document.getElementById(id)));
  check(missing.length === 0, `it links to #${missing[0]}, which is not there`);
}

// Without scripts, all content can be read.
async function checkWithoutScripts(browser, path) {
  const { page, context } = await open(browser, path, { width: 1280, javaScriptEnabled: false });
  const text = await page.locator('main').innerText();
  for (const words of ['Missing', 'Reproducibility', 'Limitations', 'summary.csv']) {
    check(text.includes(words), `without scripts there is no “${words}”`);
  }
  await context.close();
}

async function checkPage(browser, path) {
  const name = basename(dirname(resolve(path)));
  const shots = {};
  for (const width of WIDTHS) {
    for (const colorScheme of SCHEMES) {
      where = `${name}, ${colorScheme}, ${width} px`;
      const { page, context, asked } = await open(browser, path, { width, colorScheme });
      if (width === 1280) await checkFirstScreen(page, name);
      await checkRules(page);
      const shot = await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}.png`) });
      await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}-whole.png`), fullPage: true });
      shots[`${width} ${colorScheme}`] = shot.toString('base64');
      await openAll(page);
      await checkRules(page);
      await checkFit(page, width);
      await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}-open.png`), fullPage: true });
      check(asked.length === 1, `it asks for ${asked.slice(1, 3)}`);
      await context.close();
    }
  }
  where = name;
  for (const width of WIDTHS) {
    check(shots[`${width} light`] !== shots[`${width} dark`], `dark and light are the same at ${width} px`);
  }
  const { page, context } = await open(browser, path, { width: 1280 });
  await checkSkip(page);
  await checkLinks(page, path);
  await checkPaper(page, join(out, `${name}.pdf`));
  await checkFolds(page);
  await checkKeyboard(page, name);
  await context.close();
  await checkWithoutScripts(browser, path);
}

mkdirSync(out, { recursive: true });
const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args });
for (const path of pages) await checkPage(browser, path);
await browser.close();
for (const problem of problems) console.error(`test-page: ${problem}`);
if (problems.length > 0) process.exit(1);
console.log(`test-page: ${pages.length} pages pass all checks; screenshots are in ${out}`);
