// The browser, and pages that are watched: whatever goes wrong on one is remembered until somebody asks.
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'credence/browser/node/');
const load = createRequire(cache);
const { chromium } = load('playwright-core');
export const axe = load('axe-core').source;

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 360, height: 740 };

// Does `act`, which leads to another page, and waits until that is there. That the address is the expected one does not say so:
// a page that follows its form has it before the form is sent.
export async function leaves(page, act) {
  await Promise.all([page.waitForEvent('load'), act()]);
}

// Waits for `work`, but not for ever: a browser was seen that never told of the end of a page that it was just about to leave.
export async function atMost(seconds, work) {
  let timer;
  await Promise.race([work, new Promise(done => { timer = setTimeout(done, 1000 * seconds); })]);
  clearTimeout(timer);
}

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

// A page of its own context. `trouble` fills with what a reader's console would show, and with what must never happen.
export async function watched(browser, base, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, baseURL: base, colorScheme: 'light', reducedMotion: 'reduce', ...options });
  // On a machine that does other things, too, everything takes longer.
  context.setDefaultTimeout(60_000);
  const origin = new URL(base).origin;
  const trouble = [];
  const urls = [];
  if (options.javaScriptEnabled !== false) {
    await context.exposeBinding('__violated', (_, what) => trouble.push(`CSP violation: ${what}`));
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', event =>
        window.__violated(`${event.violatedDirective} by ${event.blockedURI || 'inline'} ${event.sourceFile}:${event.lineNumber}`));
    });
  }
  context.on('request', request => {
    urls.push(request.url());
    const url = new URL(request.url());
    if (/^https?:$/.test(url.protocol) && url.origin !== origin) trouble.push(`request to ${url.origin}`);
  });
  context.on('requestfailed', request => {
    // A page that is left lets go of what it still waits for.
    const why = request.failure()?.errorText ?? '';
    if (why !== 'net::ERR_ABORTED') trouble.push(`${request.url()} failed: ${why}`);
  });
  context.on('response', response => {
    const expected = response.request().isNavigationRequest();
    if (response.status() >= 400 && !expected) trouble.push(`${response.url()} answered ${response.status()}`);
  });
  context.on('console', message => {
    if (!['error', 'warning'].includes(message.type())) return;
    // That the page itself is an error is checked by its status.
    if (/^Failed to load resource: the server responded/.test(message.text())) return;
    trouble.push(`console ${message.type()}: ${message.text()}`);
  });
  context.on('weberror', error => trouble.push(`uncaught: ${error.error().message}`));
  context.on('dialog', async dialog => {
    trouble.push(`a dialog opened: ${dialog.message()}`);
    await dialog.dismiss();
  });
  const page = await context.newPage();
  return { context, page, trouble, urls, taken: () => trouble.splice(0), close: () => atMost(10, context.close()) };
}
