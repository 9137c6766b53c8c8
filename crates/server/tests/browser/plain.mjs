// Without JavaScript: everything is there, and forms are forms.
import { watched } from './browser.mjs';
import { day } from './pages.mjs';
import { must, same } from './report.mjs';

export async function plain(browser, report, demo, paths, { tools, size }) {
  const { page, taken, close } = await watched(browser, demo.url, { javaScriptEnabled: false });
  const empty = [];
  for (const path of paths) {
    await page.goto(path, { waitUntil: 'domcontentloaded' });
    const said = (await page.locator('main').innerText()).trim();
    if (said.length < 60) empty.push(`${path}: "${said}"`);
    if (/^\/agents\/[^?]+$/.test(path) && !path.includes('nobody') && (await page.locator('main figure svg').count()) < 1)
      empty.push(`${path}: no chart`);
  }
  report.none(`${paths.length} pages have their content without JavaScript`, empty);
  await report.check('without JavaScript: search', async () => {
    await page.goto('/');
    await page.getByLabel('Search', { exact: true }).fill('atlas');
    await page.getByRole('button', { name: 'Show' }).click();
    same(await page.locator('table.agents th[scope=row] a').allInnerTexts(), ['Atlas Travel'], 'found');
  });
  await report.check('without JavaScript: one\'s own weights', async () => {
    await page.goto('/');
    await page.getByText('Rank by your own weights').click();
    await page.getByLabel('use these weights').check();
    await page.locator('.sliders input').first().focus();
    await page.keyboard.press('Home');
    await page.getByRole('button', { name: 'Rank' }).click();
    await page.waitForURL(/own=1/);
    await page.getByText('your weights', { exact: true }).waitFor();
    same(await page.locator('.sliders input').first().inputValue(), '0', 'the slider');
  });
  await report.check('without JavaScript: the score of a date', async () => {
    await page.goto('/agents/atlas-travel');
    await page.getByLabel('Date', { exact: true }).fill(day(-10));
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('the same to the last bit').waitFor();
  });
  await report.check('without JavaScript: feedback', async () => {
    await page.goto(tools.find(path => /^\/tools\/\w+$/.test(path)) ?? tools[0]);
    await page.getByRole('button', { name: /genuine/ }).first().click();
    await page.waitForURL(/thanks/);
    await page.getByText('Recorded').first().waitFor();
  });
  await report.check('without JavaScript: no button that does nothing, and a way to check all the same', async () => {
    await page.goto(`/log?entry=${size - 1}`);
    must(!(await page.locator('[data-check]').isVisible()), 'the button is shown');
    must(/credence check/.test(await page.locator('#entry-shown').innerText()), 'no command is shown');
  });
  report.none('without JavaScript all is quiet', taken());
  await close();
}
