// What the pages look like, for people to look at.
import fs from 'node:fs/promises';
import { join } from 'node:path';
import { PHONE, WIDE, watched } from './browser.mjs';

const MOST = 250_000; // Bytes of a picture that goes into the README.

export async function pictures(browser, report, demo, folder, { agents, tools, size }) {
  const tool = tools.find(path => /^\/tools\/\w+$/.test(path)) ?? tools[0];
  const list = [
    ['agents', '/'],
    ['agent', '/agents/atlas-travel'],
    ['tools', '/tools'],
    ['tool', tool],
    ['log', '/log'],
    ['entry', `/log?entry=${Math.floor(size / 2)}`],
    ['consistency', `/log?older=${Math.floor(size / 3)}&newer=${size}`],
    ['sources', '/sources'],
    ['outcomes', '/outcomes'],
    ['status', '/status'],
    ['sign-in', '/sign-in'],
    ['not-found', '/agents/nobody-of-this-name'],
    ['unscored', agents.find(path => path.includes('sprout')) ?? agents.at(-1)],
    ['agents-phone', '/', PHONE],
    ['agent-phone', '/agents/atlas-travel', PHONE],
    ['agents-dark', '/', WIDE, 'dark'],
    ['agent-dark', '/agents/atlas-travel', WIDE, 'dark'],
  ];
  await fs.mkdir(folder, { recursive: true });
  const { page, close } = await watched(browser, demo.url, { deviceScaleFactor: 1 });
  for (const [name, path, viewport = WIDE, colorScheme = 'light'] of list) {
    await report.check(`${name}.png`, async () => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await page.goto(path);
      // As it looks to whoever stays a moment.
      if (await page.locator('main [data-live]').count()) await page.locator('#pulse').waitFor();
      const picture = await page.screenshot({ path: join(folder, `${name}.png`) });
      if (picture.length > MOST) throw new Error(`${picture.length} bytes`);
    });
  }
  await close();
}
