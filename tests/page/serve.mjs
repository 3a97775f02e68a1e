// Tests the live pages of `orchestrate serve` in a headless Chromium while a matrix runs: two viewers, a restart of the
// server, a growing log.
//
//     node serve.mjs MODULES CHROMIUM OUT ORCHESTRATE
//
// MODULES is where axe-core and playwright-core are. The store and screenshots are made in the directory OUT.

import { spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [modules, executablePath, out, orchestrate] = process.argv.slice(2).map((word, place) => (place === 1 ? word : resolve(word)));
const require = createRequire(join(modules, 'node_modules', 'here.js'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core'), 'utf8');
const worker = join(dirname(fileURLToPath(import.meta.url)), 'worker.py');

// The longest wait. Only a failing test waits that long.
const BOUND = 120_000;
const problems = [];
const check = (isTrue, problem) => { if (!isTrue) problems.push(problem); };

const place = join(out, 'serve');
rmSync(place, { recursive: true, force: true });
mkdirSync(join(place, 'go'), { recursive: true });

// Each job waits for a file with the number of its batch.
const flags = ['model', 'batch', 'precision', 'compile', 'repeat', 'out'].map(flag => `--${flag} {${flag}}`).join(' ');
const script = `echo batch {batch}; while [ ! -e go/{batch} ]; do sleep 0.05; done; cd ${place} && exec python3 ${worker} ${flags}`;
writeFileSync(join(place, 'live.yaml'), `name: live
description: Two batches, <b>one</b> after the other
models: [resnet18]
batches: [8, 16]
params: { compile: false }
repeats: 1
limits: { timeout: 600s, retries: 0 }
order: sequential
worker: { command: [sh, -c, ${JSON.stringify(script.replace('go/', `${place}/go/`))}], result: json }
envs: { cpu: { device: cpu } }
`);
const release = batch => writeFileSync(join(place, 'go', `${batch}`), '');

const children = [];
function start(...words) {
  const env = { ...process.env, ORCHESTRATE_LOCK_DIR: join(place, 'locks') };
  const child = spawn(orchestrate, words, { cwd: place, env, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}
// Starts a server, and returns it with its URL once it listens.
function serve(...words) {
  const child = start('serve', '-q', ...words);
  return new Promise((found, failed) => {
    let text = '';
    child.stdout.on('data', piece => {
      text += piece;
      if (text.includes('\n')) found([child, text.trim()]);
    });
    child.on('exit', code => failed(new Error(`serve exited with ${code}`)));
  });
}
const ended = child => new Promise(done => {
  if (child.exitCode !== null || child.signalCode !== null) done(child.exitCode);
  else child.on('exit', done);
});

async function checkRules(page, name) {
  // The policy of the page forbids axe-core. It does not apply to an isolated world.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
  const run = expression => session.send('Runtime.evaluate', { contextId, expression, awaitPromise: true, returnByValue: true });
  await run(axe);
  const { result } = await run('axe.run(document).then(found => JSON.stringify(found.violations))');
  for (const { id, help, nodes } of JSON.parse(result.value)) {
    check(false, `${name}: ${id}: ${help} (${nodes.length} times, first ${nodes[0].target.join(' ')})`);
  }
}

const seen = (page, text) => page.waitForFunction(text => document.body.innerText.includes(text), text, { timeout: BOUND });

async function main(browser) {
  mkdirSync(join(place, 'runs'));
  let [server, url] = await serve();
  const open = async (path, options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const page = await context.newPage();
    page.on('pageerror', error => check(false, `the script fails: ${error.message}`));
    page.on('console', message => {
      // Without a server, the browser reports failed connections.
      const isAway = message.text().includes('ERR_CONNECTION') || message.text().includes('ERR_INCOMPLETE');
      check(message.type() !== 'error' || isAway, `the console says: ${message.text()}`);
    });
    await page.goto(new URL(path, url).href);
    // Reloading the page removes this mark.
    await page.evaluate(() => { window.mark = 1; });
    return page;
  };
  const index = await open('/');
  await seen(index, 'has no plan yet');
  const run = start('run', 'live.yaml', '-q');
  await seen(index, '1 running');
  await checkRules(index, 'index');

  const [one, other] = [await open('/plan/live/'), await open('/plan/live/', { colorScheme: 'dark' })];
  await seen(one, 'No job has a result yet');
  await seen(one, 'running: cpu_resnet18');
  await one.locator('#live a', { hasText: 'cpu_resnet18' }).click();
  await seen(one, 'It is running since');
  await checkRules(one, 'job');
  const job = readdirSync(join(place, 'runs')).find(name => name.includes('_bs8_'));
  check(one.url().endsWith(`/job/${job}/`), `the link opens ${one.url()}`);
  await one.evaluate(() => { window.mark = 1; });
  appendFileSync(join(place, 'runs', job, 'attempts', '01', 'stdout.log'), 'step 1 of 2 <i>is</i> done\n');
  await one.waitForFunction(() => document.querySelector('[data-log="stdout.log"] pre').textContent
    .endsWith('step 1 of 2 <i>is</i> done\n'), null, { timeout: BOUND });
  await one.screenshot({ path: join(out, 'serve-job.png') });

  release(8);
  await seen(other, '1/2');
  await other.waitForSelector('[aria-label="All rows"]', { state: 'attached', timeout: BOUND });
  await seen(one, 'Done.');
  check(await one.evaluate(() => window.mark) === 1, 'the page of the job was loaded again');
  await seen(other, 'Shown by orchestrate serve');
  await checkRules(other, 'report');
  check(await other.locator('main > section > details[open]').count() === 0, 'the report comes with open sections');
  await other.evaluate(() => { window.mark = 1; });
  // Opened sections and typed words are kept.
  await other.locator('#measurement summary').first().click();
  await other.locator('#design summary').first().click();
  const section = other.locator('#reproducibility');
  await section.scrollIntoViewIfNeeded();
  await other.screenshot({ path: join(out, 'serve-report.png'), fullPage: true });

  // The server is killed, and another one starts.
  server.kill('SIGKILL');
  await ended(server);
  await seen(other, 'not connected');
  release(16);
  check(await ended(run) === 0, 'the run fails');
  [server] = await serve('--port', new URL(url).port);
  await seen(other, '2/2');
  check(await other.evaluate(() => document.getElementById('live-state').textContent) === 'live', 'it is not connected again');
  await other.waitForFunction(() => document.querySelectorAll('[aria-label="All rows"] tbody tr').length === 2, null,
    { timeout: BOUND });
  check(await other.evaluate(() => window.mark) === 1, 'the report was loaded again');
  const openNow = await other.evaluate(() => [...document.querySelectorAll('main > section > details[open]')]
    .map(it => it.parentElement.id));
  check(openNow.join() === 'measurement,design', `the open sections are now ${openNow}`);
  const isSorted = await other.evaluate(() => {
    const button = document.querySelector('[aria-label="All rows"] thead button');
    button?.click();
    return button?.closest('th').ariaSort;
  });
  check(isSorted === 'ascending', 'a table of the new content cannot be sorted');
  await seen(index, '2/2');
  check(await index.evaluate(() => window.mark) === 1, 'the index was loaded again');
  for (const [page, name] of [[index, 'index'], [one, 'job'], [other, 'report']]) await checkRules(page, `${name}, done`);
  await index.screenshot({ path: join(out, 'serve-index.png') });

  const plain = await open('/plan/live/', { javaScriptEnabled: false });
  const text = await plain.locator('body').innerText();
  check(text.includes('2/2') && text.includes('state at the time of loading'), 'without scripts the page lacks its state');
  server.kill('SIGTERM');
  check(await ended(server) === 0, 'the server does not exit with 0');
}

const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args });
try {
  await main(browser);
} finally {
  await browser.close();
  for (const child of children) child.kill('SIGKILL');
}
for (const problem of problems) console.error(`test-page: ${problem}`);
if (problems.length > 0) process.exit(1);
console.log(`test-page: the live pages follow a run; screenshots are in ${out}`);
