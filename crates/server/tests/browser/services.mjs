// Services to look at, where nobody has started any: a demo and an ordinary authority, ended with this program.
import { spawn } from 'node:child_process';
import fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

async function start(binary, args, cwd, log) {
  const child = spawn(binary, ['serve', '--json', '--listen', '127.0.0.1:0', ...args], {
    cwd,
    env: { ...process.env, CREDENCE_REQUESTS_PER_SECOND: '0', CREDENCE_NEW_ANSWERS_PER_SECOND: '0' },
    stdio: ['ignore', 'pipe', log.fd],
  });
  const line = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('exit', code => reject(new Error(`${binary} ended with ${code}`)));
  });
  const stop = () => new Promise(done => {
    child.once('exit', done);
    child.kill('SIGTERM');
  });
  return { said: JSON.parse(line), stop };
}

export async function services(binary, out) {
  await fs.mkdir(out, { recursive: true });
  const log = await fs.open(join(out, 'services.log'), 'w');
  const folder = await fs.mkdtemp(join(tmpdir(), 'credence-browser-'));
  const [demo, authority] = await Promise.all([start(binary, ['--demo'], folder, log), start(binary, [], folder, log)]);
  return {
    demo: { url: demo.said.url, token: demo.said.token },
    authority: { url: authority.said.listening, token: authority.said.admin_token },
    async stop() {
      await Promise.all([demo.stop(), authority.stop()]);
      await log.close();
      await fs.rm(folder, { recursive: true, force: true });
    },
  };
}
