// What can be said of any page: its structure, whether it fits, whether everyone can use it.
import { axe } from './browser.mjs';

// A title, one h1, a language, pictures with a text, links into the page that lead somewhere.
export function structure(page) {
  return page.evaluate(() => {
    const wrong = [];
    if (!document.title.trim() || document.title.startsWith('·')) wrong.push('no title');
    const headings = document.querySelectorAll('h1');
    if (headings.length !== 1) wrong.push(`${headings.length} h1`);
    else if (!headings[0].textContent.trim()) wrong.push('an empty h1');
    if (!document.documentElement.lang) wrong.push('no lang');
    for (const img of document.images) {
      if (!img.hasAttribute('alt')) wrong.push(`no alt: ${img.outerHTML.slice(0, 90)}`);
      if (img.complete && !img.naturalWidth) wrong.push(`broken: ${img.src}`);
    }
    for (const link of document.querySelectorAll('a[href*="#"]')) {
      const url = new URL(link.href);
      const here = url.pathname === location.pathname && url.search === location.search;
      if (here && url.hash.length > 1 && !document.getElementById(decodeURIComponent(url.hash.slice(1))))
        wrong.push(`${url.hash} leads nowhere`);
    }
    return wrong;
  });
}

// What is folded is looked at, too.
export function unfold(page) {
  return page.evaluate(() => document.querySelectorAll('details').forEach(one => { one.open = true; }));
}

// Elements that make the page wider than the window.
export function sticksOut(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const wide = document.documentElement.scrollWidth;
    if (wide <= innerWidth) return [];
    const held = one => {
      for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
        if (getComputedStyle(up).overflowX !== 'visible') return true;
      return false;
    };
    const name = one => {
      const id = one.id ? `#${one.id}` : '';
      const classes = typeof one.className === 'string' && one.className ? `.${one.className.trim().replace(/\s+/g, '.')}` : '';
      return `${one.localName}${id}${classes}`;
    };
    const out = [...document.body.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > width + 0.5 && !held(one));
    // The innermost say most.
    const inner = out.filter(one => !out.some(other => other !== one && one.contains(other)));
    return [`the page is ${wide} px wide in a window of ${innerWidth} px`, ...inner.slice(0, 5).map(one =>
      `${name(one.parentElement)} > ${name(one)} ends at ${Math.round(one.getBoundingClientRect().right)} ("${one.textContent.trim().slice(0, 40)}")`)];
  });
}

// Cells that are so narrow that their words stand letter under letter.
export function squeezed(page) {
  return page.evaluate(() => {
    const found = [];
    for (const cell of document.querySelectorAll('main th, main td')) {
      const words = cell.innerText.split(/\s+/).filter(Boolean);
      const style = getComputedStyle(cell);
      const height = cell.clientHeight - Number.parseFloat(style.paddingTop) - Number.parseFloat(style.paddingBottom);
      const range = document.createRange();
      range.selectNodeContents(cell);
      const lines = Math.round(Math.min(height, range.getBoundingClientRect().height) / Number.parseFloat(style.lineHeight));
      if (lines > 3 && lines > words.length + 1 && cell.clientWidth < 110)
        found.push(`"${words.join(' ').slice(0, 40)}" takes ${lines} lines of ${cell.clientWidth} px`);
    }
    return found;
  });
}

// Writing in a chart that its frame cuts off, or that stands on other writing.
export function charts(page) {
  return page.evaluate(() => {
    const wrong = [];
    for (const svg of document.querySelectorAll('main svg')) {
      const frame = svg.getBoundingClientRect();
      if (!frame.width) continue;
      const title = svg.querySelector('title')?.textContent ?? svg.getAttribute('aria-label') ?? 'a chart';
      const texts = [...svg.querySelectorAll('text')]
        .map(one => ({ text: one.textContent.trim(), box: one.getBoundingClientRect() }))
        .filter(({ text, box }) => text && box.width);
      for (const { text, box } of texts)
        if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
          wrong.push(`"${text}" is cut off in ${title}`);
      texts.forEach((one, n) => texts.slice(n + 1).forEach(other => {
        const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
        const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
        if (across > 1.5 && down > 0.35 * Math.min(one.box.height, other.box.height))
          wrong.push(`"${one.text}" and "${other.text}" stand on each other in ${title}`);
      }));
    }
    return wrong;
  });
}

// Brings the rules of axe along to every page of a context; the page's policy does not govern what the browser itself runs.
export function bringRules(context) {
  return context.addInitScript({ content: axe });
}

// Serious and critical violations of the rules of axe.
export function violations(page, rules = {}) {
  return page.evaluate(async rules => {
    const options = { resultTypes: ['violations'], iframes: false, preload: false, ...rules };
    const { violations } = await window.axe.run(document, options);
    return violations
      .filter(one => ['serious', 'critical'].includes(one.impact))
      .map(one => {
        const why = node => [...node.any, ...node.all, ...node.none][0]?.message ?? '';
        const shown = one.nodes.slice(0, 3).map(node => `${node.target.join(' ')} (${why(node)})`);
        return `${one.id} [${one.impact}] ×${one.nodes.length}: ${shown.join(', ')}`;
      });
  }, rules);
}
