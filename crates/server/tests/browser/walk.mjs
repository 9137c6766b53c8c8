// The dashboard in a real browser. Prints a line for each check; ends with 1 where one failed.
//   walk.mjs OUT              services are named by DEMO_URL, DEMO_TOKEN, AUTHORITY_URL, AUTHORITY_TOKEN
//   walk.mjs OUT CREDENCE     starts them itself, with this binary
// OUT is a folder for pictures of the pages.
import { atMost, launch } from './browser.mjs';
import { agent, feedback, proofs, weights } from './flows.mjs';
import { hostile, prepare } from './hostile.mjs';
import { keyboard } from './keyboard.mjs';
import { deaf, live } from './live.mjs';
import { addresses, follow, list, paging, ranking, walk } from './pages.mjs';
import { pictures } from './pictures.mjs';
import { plain } from './plain.mjs';
import { Report } from './report.mjs';
import { services } from './services.mjs';
import { session } from './session.mjs';

const [out, binary] = process.argv.slice(2);
const { DEMO_URL, DEMO_TOKEN, AUTHORITY_URL, AUTHORITY_TOKEN } = process.env;
if (!out || !(binary || (DEMO_URL && DEMO_TOKEN && AUTHORITY_URL && AUTHORITY_TOKEN))) {
  console.error('usage: walk.mjs OUT [CREDENCE]   (without CREDENCE: DEMO_URL, DEMO_TOKEN, AUTHORITY_URL, AUTHORITY_TOKEN)');
  process.exit(64);
}

const begun = Date.now();
const report = new Report();
const { demo, authority, stop } = binary
  ? await services(binary, out)
  : {
      demo: { url: DEMO_URL, token: DEMO_TOKEN },
      authority: { url: AUTHORITY_URL, token: AUTHORITY_TOKEN },
      stop: async () => {},
    };

let browser;
try {
  browser = await launch();
  // Before anything odd is brought in.
  await part('pictures', async () => pictures(browser, report, demo, out, await addresses(browser, demo)));
  await prepare(demo, authority);
  const known = await addresses(browser, demo);
  const paths = list(known);
  // Most of this is waiting; nothing else that is measured in time runs beside it.
  const following = part('live', () => live(browser, report, demo));
  await part('flows', async () => {
    await Promise.all([
      (async () => {
        await ranking(browser, report, demo);
        await paging(browser, report, authority);
        await weights(browser, report, demo);
        await agent(browser, report, demo);
        await feedback(browser, report, demo, known);
        await keyboard(browser, report, demo);
      })(),
      (async () => {
        await proofs(browser, report, demo, known);
        await session(browser, report, authority);
        await hostile(browser, report, demo, authority);
        await deaf(browser, report, demo);
      })(),
    ]);
  });
  await following;
  await part('plain', () => plain(browser, report, demo, paths, known));
  await part('pages', async () => {
    const links = await walk(browser, report, demo, paths, 'demo');
    await follow(browser, report, demo, links, 'demo');
    const ordinary = ['/', '/?page=2', '/agents/hostile', '/tools', '/log', '/sources', '/outcomes', '/status', '/sign-in'];
    await follow(browser, report, authority, await walk(browser, report, authority, ordinary, 'authority'), 'authority');
  });
} catch (error) {
  report.fail('the walk comes to its end', error.stack);
} finally {
  if (browser) await atMost(20, browser.close());
  await stop();
}

// What goes wrong outside of a check is a failure of its part, not the end of all.
async function part(name, body) {
  const since = Date.now();
  try {
    await body();
  } catch (error) {
    report.fail(`${name} comes to its end`, error.stack);
  }
  console.log(`-- ${name}: ${((Date.now() - since) / 1000).toFixed(1)} s`);
}

console.log(`${report.passed} passed, ${report.failed.length} failed, in ${((Date.now() - begun) / 1000).toFixed(1)} s`);
// A browser that has not closed is not waited for: it goes with this program.
process.exit(report.failed.length ? 1 : 0);
