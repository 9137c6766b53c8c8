// Names that would like to be markup, and addresses that would like to be somewhere else.
import { watched } from './browser.mjs';
import { must, same } from './report.mjs';

export const IMAGE = '"><img src=x onerror=alert(1)>';
export const SCRIPT = '</code><script>alert(1)</script>';

const ADDRESSES = [
  '/?q=<script>alert(1)</script>',
  '/?q="><img src=x onerror=alert(1)>',
  '/?sort="><svg onload=alert(1)>&tier=<b>',
  '/?own=1&w.%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E=1',
  '/agents/%3Cscript%3Ealert(1)%3C%2Fscript%3E',
  '/agents/atlas-travel?context=%3Cscript%3Ealert(1)%3C/script%3E',
  '/agents/atlas-travel?at=%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E',
  '/tools/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E',
  '/tools?agent="><img src=x onerror=alert(1)>',
  '/log?entry=<svg onload=alert(1)>',
  '/log?older=<svg onload=alert(1)>&newer=<b>',
  '/outcomes?agent=<img src=x onerror=alert(1)>',
  '/sign-in?next=//evil.example',
  '/sign-in?next=javascript:alert(1)',
  '/sign-in?next="><script>alert(1)</script>',
];

// Markup that no page of ours has.
const markup = page =>
  page.evaluate(() => [...document.querySelectorAll('img[src="x"], [onerror], [onload], b, script:not([src]), body > svg, main p > svg, base, iframe')]
    .map(one => one.outerHTML.slice(0, 90)));

export async function hostile(browser, report, demo, authority) {
  const { page, taken, urls, close } = await watched(browser, demo.url);
  await report.check('a name with markup in it is a text', async () => {
    await page.goto('/');
    const link = page.getByRole('link', { name: '<b>Zoë & Söhne</b> "Tools"' });
    await link.waitFor();
    same(await markup(page), [], 'markup');
    await link.click();
    await page.waitForURL(/agents\//);
    same(await page.locator('h1').innerText(), '<b>Zoë & Söhne</b> "Tools"', 'its page');
    must((await page.title()).startsWith('<b>Zoë & Söhne</b> "Tools"'), await page.title());
    same(await markup(page), [], 'markup');
  });
  await report.check('a tool with markup in its name is a text', async () => {
    await page.goto('/tools');
    await page.getByRole('link', { name: SCRIPT }).first().click();
    await page.waitForURL(/tools\/.+/);
    same(await page.locator('h1').innerText(), SCRIPT, 'its page');
    same(await markup(page), [], 'markup');
    await page.getByRole('button', { name: /genuine/ }).first().click();
    await page.waitForURL(/thanks/);
    same(await page.locator('h1').innerText(), SCRIPT, 'its page');
  });
  for (const address of ADDRESSES) {
    await report.check(`${address} stays a text`, async () => {
      const response = await page.goto(address);
      must(response.status() < 500, `it answers ${response.status()}`);
      same(await markup(page), [], 'markup');
      const leads = await page.evaluate(() => [...document.querySelectorAll('[href], [action], input[name=next]')]
        .map(one => one.getAttribute('href') ?? one.getAttribute('action') ?? one.value)
        .filter(one => /^(\/\/|javascript:|https?:\/\/evil)/i.test(one)));
      same(leads, [], 'it leads elsewhere');
    });
  }
  must(urls.every(url => !url.includes('evil.example') || url.startsWith(demo.url)), 'it was left');
  report.none('hostile names and addresses are quiet', taken());
  await close();

  const other = await watched(browser, authority.url);
  await report.check('an agent called like an attack is a text, also in its badge and its embedding', async () => {
    await other.page.goto('/?q=hostile');
    await other.page.getByRole('link', { name: IMAGE }).click();
    await other.page.waitForURL(/agents\/hostile/);
    same(await other.page.locator('h1').innerText(), IMAGE, 'its page');
    same(await markup(other.page), [], 'markup');
    const badge = await (await other.context.request.get('/v1/agents/hostile/badge.svg')).text();
    must(!/<img|onerror=alert\(1\)>/.test(badge), 'the badge has it as markup');
  });
  report.none('an agent called like an attack is quiet', other.taken());
  await other.close();
}

// What the pages are to withstand.
export async function prepare(demo, authority) {
  const post = async (service, path, body) => {
    const headers = { authorization: `Bearer ${service.token}`, 'content-type': 'application/json' };
    const response = await fetch(service.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    must(response.ok, `POST ${path} answers ${response.status}: ${await response.text()}`);
  };
  for (let n = 0; n < 12; n++) {
    const call = { args: { city: 'Bern' }, result: { text: IMAGE, temperature: n }, execution_time_ms: 40 + n };
    await post(demo, '/v1/verify', { tool: SCRIPT, ...call });
  }
  await post(authority, '/v1/agents', { agent: 'hostile', name: IMAGE });
  for (let n = 0; n < 60; n++) await post(authority, '/v1/agents', { agent: `agent-${n}`, name: `Agent ${n}` });
  await post(authority, '/v1/verify', { tool: 'get_weather', args: {}, result: { temperature: 18 }, execution_time_ms: 120 });
}
