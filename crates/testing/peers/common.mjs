// What the Node peers share: where the packages are, the data the servers answer with, the steps a client takes.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'credence/peers/node/');
// The packages are not beside these programs; every one of them has a CommonJS build.
export const load = createRequire(cache);

export const sleep = ms => new Promise(done => setTimeout(done, ms));

// Looks until `holds`; gives whether it did within half a minute, which is far longer than anything takes.
export async function until(holds) {
  for (const end = Date.now() + 30_000; !holds(); await sleep(10)) if (Date.now() > end) return false;
  return true;
}

export function weather(city) {
  let hash = 7;
  for (const byte of Buffer.from(city)) hash = (hash * 31 + byte) % 65521;
  return {
    temperature: (hash % 400) / 10 - 5,
    humidity: 20 + (hash % 80),
    conditions: ['sunny', 'cloudy', 'rain', 'snow', 'fog'][hash % 5],
  };
}

// One transparent pixel.
export const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
export const bigNumber = '{"n":12345678901234567890,"f":1.0,"e":1e2}';
export const text = value => ({ content: [{ type: 'text', text: value }] });

// Cancelled calls of `slow`, over all sessions; the tool `cancelled` waits for one, says how many, and starts again at 0.
let cancellations = 0;
export async function slow({ ms, steps }, signal, progress) {
  for (let step = 1; step <= steps; step++) {
    await sleep(ms / steps);
    if (signal.aborted) {
      cancellations += 1;
      throw new Error('cancelled');
    }
    await progress({ progress: step, total: steps, message: `step ${step} of ${steps}` });
  }
  return text(`done after ${steps} steps`);
}
export async function cancelled() {
  await until(() => cancellations > 0);
  const said = text(`cancelled: ${cancellations}`);
  cancellations = 0;
  return said;
}

// `--http PORT`, `--json` (answers as JSON instead of an event stream, where the SDK can), `--stateless`.
export function options() {
  const args = process.argv.slice(2);
  const http = args.indexOf('--http');
  return {
    port: http < 0 ? undefined : Number(args[http + 1]),
    json: args.includes('--json'),
    stateless: args.includes('--stateless'),
  };
}

export function listen(server, port) {
  server.listen(port, '127.0.0.1', () => process.stderr.write(`listening on ${server.address().port}\n`));
}

// Everything that a client receives, in steps.
export class Steps {
  constructor() {
    this.steps = [];
    this.received = {};
    this.guard = [];
  }
  // A notification or a request from the server, within the step that is running. Names of sessions are random.
  note(kind, value) {
    const plain = JSON.stringify(clean(value)).replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID');
    (this.received[kind] ??= []).push(JSON.parse(plain));
  }
  // Every frame that arrives. Progress is taken here: the SDKs drop what comes together with the answer.
  tap(transport) {
    const next = transport.onmessage;
    transport.onmessage = (message, extra) => {
      const said = message?.result?._meta?.['credence/guard'];
      if (said !== undefined) this.guard.push(said);
      if (this.progress && message?.method === 'notifications/progress') {
        const { progressToken, ...progress } = message.params;
        this.note('progress', progress);
      }
      next?.call(transport, message, extra);
    };
  }
  async run(step, work) {
    this.received = {};
    this.guard = [];
    this.progress = false;
    const entry = { step };
    try {
      const value = await work();
      Object.assign(entry, { ok: true, value: clean(value) ?? null });
    } catch (error) {
      Object.assign(entry, { ok: false, error: failure(error) });
    }
    // What came before the answer has its handlers called by then.
    await new Promise(setImmediate);
    if (Object.keys(this.received).length) entry.received = this.received;
    entry.guard = this.guard;
    this.steps.push(entry);
    return entry;
  }
  print() {
    // At once: what is still buffered when the process exits is lost on a pipe.
    let rest = Buffer.from(JSON.stringify(this.steps, null, 1) + '\n');
    while (rest.length > 0) {
      try {
        rest = rest.subarray(fs.writeSync(1, rest));
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
      }
    }
  }
}

// A result without what the guard added.
export function clean(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  const copy = { ...value };
  if (copy._meta) {
    copy._meta = { ...copy._meta };
    delete copy._meta['credence/guard'];
    delete copy._meta.progressToken;
    if (Object.keys(copy._meta).length === 0) delete copy._meta;
  }
  return copy;
}

function failure(error) {
  const said = { message: String(error?.message ?? error) };
  if (error?.code !== undefined) said.code = error.code;
  if (error?.data !== undefined) said.data = error.data;
  return said;
}

// `[--script NAME] [FLAGS] (--stdio COMMAND ARGS… | --url URL)`
export function clientArguments() {
  const args = process.argv.slice(2);
  const said = { script: 'own', flags: [] };
  while (args.length) {
    const arg = args.shift();
    if (arg === '--script') said.script = args.shift();
    else if (arg === '--url') said.url = args.shift();
    else if (arg === '--stdio') {
      said.command = args.shift();
      said.args = args.splice(0);
    } else said.flags.push(arg);
  }
  if (!said.url && !said.command) {
    process.stderr.write('usage: client [--script NAME] (--stdio COMMAND ARGS… | --url URL)\n');
    process.exit(2);
  }
  return said;
}

// Answers to what servers ask.
export const answers = {
  sampling: { model: 'fixed-model', role: 'assistant', stopReason: 'endTurn', content: { type: 'text', text: 'a fixed thought' } },
  elicitation: { action: 'accept', content: { name: 'Ada', count: 3 } },
  roots: { roots: [{ uri: 'file:///tmp', name: 'tmp' }] },
};

// The sequence against our own servers. `sdk` hides what differs between the two SDKs.
// With `--plain` in it, without the steps that need messages from the server during a call (a server with `--json` has none).
const chatty = ['progress', 'cancel', 'cancelled', 'log', 'ask', 'think', 'announce'];
export async function own(steps, client, sdk, flags) {
  const run = async (step, work) => {
    if (!flags.includes('--plain') || !chatty.includes(step)) await steps.run(step, work);
  };
  const call = (name, args = {}, options, meta) =>
    client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, ...sdk.callOptions(options));
  await run('list tools', () => client.listTools());
  await run('list resources', () => client.listResources());
  await run('list templates', () => client.listResourceTemplates());
  await run('list prompts', () => client.listPrompts());
  await run('read resource', () => client.readResource({ uri: 'peer://note' }));
  await run('read template', () => client.readResource({ uri: 'peer://city/Oslo' }));
  await run('read unknown', () => client.readResource({ uri: 'peer://nothing' }));
  await run('get prompt', () => client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } }));
  await run('log level', () => client.setLoggingLevel('info'));
  await run('ping', () => client.ping());
  for (const city of ['London', 'Paris', 'Zürich', '東京']) await run(`weather ${city}`, () => call('get_weather', { city }));
  await run('echo', () => call('echo', { text: 'hello \u0000 \u2028 "quoted" \\ / \u{1f600}' }));
  await run('echo with meta', () => call('echo', { text: 'traced' }, undefined, { 'example.org/trace': 'abc' }));
  await run('progress', () => {
    steps.progress = true;
    return call('slow', { ms: 60, steps: 3 }, { onprogress() {} });
  });
  await run('without progress', () => call('slow', { ms: 30, steps: 2 }));
  await run('cancel', async () => {
    const stop = new AbortController();
    // Longer than anyone waits: it ends because it is cancelled.
    return call('slow', { ms: 100_000, steps: 2000 }, {
      signal: stop.signal,
      onprogress: progress => {
        if (stop.signal.aborted) return;
        steps.note('progress', progress);
        stop.abort('enough');
      },
    });
  });
  await run('cancelled', () => call('cancelled'));
  await run('fail', () => call('fail'));
  await run('big number', () => call('big_number'));
  await run('image', () => call('image'));
  await run('log', async () => {
    const result = await call('log', { text: 'a line' }, undefined, sdk.logMeta);
    await until(() => steps.received.log);
    return result;
  });
  await run('ask', () => call('ask'));
  await run('think', () => call('think'));
  await run('announce', () => sdk.announce(() => call('announce')));
  await run('parallel', () => Promise.all(['Rome', 'Cairo', 'Lima', 'Quito'].map(city => call('get_weather', { city }).then(clean))));
  await run('unknown tool', () => call('no_such_tool'));
  await run('bad arguments', () => call('get_weather', { city: 7 }));
  await run('unknown method', () => sdk.request({ method: 'credence/unknown', params: { a: 1 } }));
}

// No client may hang: what is there by then is printed, and the exit code says that it is not all.
export function deadline(steps, seconds = 240) {
  setTimeout(() => {
    steps.print();
    process.stderr.write('client: not done in time\n');
    process.exit(3);
  }, seconds * 1000).unref();
}
