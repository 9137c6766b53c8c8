// What is said of each check: one line, `ok …` or `FAIL … : why`. A check that fails stops no other.

const PATIENCE = 180_000; // Milliseconds that one check may take.

export class Report {
  passed = 0;
  failed = [];

  pass(name) {
    this.passed += 1;
    console.log(`ok ${name}`);
  }

  fail(name, why) {
    this.failed.push(name);
    console.log(`FAIL ${name} : ${String(why).replace(/\s*\n\s*/g, ' | ').slice(0, 900)}`);
  }

  // `found` is what is wrong: a list, best empty.
  none(name, found) {
    if (found.length) this.fail(name, found.slice(0, 5).join('; ') + (found.length > 5 ? `; and ${found.length - 5} more` : ''));
    else this.pass(name);
  }

  // Runs `body`; gives whether it went through.
  async check(name, body, patience = PATIENCE) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done within ${patience / 1000} s`)), patience);
    });
    try {
      await Promise.race([body(), late]);
      this.pass(name);
      return true;
    } catch (error) {
      this.fail(name, error.message ?? error);
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}

export function must(holds, why) {
  if (!holds) throw new Error(why);
}

export function same(actual, expected, what) {
  const [one, other] = [JSON.stringify(actual), JSON.stringify(expected)];
  must(one === other, `${what}: ${one} where ${other} was expected`);
}

// Runs `body` on each of `list`, `workers` at a time.
export async function each(list, workers, body) {
  const waiting = [...list];
  const work = async worker => {
    while (waiting.length) await body(waiting.shift(), worker);
  };
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
}
