// Pages that are open follow what happens; where they cannot hear of it they ask, and say so.
import { watched } from './browser.mjs';
import { must, same } from './report.mjs';

const WAIT = 120_000;

// Resolves with the name of a live part within the page that has changed.
const changed = page =>
  page.evaluate(wait => new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`nothing has changed in ${wait / 1000} s`)), wait);
    new MutationObserver((list, observer) => {
      const part = list.map(one => (one.target.nodeType === 1 ? one.target : one.target.parentElement)?.closest('[data-live]')).find(Boolean);
      if (!part) return;
      observer.disconnect();
      clearTimeout(timer);
      resolve(part.dataset.live);
    }).observe(document.querySelector('main'), { childList: true, subtree: true, characterData: true });
  }), WAIT);

export async function live(browser, report, demo) {
  const following = ['/', '/tools', '/status'].map(async path => {
    const { page, taken, close } = await watched(browser, demo.url);
    await report.check(`${path} follows what happens without being loaded again`, async () => {
      await page.goto(path);
      await changed(page);
      const pulse = page.locator('#pulse');
      must(await pulse.isVisible(), 'it does not say that it is live');
      same(await pulse.innerText(), 'live', 'it says');
    }, WAIT + 10_000);
    report.none(`${path} is quiet while it is live`, taken());
    await close();
  });
  await Promise.all([...following, scrolled(browser, report, demo), unfolded(browser, report, demo), cut(browser, report, demo)]);
}

// What somebody looks at does not run away when the page is refreshed.
async function scrolled(browser, report, demo) {
  const phone = await watched(browser, demo.url, { viewport: { width: 700, height: 740 } });
  await report.check('a table that was scrolled stays so when it changes', async () => {
    await phone.page.goto('/');
    // Whether a table is wider than the page depends on the demo's names of the moment: here it always is.
    await phone.page.evaluate(() => {
      const wide = new CSSStyleSheet();
      wide.replaceSync('main .scroll table { min-width: 60rem }');
      document.adoptedStyleSheets.push(wide);
    });
    // In one step: between two of them the table may be replaced.
    const at = await phone.page.locator('main .scroll').first().evaluate(one => { one.scrollLeft = 60; return one.scrollLeft; });
    must(at > 30, 'the table cannot be scrolled');
    await changed(phone.page);
    // The new table is in place a moment before it is scrolled.
    await phone.page.waitForFunction(() => document.querySelector('main .scroll').scrollLeft > 30, null, { timeout: WAIT });
  }, WAIT + 10_000);
  await phone.close();
}

async function unfolded(browser, report, demo) {
  const wide = await watched(browser, demo.url);
  await report.check('a verdict that was unfolded stays so when newer ones come', async () => {
    await wide.page.goto('/tools');
    const open = () => wide.page.locator('.verdicts > li:has(details[open]) time').evaluateAll(all => all.map(one => one.dateTime));
    await wide.page.getByText('What fired').first().click();
    const [before] = await open();
    must(before, 'nothing was unfolded');
    // Whoever reads on has left the summary.
    await wide.page.locator('h1').click();
    await changed(wide.page);
    same(await open(), [before], 'unfolded');
  }, WAIT + 10_000);
  await wide.close();
}

// Some proxies end every stream at once.
async function cut(browser, report, demo) {
  const { context, page, close } = await watched(browser, demo.url);
  await report.check('a page whose stream always ends at once asks by itself', async () => {
    await context.route('**/live', route => route.fulfill({ contentType: 'text/event-stream', body: ': nothing\n\n' }));
    await page.goto('/');
    await page.waitForRequest(request => new URL(request.url()).pathname === '/' && request.resourceType() === 'fetch', { timeout: WAIT });
  });
  await close();
}

// Without events the page works, and says that it waits.
export async function deaf(browser, report, demo) {
  const { context, page, taken, close } = await watched(browser, demo.url);
  await report.check('a page that hears no events still works', async () => {
    await context.route('**/live', route => route.abort());
    await page.clock.install();
    await page.goto('/');
    await page.waitForFunction(() => document.getElementById('pulse').classList.contains('waiting'));
    const asked = page.waitForRequest(request => new URL(request.url()).pathname === '/' && request.resourceType() === 'fetch');
    await page.clock.fastForward(20_000);
    await asked;
    await page.clock.resume();
    await page.getByRole('link', { name: 'Atlas Travel' }).click();
    await page.waitForURL(/atlas-travel/);
  });
  const noise = taken().filter(one => !/\/live failed|ERR_FAILED/.test(one));
  report.none('a page that hears no events is quiet', noise);
  await close();
}
