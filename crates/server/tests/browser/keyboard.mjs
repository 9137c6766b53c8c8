// Without a mouse.
import { watched } from './browser.mjs';
import { must, same } from './report.mjs';

const CONTROLS = 'a[href], button, input:not([type=hidden]), select, summary, [tabindex="0"]';

export async function keyboard(browser, report, demo) {
  const { context, page, taken, close } = await watched(browser, demo.url);
  // A list that stands still can be counted.
  await context.route('**/*', route => {
    const request = route.request();
    return new URL(request.url()).pathname === '/live' || request.headers()['x-refresh'] ? route.abort() : route.continue();
  });
  await report.check('the skip link is first, is seen and skips', async () => {
    await page.goto('/');
    await page.keyboard.press('Tab');
    const seen = await page.evaluate(() => {
      const box = document.activeElement.getBoundingClientRect();
      return { text: document.activeElement.textContent, inside: box.left >= 0 && box.top >= 0 && box.right <= innerWidth };
    });
    same(seen, { text: 'Skip to content', inside: true }, 'focused');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash === '#main');
    await page.keyboard.press('Tab');
    must(await page.evaluate(() => document.activeElement.closest('main') !== null), 'the next control is not in the content');
  });
  await report.check('every control of / is reached by Tab, once, and its focus is seen', async () => {
    await page.goto('/');
    await page.evaluate(() => document.querySelectorAll('details').forEach(one => { one.open = true; }));
    const all = await page.evaluate(controls => {
      const shown = [...document.querySelectorAll(controls)].filter(one => one.checkVisibility() && !one.disabled);
      shown.forEach((one, n) => { one.dataset.nth = n; });
      return shown.map(one => `${one.localName} ${one.id || one.textContent.trim().slice(0, 30)}`);
    }, CONTROLS);
    const reached = [];
    const unseen = [];
    for (let n = 0; n < all.length + 2; n++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const one = document.activeElement;
        const style = getComputedStyle(one);
        const box = one.getBoundingClientRect();
        const ring = style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) >= 2;
        return { nth: one.dataset.nth, seen: ring && box.width > 0 && box.bottom > 0 && box.top < innerHeight };
      });
      if (at.nth === undefined) break;
      if (!at.seen) unseen.push(all[at.nth]);
      reached.push(Number(at.nth));
    }
    same(all.filter((_, n) => !reached.includes(n)), [], 'not reached');
    same(reached, [...reached].sort((a, b) => a - b), 'the order');
    same(unseen, [], 'without a visible focus');
  });
  report.none('the keyboard is quiet', taken().filter(one => !/ERR_FAILED/.test(one)));
  await close();
}
