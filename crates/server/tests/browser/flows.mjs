// What people do on the pages, with real clicks and keys.
import fs from 'node:fs/promises';
import { leaves, watched } from './browser.mjs';
import { day, names } from './pages.mjs';
import { must, same } from './report.mjs';

export async function weights(browser, report, demo) {
  const { page, taken, close } = await watched(browser, demo.url);
  await report.check('one\'s own weights rank the agents, and the address carries them', async () => {
    await page.goto('/');
    const before = await page.locator('table.agents').innerText();
    await page.getByText('Rank by your own weights').click();
    const sliders = page.locator('.sliders input[type=range]');
    must((await sliders.count()) > 2, 'there are no sliders');
    for (const [n, key] of [[0, 'Home'], [1, 'Home'], [2, 'End']]) {
      await sliders.nth(n).focus();
      await page.keyboard.press(key);
    }
    await page.getByText('your weights', { exact: true }).waitFor();
    await page.waitForURL(/own=1.*w\.|w\..*own=1/);
    same(await sliders.first().evaluate(one => one.parentElement.querySelector('output').textContent), '0', 'what the slider says');
    await page.waitForFunction(before => document.querySelector('table.agents').innerText !== before, before);
    // Live traffic may move two agents in between.
    let [here, there] = [];
    for (let tries = 0; tries < 20; tries++) {
      here = await names(page);
      const fresh = await watched(browser, demo.url);
      await fresh.page.goto(page.url());
      there = await names(fresh.page);
      must(await fresh.page.locator('details.weights').evaluate(one => one.open), 'the weights are folded');
      await fresh.close();
      if (here.join() === there.join()) return;
    }
    same(there, here, 'the order elsewhere');
  });
  await report.check('a search narrows the list, with its button and without', async () => {
    await page.goto('/');
    const all = (await names(page)).length;
    await page.getByLabel('Search', { exact: true }).fill('atlas');
    await page.waitForFunction(all => document.querySelectorAll('table.agents tbody tr').length < all, all);
    must(page.url().includes('q=atlas'), page.url());
    await leaves(page, () => page.getByRole('button', { name: 'Show' }).click());
    must(page.url().includes('q=atlas'), page.url());
    same(await names(page), ['Atlas Travel'], 'found');
    await page.getByRole('link', { name: 'Atlas Travel' }).click();
    await page.waitForURL(/agents\/atlas-travel/);
    same(await page.locator('h1').innerText(), 'Atlas Travel', 'the page');
  });
  report.none('weights and search are quiet', taken());
  await close();
}

export async function agent(browser, report, demo) {
  const { page, taken, close } = await watched(browser, demo.url);
  await report.check('another purpose gives another assessment', async () => {
    await page.goto('/agents/atlas-travel');
    const tabs = page.getByRole('navigation', { name: 'Purpose' }).getByRole('link');
    const count = await tabs.count();
    must(count > 2, `${count} purposes`);
    const said = new Set();
    for (let n = 0; n < count; n++) {
      await leaves(page, () => tabs.nth(n).click());
      await page.locator(`.tabs a:nth-child(${n + 1})[aria-current]`).waitFor();
      said.add(await page.locator('#answer').innerText());
      must((await page.locator('#answer .answer').innerText()).trim(), 'nothing is recommended');
    }
    must(said.size > 1, 'all purposes say the same');
  });
  await report.check('the signed answer can be unfolded and read by a machine', async () => {
    await page.getByText('The signed answer, exactly as a client gets it').click();
    const shown = page.locator('#answer details pre');
    await shown.waitFor();
    const answer = JSON.parse(await shown.innerText());
    must(answer.signature, `no signature: ${Object.keys(answer)}`);
    const link = await page.locator('#answer p.quiet a').getAttribute('href');
    must(link.startsWith(demo.url), `the answer is asked for elsewhere: ${link}`);
  });
  await report.check('the score of a date is explained and computed again', async () => {
    await page.goto('/agents/atlas-travel');
    await page.getByLabel('Date', { exact: true }).fill(day(-10));
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.waitForURL(new RegExp(`at=${day(-10)}`));
    await page.getByText('the same to the last bit').waitFor();
    must((await page.locator('#why .steps div').count()) > 2, 'no steps');
    must(await inView(page, '#why'), 'the answer is out of sight');
    await page.locator('#why p a[href*="entry="]').first().click();
    await page.waitForURL(/log\?entry=/);
    must(await page.locator('#entry-shown').isVisible(), 'no entry');
    must(await inView(page, '#entry-h'), 'the entry is out of sight');
  });
  await report.check('the badges are drawn and can be embedded', async () => {
    await page.goto('/agents/atlas-travel');
    await page.locator('#badge').scrollIntoViewIfNeeded();
    const drawn = await page.locator('#badge img').evaluateAll(all => all.map(one => one.naturalWidth));
    must(drawn.length > 0 && drawn.every(width => width > 0), `${drawn}`);
    for (const label of ['Markdown', 'HTML']) {
      const embed = await page.getByLabel(label).inputValue();
      must(embed.includes(`${demo.url}/v1/agents/atlas-travel/badge.svg`), embed);
    }
  });
  await report.check('a credential is issued and downloaded', async () => {
    await page.goto('/agents/atlas-travel');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Issue and download a credential' }).click(),
    ]);
    must(download.suggestedFilename().endsWith('.json'), download.suggestedFilename());
    const issued = JSON.parse(await fs.readFile(await download.path(), 'utf8'));
    must(issued.proof, `no proof: ${Object.keys(issued)}`);
    await page.reload();
    must((await page.locator('#badge li .tag').count()) > 0, 'it is not listed');
  });
  await report.check('the verdicts on one agent\'s results', async () => {
    await page.goto('/agents/marlow-research');
    await page.getByRole('link', { name: 'The newest verdicts on its results' }).click();
    await page.waitForURL(/tools\?agent=marlow-research/);
    const others = await page.locator('.verdicts a[href^="/agents/"]').evaluateAll(all => all.map(one => one.getAttribute('href')));
    same(others.filter(href => href !== '/agents/marlow-research'), [], 'others');
    await page.getByRole('navigation', { name: 'Which verdicts' }).getByRole('link', { name: 'Flagged and blocked' }).click();
    await page.waitForURL(/only=doubtful&agent=marlow-research/);
    await page.getByText('On what marlow-research reported').waitFor();
  });
  await report.check('whose reviews count is told, and those that do not are a link away', async () => {
    await page.goto('/agents/harbor-support');
    await page.getByText(/Whose reviews count/).click();
    const authors = page.locator('#reputation table th[scope=row] a');
    must((await authors.count()) > 0, 'nobody is named');
    await page.getByRole('link', { name: 'all reviews of it' }).click();
    await page.waitForURL(/log\?kind=review/);
    must((await page.locator('main table tbody tr').count()) >= 1, 'no entry is listed');
  });
  report.none('the page of an agent is quiet', taken());
  await close();
}

export const inView = (page, selector) =>
  page.waitForFunction(selector => {
    const box = document.querySelector(selector).getBoundingClientRect();
    return box.top < innerHeight - 20 && box.bottom > 20;
  }, selector, { timeout: 60_000 }).then(() => true, () => false);

// Another character of the same alphabet in the middle of a word of base64.
const bent = word => {
  const at = Math.floor(word.length / 2);
  return word.slice(0, at) + (word[at] === 'A' ? 'B' : 'A') + word.slice(at + 1);
};

const HASH = /^[A-Za-z0-9+/]{43}=$/;

// What a liar could do to a proof on its way.
const LIES = {
  'a hash': lines => lines.map((line, n) => (n === lines.findIndex(one => HASH.test(one)) ? bent(line) : line)),
  'a missing hash': lines => lines.filter((_, n) => n !== lines.findIndex(one => HASH.test(one))),
  'a letter of the entry': lines =>
    lines.map(line => {
      if (!line.startsWith('extra ')) return line;
      const bytes = Buffer.from(line.slice(6), 'base64');
      bytes[Math.floor(bytes.length / 2)] = 1; // No letter at all, in JSON.
      return `extra ${bytes.toString('base64')}`;
    }),
  'the entry': lines => lines.map(line => (line.startsWith('extra ') ? `extra ${bent(line.slice(6))}` : line)),
  'the signature': lines =>
    lines.map(line => (line.startsWith('— ') ? line.replace(/\S+$/, signature => bent(signature)) : line)),
  'the root': lines => {
    const blank = lines.indexOf('');
    return lines.map((line, n) => (n === blank + 3 ? bent(line) : line));
  },
  'the size': lines => {
    const blank = lines.indexOf('');
    return lines.map((line, n) => (n === blank + 2 ? String(Number(line) + 1) : line));
  },
  'its form': lines => ['c2sp.org/tlog-proof@v9', ...lines.slice(1)],
  'which key signed': lines =>
    lines.map(line => (line.startsWith('— ') ? line.replace(/\S+$/, signature => (signature[0] === 'A' ? 'B' : 'A') + signature.slice(1)) : line)),
  'the number': lines => lines.map(line => (/^index \d+$/.test(line) ? `index ${Number(line.slice(6)) + 1}` : line)),
};

export async function proofs(browser, report, demo, { size }) {
  const { page, taken, close } = await watched(browser, demo.url);
  const seq = Math.floor(size / 2);
  const outcome = async place => {
    await page.locator(`${place} [data-check]`).click();
    const said = page.locator(`${place} .outcome`);
    await said.filter({ hasText: /\w/ }).waitFor();
    return said.innerText();
  };
  await report.check('the proof of an entry holds', async () => {
    await page.goto('/log');
    await page.getByLabel('Entry', { exact: true }).fill(String(seq));
    await page.getByRole('button', { name: 'Show its proof' }).click();
    await page.waitForURL(/entry=/);
    same(await outcome('#inclusion'), 'The proof holds.', 'it says');
    must((await page.locator('#inclusion .proof li').count()) > 5, 'no steps are shown');
  });
  for (const n of [0, 1, size - 1]) {
    await report.check(`the proof of entry ${n} of ${size} holds`, async () => {
      await page.goto(`/log?entry=${n}`);
      same(await outcome('#inclusion'), 'The proof holds.', 'it says');
    });
  }
  for (const [what, lie] of Object.entries(LIES)) {
    await report.check(`a lie about ${what} is found out`, async () => {
      await page.goto(`/log?entry=${seq}`);
      let lied = false;
      await page.route('**/v1/log/proofs/*', async route => {
        const response = await route.fetch();
        const body = await response.text();
        const changed = lie(body.split('\n')).join('\n');
        lied = changed !== body;
        await route.fulfill({ response, body: changed });
      });
      const said = await outcome('#inclusion');
      await page.unroute('**/v1/log/proofs/*');
      must(lied, 'nothing was changed');
      must(/does NOT hold/.test(said), `it says: ${said}`);
      must(await page.locator('#inclusion .outcome.fails').isVisible(), 'it does not look like a failure');
    });
  }
  for (const [what, change] of [
    ['the text', code => { code.textContent = code.textContent.replace(/"kind": "\w+"/, '"kind": "score"').replace(/"recorded_at": "2/, '"recorded_at": "3'); }],
    ['the heading', code => { code.dataset.subject = 'my-evil-agent'; }],
  ]) {
    await report.check(`a page that shows another entry than the one proved is found out by ${what}`, async () => {
      await page.goto(`/log?entry=${seq}`);
      await page.locator('[data-entry]').evaluate(change);
      const said = await outcome('#inclusion');
      must(/does NOT hold: the page/.test(said), `it says: ${said}`);
    });
  }
  await report.check('a proof that did not arrive is no accusation', async () => {
    await page.goto(`/log?entry=${seq}`);
    await page.evaluate(() => { globalThis.fetch = () => Promise.reject(new TypeError('the network is away')); });
    await page.locator('#inclusion [data-check]').click();
    const said = page.locator('#inclusion .outcome.unknown');
    await said.waitFor();
    must(/could not be checked/.test(await said.innerText()), `it says: ${await said.innerText()}`);
  });
  await report.check('the log has kept its past', async () => {
    await page.goto('/log');
    await page.getByLabel('Earlier size').fill(String(Math.floor(size / 3)));
    await page.getByRole('button', { name: 'Show the proof' }).click();
    await page.waitForURL(/older=/);
    same(await outcome('#consistency'), 'The proof holds.', 'it says');
    const kept = page.getByLabel('The root that you kept');
    await kept.fill(await page.locator('#consistency').getAttribute('data-older-root'));
    same(await outcome('#consistency'), 'The proof holds.', 'with the root that was kept it says');
    await kept.fill('AAAA');
    must(/does NOT hold: the root that you kept/.test(await outcome('#consistency')), 'another root than the one kept passes');
  });
  for (const [older, newer] of [[1, size], [4096, size], [size, size], [size - 1, size], [7, 1000], [1000, 1000]]) {
    await report.check(`the log of ${older} is in the log of ${newer}`, async () => {
      await page.goto(`/log?older=${older}&newer=${newer}`);
      same(await outcome('#consistency'), 'The proof holds.', 'it says');
    });
  }
  for (const attribute of ['hashes', 'olderRoot', 'newerRoot', 'onward', 'note']) {
    await report.check(`another past is found out by ${attribute}`, async () => {
      await page.goto(`/log?older=${Math.floor(size / 3)}&newer=${size - 5}`);
      await page.locator('#consistency').evaluate((place, attribute) => {
        const old = place.dataset[attribute];
        place.dataset[attribute] = (old[0] === 'A' ? 'B' : 'A') + old.slice(1);
      }, attribute);
      const said = await outcome('#consistency');
      must(/does NOT hold/.test(said), `it says: ${said}`);
    });
  }
  report.none('the checks of proofs are quiet', taken());
  await close();
}

export async function feedback(browser, report, demo, { tools }) {
  const { page, taken, close } = await watched(browser, demo.url);
  const tool = tools.find(path => /^\/tools\/\w+$/.test(path)) ?? tools[0];
  await report.check('feedback on a verdict is taken and counted', async () => {
    await page.goto(tool);
    const count = async () => Number.parseInt(await page.locator('dt:text-is("Feedback") + dd').innerText(), 10);
    const before = await count();
    await page.getByRole('button', { name: /genuine/ }).first().click();
    await page.waitForURL(/thanks/);
    await page.getByText('Recorded').first().waitFor();
    const after = await count();
    must(after > before, `${before}, then ${after}`);
  });
  report.none('feedback is quiet', taken());
  await close();
}
