// Every page, as a reader with a wide window, a phone, or dark colours meets it.
import { PHONE, WIDE, leaves, watched } from './browser.mjs';
import { bringRules, charts, squeezed, sticksOut, structure, unfold, violations } from './look.mjs';
import { each, must } from './report.mjs';

const WORKERS = 2;
// What depends on colours, and what depends on the room there is.
const CONTRAST = { runOnly: ['color-contrast', 'link-in-text-block'] };
const ROOM = { runOnly: ['scrollable-region-focusable', 'target-size'] };
const COLUMNS = ['name', 'assured', 'universal', 'stddev', 'certification', 'evidence', 'changed'];

// The addresses that the pages themselves lead to.
async function found(page, path, prefix) {
  await page.goto(path);
  const links = await page.locator(`main a[href^="${prefix}"]`).evaluateAll(all => all.map(one => one.getAttribute('href')));
  return [...new Set(links.map(link => link.replace(/[?#].*/, '')))];
}

export async function addresses(browser, demo) {
  const { page, close } = await watched(browser, demo.url);
  const agents = await found(page, '/', '/agents/');
  const tools = await found(page, '/tools', '/tools/');
  await page.goto('/log');
  const earlier = await page.locator('a[rel=next]').getAttribute('href');
  const size = Number((await page.locator('#newer').inputValue()));
  await close();
  return { agents, tools, earlier, size };
}

export function list({ agents, tools, earlier, size }) {
  const agent = agents[0];
  return [
    '/',
    '/?q=travel',
    '/?q=nothing-is-called-so',
    '/?tier=platinum',
    '/?certified=gold',
    ...COLUMNS.flatMap(column => [`/?sort=${column}`, `/?sort=${column}&reverse=1`]),
    '/?page=2',
    '/?own=1&w.*=1',
    ...agents,
    `${agent}?context=purchase`,
    `${agent}?at=${day(-10)}`,
    `${agent}?at=1999-01-01`,
    '/tools',
    ...tools,
    '/log',
    earlier,
    `/log?entry=${Math.floor(size / 2)}`,
    `/log?entry=${size * 9}`,
    `/log?older=${Math.floor(size / 3)}&newer=${size}`,
    '/sources',
    '/outcomes',
    `/outcomes?agent=${agent.replace('/agents/', '')}`,
    '/reports',
    `/reports?agent=${agent.replace('/agents/', '')}`,
    '/status',
    '/sign-in',
    '/agents/nobody-of-this-name',
    '/tools/no-such-tool',
    '/outcomes?agent=nobody-of-this-name',
  ];
}

export function day(from) {
  return new Date(Date.now() + from * 86_400_000).toISOString().slice(0, 10);
}

const expected = path => (/nobody-of-this-name|no-such-tool/.test(path) ? 404 : 200);

// Variants of one page: the same view in another order needs the rules only once.
const isVariant = path => /^\/\?(?!own)/.test(path);

// Whether a page is the first of its kind.
function firsts() {
  const seen = new Set();
  return path => {
    const kind = path.replace(/[?#].*/, '').split('/')[1];
    return !seen.has(kind) && Boolean(seen.add(kind));
  };
}

export async function walk(browser, report, service, paths, name) {
  const windows = await Promise.all(Array.from({ length: WORKERS }, () => watched(browser, service.url)));
  await Promise.all(windows.map(one => bringRules(one.context)));
  const links = new Set();
  const isFirst = firsts();
  await each(paths, WORKERS, async (path, worker) => {
    const { page, taken } = windows[worker];
    const what = `${name} ${path}`;
    await report.check(`${what} is looked at`, async () => {
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize(WIDE);
      const response = await page.goto(path);
      report.none(`${what} answers ${expected(path)}`, response.status() === expected(path) ? [] : [`it answers ${response.status()}`]);
      report.none(`${what} has a structure`, await structure(page));
      for (const link of await page.evaluate(() => [...document.links].map(one => one.href))) links.add(link.replace(/#.*/, ''));
      await unfold(page);
      report.none(`${what} fits 1280 px`, await sticksOut(page));
      if (!isVariant(path)) {
        report.none(`${what} has readable charts`, await charts(page));
        report.none(`${what} is accessible`, await violations(page));
        await page.emulateMedia({ colorScheme: 'dark' });
        report.none(`${what} is accessible in the dark`, await violations(page, CONTRAST));
        await page.emulateMedia({ colorScheme: 'light' });
      }
      await page.setViewportSize(PHONE);
      report.none(`${what} fits 360 px`, [...await sticksOut(page), ...await squeezed(page)]);
      if (!isVariant(path)) {
        report.none(`${what} has readable charts on a phone`, await charts(page));
        report.none(`${what} is accessible on a phone`, await violations(page, isFirst(path) ? {} : ROOM));
      }
    });
    report.none(`${what} is quiet`, taken());
  });
  await Promise.all(windows.map(one => one.close()));
  return links;
}

// Each link of each page, once; of the many entries of the log a few.
export async function follow(browser, report, service, links, name) {
  const { context, close } = await watched(browser, service.url);
  let entries = 0;
  const paths = [...links].filter(link => {
    const url = new URL(link);
    if (url.origin !== service.url) return false;
    return !url.search.startsWith('?entry=') || (entries += 1) <= 5;
  });
  const dead = [];
  await each(paths, 4, async link => {
    if (/nobody-of-this-name|no-such-tool/.test(link)) return;
    const response = await context.request.get(link, { headers: { accept: 'text/html,*/*' }, timeout: 60_000 });
    if (response.ok()) return;
    const said = (await response.text()).replace(/<[^>]*>|\s+/g, ' ').slice(-300);
    dead.push(`${link.replace(service.url, '')} answers ${response.status()}: ${said}`);
  });
  report.none(`${name}: ${paths.length} links lead somewhere`, dead);
  const outside = [...links].filter(link => !link.startsWith(service.url));
  report.none(`${name}: no link leads to another site`, outside);
  await close();
}

// Orders and filters, by what they show.
export async function ranking(browser, report, demo) {
  const { page, taken, close } = await watched(browser, demo.url);
  const numbers = async column => {
    const cells = await page.locator(`table.agents tbody tr:not(.revoked, :has(td[colspan])) td:nth-child(${column})`).allInnerTexts();
    return cells.map(cell => Number.parseFloat(cell));
  };
  const falls = list => list.every((value, n) => n === 0 || list[n - 1] >= value);
  await report.check('the score orders the agents, and the other way around', async () => {
    await page.goto('/');
    const down = await numbers(3);
    must(down.length > 5 && falls(down), `${down}`);
    await page.getByRole('columnheader', { name: 'Assured' }).getByRole('link').click();
    await page.waitForURL(/reverse=1/);
    const up = await numbers(3);
    must(falls([...up].reverse()), `${up}`);
    must(up.length === down.length, `${down.length} rows, then ${up.length}`);
  });
  for (const [name, key, column] of [['Evidence', 'evidence', 5], ['Universal', 'universal', 6], ['±', 'stddev', 7]]) {
    await report.check(`the column ${name} can be clicked and orders`, async () => {
      await page.goto('/');
      await page.getByRole('columnheader', { name, exact: true }).getByRole('link').click();
      await page.waitForURL(new RegExp(`sort=${key}`));
      const sorted = await page.locator('th[aria-sort]').getAttribute('aria-sort');
      const values = await numbers(column);
      must(falls(sorted === 'descending' ? values : [...values].reverse()), `${sorted}: ${values}`);
    });
  }
  await report.check('a tier can be chosen', async () => {
    await page.goto('/');
    await page.getByLabel('Tier').selectOption('platinum');
    await leaves(page, () => page.getByRole('button', { name: 'Show' }).click());
    must(page.url().includes('tier=platinum'), page.url());
    const tiers = await page.locator('table.agents tbody td:nth-child(8)').allInnerTexts();
    must(tiers.length > 0 && tiers.every(tier => /platinum/i.test(tier)), `${tiers}`);
  });
  report.none('the ranking is quiet', taken());
  await close();
}

// Fifty agents are on a page: the ordinary authority has more.
export async function paging(browser, report, authority) {
  const { page, taken, close } = await watched(browser, authority.url);
  await report.check('the second page of agents goes on where the first ends', async () => {
    await page.goto('/');
    const first = await names(page);
    await page.getByRole('link', { name: /next/ }).click();
    await page.waitForURL(/page=2/);
    const second = await names(page);
    must(first.length === 50 && second.length > 0 && !second.some(one => first.includes(one)), `${first.length}, ${second.length}`);
    await page.getByRole('link', { name: /previous/ }).click();
    await page.waitForURL(url => !url.search.includes('page=2'));
    must((await names(page)).join() === first.join(), 'the first page is another now');
  });
  await report.check('an agent without a score says why it has none', async () => {
    await page.goto('/?q=agent-7');
    must((await page.locator('table.agents td[colspan]').first().innerText()).trim(), 'the list does not say');
    await page.getByRole('link', { name: 'Agent 7', exact: true }).click();
    await page.waitForURL(/agents\/agent-7/);
    const said = await page.locator('.headline').innerText();
    must(/no universal score/.test(said) && /(too few sources|no signal)/.test(said), said);
  });
  report.none('paging is quiet', taken());
  await close();
}

export const names = page => page.locator('table.agents th[scope=row] a').allInnerTexts();
