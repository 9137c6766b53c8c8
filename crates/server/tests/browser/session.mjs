// Signing in at an ordinary authority, and what other sites cannot do to whoever is signed in.
import http from 'node:http';
import { watched } from './browser.mjs';
import { must, same } from './report.mjs';

export async function session(browser, report, authority) {
  const { context, page, taken, urls, close } = await watched(browser, authority.url);
  await report.check('tools are shown to whoever signs in', async () => {
    await page.goto('/tools');
    must(!(await page.locator('main table').count()), 'tools are shown to anyone');
    await page.locator('main').getByRole('link', { name: 'Sign in' }).click();
    await page.waitForURL(/sign-in/);
  });
  await report.check('a wrong token is refused, in words', async () => {
    await page.getByLabel('Token').fill('crd_000000000000_not-a-token-of-this-authority');
    await page.locator('main').getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').filter({ hasText: /unknown/ }).waitFor();
    same((await context.cookies()).length, 0, 'cookies');
    same(await page.getByLabel('Token').inputValue(), '', 'the token is shown again');
  });
  const signIn = async () => {
    await page.goto('/sign-in?next=/tools');
    await page.getByLabel('Token').fill(authority.token);
    await page.locator('main').getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL('**/tools');
  };
  await report.check('the right token signs in, and leads on', async () => {
    await signIn();
    await page.getByRole('link', { name: 'get_weather' }).first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
  });
  await report.check('what the browser keeps is out of reach of scripts and other sites', async () => {
    const [cookie, ...others] = await context.cookies();
    must(cookie && !others.length, `${1 + others.length} cookies`);
    same([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/'], 'the cookie');
    must(!authority.token.includes(cookie.value), 'it is the token');
    same(await page.evaluate(() => document.cookie), '', 'a script sees');
  });
  report.none('signing in is quiet', taken());
  await others(report, authority, context);
  taken(); // The other origin, of course.
  await report.check('signing out ends it, for this name for good', async () => {
    const [cookie] = await context.cookies();
    await page.goto('/tools');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('link', { name: 'Sign in' }).first().waitFor();
    await page.goto('/tools');
    must(!(await page.locator('main table').count()), 'tools are still shown');
    const headers = { cookie: `${cookie.name}=${cookie.value}`, accept: 'text/html' };
    const again = await (await fetch(`${authority.url}/tools`, { headers })).text();
    must(!again.includes('get_weather<'), 'the old name still opens');
  });
  await report.check('the token stands in no address', async () => {
    const seen = urls.filter(url => url.includes(authority.token) || url.includes(encodeURIComponent(authority.token)));
    same(seen, [], 'addresses');
    must(!page.url().includes(authority.token), page.url());
  });
  report.none('signing out is quiet', taken());
  await close();
}

// Another port is another origin, but the same site: the browser sends the cookie along.
async function others(report, authority, context) {
  const forms = ['/sign-out', '/feedback', '/agents/agent-1/credential', '/sign-in'];
  const server = http.createServer((request, response) => {
    const to = new URL(request.url, 'http://x').searchParams.get('to');
    response.setHeader('content-type', 'text/html');
    response.end(`<!doctype html><title>elsewhere</title><form method="post" action="${authority.url}${to}">
      <input name="tool" value="get_weather"><input name="posterior" value="0.5"><input name="fabricated" value="true">
      <input name="token" value="x"><button>go</button></form>`);
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  const elsewhere = `http://127.0.0.1:${server.address().port}`;
  const page = await context.newPage();
  for (const form of forms) {
    await report.check(`${form} is refused to a page of another origin`, async () => {
      await page.goto(`${elsewhere}/?to=${encodeURIComponent(form)}`);
      const [response] = await Promise.all([
        page.waitForResponse(response => response.url() === authority.url + form),
        page.getByRole('button').click(),
      ]);
      same(response.status(), 403, 'it answers');
      for (const origin of ['http://evil.example', 'null', undefined]) {
        const headers = origin ? { origin } : {};
        const answer = await context.request.post(authority.url + form, { headers, form: { tool: 'get_weather', posterior: '0.5', fabricated: 'true' } });
        same(answer.status(), 403, `to ${origin}`);
      }
    });
  }
  await report.check('another origin cannot read what is shown to whoever is signed in', async () => {
    await page.goto(`${elsewhere}/?to=/`);
    const read = await page.evaluate(async url => {
      const got = [];
      for (const path of ['/tools', '/', '/live']) {
        for (const credentials of ['include', 'omit']) {
          try {
            const abort = AbortSignal.timeout(1500);
            const response = await fetch(url + path, { credentials, signal: abort, headers: { accept: 'text/html' } });
            const reader = response.body.getReader();
            const { value } = await reader.read();
            got.push({ path, credentials, text: new TextDecoder().decode(value) });
            await reader.cancel();
          } catch { /* Refused, as it should be. */ }
        }
      }
      return got;
    }, authority.url);
    must(!read.some(one => one.credentials === 'include'), `${read.map(one => `${one.path} ${one.credentials}`)}`);
    must(!read.some(one => one.text.includes('get_weather<')), 'it reads what is not for it');
  });
  await report.check('the API knows no cookie', async () => {
    const answer = await context.request.post(`${authority.url}/v1/agents`, { data: { agent: 'by-cookie' } });
    same(answer.status(), 401, 'it answers');
  });
  await report.check('whoever is signed in still is', async () => {
    await page.goto(`${authority.url}/tools`);
    await page.getByRole('link', { name: 'get_weather' }).first().waitFor();
  });
  await page.close();
  server.close();
}
