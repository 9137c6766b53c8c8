// Sequences for the public servers, with the SDK 1.x client.
import { join } from 'node:path';
import { until } from './common.mjs';

export async function everything(steps, client, sdk) {
  const call = (name, args = {}, options) => steps.run(name, () => client.callTool({ name, arguments: args }, undefined, options));
  // This server adds tools once it has seen what the client can do, then asks for its roots and logs that it has them.
  await until(() => steps.received.log ?? steps.steps[0].received?.log);
  delete steps.steps[0].received;
  await steps.run('list tools', () => client.listTools());
  await steps.run('list resources', () => client.listResources());
  await steps.run('list templates', () => client.listResourceTemplates());
  await steps.run('list prompts', () => client.listPrompts());
  await steps.run('read resource', () => client.readResource({ uri: 'demo://resource/static/document/features.md' }));
  // Dynamic resources say the time.
  await steps.run('read template', async () => {
    const { contents } = await client.readResource({ uri: 'demo://resource/dynamic/text/2' });
    return contents.map(({ uri, mimeType, text }) => ({ uri, mimeType, text: typeof text }));
  });
  // Each with a line in the log, which over HTTP comes by another stream.
  const logged = async result => {
    await until(() => steps.received.log);
    return result;
  };
  await steps.run('subscribe', () => client.subscribeResource({ uri: 'demo://resource/dynamic/text/1' }).then(logged));
  await steps.run('unsubscribe', () => client.unsubscribeResource({ uri: 'demo://resource/dynamic/text/1' }).then(logged));
  await steps.run('simple prompt', () => client.getPrompt({ name: 'simple-prompt' }));
  await steps.run('args prompt', () => client.getPrompt({ name: 'args-prompt', arguments: { city: 'Oslo', state: 'N' } }));
  await steps.run('complete', () =>
    client.complete({ ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument: { name: 'department', value: 'E' } }));
  await steps.run('log level', () => client.setLoggingLevel('debug'));
  await steps.run('ping', () => client.ping());
  await call('echo', { message: 'hello' });
  await call('get-sum', { a: 2, b: 40.5 });
  for (const messageType of ['error', 'success', 'debug']) await call('get-annotated-message', { messageType, includeImage: true });
  for (const location of ['New York', 'Chicago', 'Los Angeles']) await call('get-structured-content', { location });
  await call('get-tiny-image');
  await call('get-resource-links', { count: 3 });
  await steps.run('get-resource-reference', async () => {
    const { content } = await client.callTool({ name: 'get-resource-reference', arguments: { resourceType: 'Text', resourceId: 1 } });
    return content.map(({ type, text, resource }) => ({ type, text, uri: resource?.uri }));
  });
  await call('gzip-file-as-resource', { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resource' });
  await steps.run('trigger-long-running-operation', () => {
    steps.progress = true;
    return client.callTool({ name: 'trigger-long-running-operation', arguments: { duration: 0.5, steps: 5 } }, undefined, { onprogress() {} });
  });
  await call('trigger-sampling-request', { prompt: 'Think.', maxTokens: 20 });
  await call('trigger-elicitation-request');
  await call('trigger-url-elicitation', { url: 'https://example.org/', elicitationId: 'one' });
  // The error names an id that the server makes up.
  await steps.run('trigger-url-elicitation by error', () =>
    client.callTool({ name: 'trigger-url-elicitation', arguments: { url: 'https://example.org/again', errorPath: true } }).catch(error => {
      for (const one of error.data?.elicitations ?? []) one.elicitationId = typeof one.elicitationId;
      throw error;
    }));
  await call('get-roots-list');
  await call('get-sum', { a: 'two' });
  await call('no-such-tool');
  await steps.run('task', async () => {
    const said = [];
    const stream = client.experimental.tasks.callToolStream({ name: 'simulate-research-query', arguments: { topic: 'tea' } }, undefined, { task: { ttl: 60000 } });
    for await (const message of stream)
      if (message.type === 'taskCreated') said.push({ type: message.type, status: message.task.status });
      else if (message.type !== 'taskStatus') said.push({ type: message.type, error: message.error?.message, kinds: message.result?.content?.map(c => c.type) });
    return said;
  });
  await steps.run('unknown method', () => sdk.request({ method: 'credence/unknown' }));
}

export async function filesystem(steps, client, sdk) {
  const folder = process.env.PEER_FOLDER;
  if (!folder) throw new Error('PEER_FOLDER is not set');
  const at = name => join(folder, name);
  // The folder's own name differs from run to run.
  const call = (name, args = {}) =>
    steps.run(name, async () => JSON.parse(JSON.stringify(await client.callTool({ name, arguments: args })).replaceAll(folder, 'FOLDER')));
  await steps.run('list tools', () => client.listTools());
  await call('list_allowed_directories');
  await call('create_directory', { path: at('sub/deep') });
  await call('write_file', { path: at('a.txt'), content: 'one\ntwo\nthree\n' });
  await call('write_file', { path: at('sub/b.json'), content: '{"n":12345678901234567890}' });
  await call('read_text_file', { path: at('a.txt') });
  await call('read_file', { path: at('a.txt'), head: 1 });
  await call('read_multiple_files', { paths: [at('a.txt'), at('sub/b.json'), at('missing')] });
  await call('edit_file', { path: at('a.txt'), edits: [{ oldText: 'two', newText: 'zwei' }], dryRun: true });
  await call('edit_file', { path: at('a.txt'), edits: [{ oldText: 'two', newText: 'zwei' }] });
  await call('read_text_file', { path: at('a.txt') });
  await call('list_directory', { path: folder });
  await call('list_directory_with_sizes', { path: folder });
  await call('directory_tree', { path: folder });
  await call('search_files', { path: folder, pattern: '**/*.json' });
  await call('move_file', { source: at('a.txt'), destination: at('sub/c.txt') });
  await call('list_directory', { path: at('sub') });
  await call('read_text_file', { path: at('a.txt') });
  await call('read_text_file', { path: '/etc/passwd' });
  await call('write_file', { path: at('big.txt'), content: 'x'.repeat(300000) });
  await call('read_text_file', { path: at('big.txt') });
  await call('no_such_tool');
  await steps.run('unknown method', () => sdk.request({ method: 'credence/unknown' }));
}
