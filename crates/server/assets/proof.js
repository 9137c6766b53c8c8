// Checks proofs of the log in the reader's own browser, step by step (RFC 6962, RFC 9162 §2.1.3.2 and §2.1.4.2; C2SP
// tlog-checkpoint and tlog-proof). Nothing is asked of the server but the proof itself.
"use strict";
(() => {
  const subtle = globalThis.crypto && globalThis.crypto.subtle;
  const bytesOf = (base64) => {
    try {
      return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    } catch {
      throw new Wrong("a part of it cannot be decoded");
    }
  };
  const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
  const same = (a, b) => a.length === b.length && a.every((byte, n) => byte === b[n]);
  const join = (...parts) => {
    const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) { all.set(part, at); at += part.length; }
    return all;
  };
  const sha256 = async (bytes) => new Uint8Array(await subtle.digest("SHA-256", bytes));
  const leafHash = (entry) => sha256(join(Uint8Array.of(0), entry));
  const nodeHash = (left, right) => sha256(join(Uint8Array.of(1), left, right));
  const short = (hash) => `${base64(hash).slice(0, 12)}…`;

  // What is wrong with a proof, as against what kept it from being checked.
  class Wrong extends Error {}
  const must = (holds, why) => { if (!holds) throw new Wrong(why); };

  // The parts of a proof file, read as strictly as `credence check` reads them: an entry, its number, hashes, a signed checkpoint.
  const parseProof = (text) => {
    const at = text.indexOf("\n\n");
    const [header, extra, index, ...hashes] = text.slice(0, at).split("\n");
    must(at > 0 && header === "c2sp.org/tlog-proof@v1", "this is no proof of an entry");
    must(/^extra [A-Za-z0-9+/]+={0,2}$/.test(extra || ""), "the proof holds no entry");
    must(/^index (0|[1-9][0-9]{0,15})$/.test(index || ""), "the proof does not say which entry it is of");
    must(hashes.every((hash) => /^[A-Za-z0-9+/]{43}=$/.test(hash)), "a line of the proof is no hash");
    return { index: index.slice(6), entry: bytesOf(extra.slice(6)), hashes: hashes.map(bytesOf), note: text.slice(at + 2) };
  };

  // The signed text, and what it says: the log's name, its size, its root.
  const parseNote = (note) => {
    const end = note.lastIndexOf("\n\n");
    const text = note.slice(0, end + 1);
    const [origin, size, root] = text.split("\n");
    must(end > 0 && /^(0|[1-9][0-9]{0,15})$/.test(size || "") && /^[A-Za-z0-9+/]{43}=$/.test(root || ""), "the checkpoint cannot be read");
    const signatures = note.slice(end + 2).split("\n").filter((line) => line.startsWith("\u2014 "));
    return { text, origin, size: Number(size), root: bytesOf(root), signatures };
  };

  // NAME+HASH+KEY: the hash, four bytes, names the key in a signature (C2SP signed-note).
  const verifyNote = async (note, logKey) => {
    const [, name, hash, encoded] = /^([^+ ]+)\+([0-9a-f]{8})\+(.+)$/.exec(logKey) || [];
    must(name !== undefined, "the log's key cannot be read");
    const key = bytesOf(encoded);
    must(key[0] === 1 && key.length === 33, "the log's key is not Ed25519");
    const id = (await sha256(join(new TextEncoder().encode(`${name}\n`), key))).slice(0, 4);
    must([...id].map((byte) => byte.toString(16).padStart(2, "0")).join("") === hash, "the log's key is not the one that it is named as");
    must(note.origin === name, "the checkpoint is of another log");
    const signatures = note.signatures.map((line) => line.split(" ")).filter((parts) => parts[1] === name && parts.length === 3);
    const own = signatures.map((parts) => bytesOf(parts[2])).find((bytes) => bytes.length === 68 && same(bytes.slice(0, 4), id));
    must(own !== undefined, "the checkpoint is not signed by this log");
    const imported = await subtle.importKey("raw", key.slice(1), { name: "Ed25519" }, false, ["verify"]);
    must(await subtle.verify({ name: "Ed25519" }, imported, own.slice(4), new TextEncoder().encode(note.text)), "the checkpoint's signature is wrong");
  };

  // RFC 9162 §2.1.3.2
  const rootFromInclusion = async (index, size, leaf, hashes, step) => {
    let fn = BigInt(index), sn = BigInt(size) - 1n, hash = leaf;
    if (fn > sn) throw new Wrong("the entry is beyond the checkpoint");
    for (const sibling of hashes) {
      if (sn === 0n) throw new Wrong("the proof is too long");
      if (fn & 1n || fn === sn) {
        const next = await nodeHash(sibling, hash);
        step(`the neighbour on the left ${short(sibling)} with ${short(hash)} gives ${short(next)}`);
        hash = next;
        if (!(fn & 1n)) while (!(fn & 1n) && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
      } else {
        const next = await nodeHash(hash, sibling);
        step(`${short(hash)} with the neighbour on the right ${short(sibling)} gives ${short(next)}`);
        hash = next;
      }
      fn >>= 1n; sn >>= 1n;
    }
    if (sn !== 0n) throw new Wrong("the proof is too short");
    return hash;
  };

  // RFC 9162 §2.1.4.2
  const checkConsistency = async (older, newer, olderRoot, newerRoot, given, step) => {
    if (older === newer) {
      if (given.length) throw new Wrong("the proof is too long");
      step("both sizes are the same: so must be the roots");
      return same(olderRoot, newerRoot);
    }
    const hashes = [...given];
    if ((older & (older - 1n)) === 0n) hashes.unshift(olderRoot);
    if (!hashes.length) throw new Wrong("the proof is too short");
    let fn = older - 1n, sn = newer - 1n;
    while (fn & 1n) { fn >>= 1n; sn >>= 1n; }
    let fr = hashes[0], sr = hashes[0];
    step(`begin with ${short(fr)}, which both logs hold`);
    for (const hash of hashes.slice(1)) {
      if (sn === 0n) throw new Wrong("the proof is too long");
      if (fn & 1n || fn === sn) {
        fr = await nodeHash(hash, fr);
        sr = await nodeHash(hash, sr);
        step(`${short(hash)} on the left of both: earlier ${short(fr)}, later ${short(sr)}`);
        if (!(fn & 1n)) while (!(fn & 1n) && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
      } else {
        sr = await nodeHash(sr, hash);
        step(`${short(hash)} came later, on the right: later ${short(sr)}`);
      }
      fn >>= 1n; sn >>= 1n;
    }
    if (sn !== 0n) throw new Wrong("the proof is too short");
    step(`computed root of the earlier log: ${base64(fr)}`);
    step(`computed root of the later log: ${base64(sr)}`);
    return same(fr, olderRoot) && same(sr, newerRoot);
  };

  const run = async (place, check) => {
    const list = place.querySelector(".proof");
    const outcome = place.querySelector(".outcome");
    list.replaceChildren();
    outcome.textContent = "";
    outcome.className = "outcome";
    const step = (text) => {
      const item = document.createElement("li");
      item.textContent = text;
      list.append(item);
    };
    let ended = "fails";
    try {
      await check(step);
      ended = "holds";
      outcome.textContent = "The proof holds.";
    } catch (error) {
      if (error instanceof Wrong) {
        outcome.textContent = `The proof does NOT hold: ${error.message}.`;
      } else {
        ended = "unknown";
        outcome.textContent = `It could not be checked here (${error.message}): the command below works anywhere.`;
      }
    }
    outcome.classList.add(ended);
  };

  // What the page shows is what was proved: the entry's own bytes are put in its place, and must say the same.
  const shown = (place, proof, step) => {
    let entry = null;
    try {
      entry = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(proof.entry));
    } catch {
      throw new Wrong("the entry that is proved cannot be read");
    }
    const article = place.closest("article");
    const code = article.querySelector("[data-entry]");
    const said = [code.dataset.kind, code.dataset.subject];
    must(said[0] === entry.kind && said[1] === entry.subject, "the page's heading is of another entry");
    let text = null;
    try { text = JSON.parse(code.textContent); } catch { /* Then it is another. */ }
    must(JSON.stringify(sorted(text)) === JSON.stringify(sorted(entry)), "the page shows another text than the entry that is proved");
    code.textContent = JSON.stringify(entry, null, 2);
    step("what is shown above is that entry");
  };
  const sorted = (value) => {
    if (Array.isArray(value)) return value.map(sorted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
  };

  const proofOf = async (seq) => {
    const response = await fetch(`/v1/log/proofs/${encodeURIComponent(seq)}`);
    if (!response.ok) throw new Error(`the proof did not arrive: ${response.status}`);
    const proof = parseProof(await response.text());
    must(proof.index === seq, "the proof is of another entry");
    return proof;
  };

  const signed = async (text, logKey, step) => {
    const note = parseNote(text);
    step(`the checkpoint says: ${note.size} entries under root ${base64(note.root)}`);
    await verifyNote(note, logKey);
    step(`its Ed25519 signature verifies with the log's key ${logKey}`);
    return note;
  };

  const inclusion = (place) => run(place, async (step) => {
    const proof = await proofOf(place.dataset.seq);
    const note = await signed(proof.note, place.dataset.logKey, step);
    const leaf = await leafHash(proof.entry);
    step(`its ${proof.entry.length} bytes hash to the leaf ${base64(leaf)}`);
    const root = await rootFromInclusion(proof.index, note.size, leaf, proof.hashes, step);
    step(`computed root: ${base64(root)}`);
    must(same(root, note.root), "the path does not lead to the checkpoint's root");
    shown(place, proof, step);
  });

  const consistency = (place) => run(place, async (step) => {
    const { older, newer, olderRoot, newerRoot, hashes, onward, note, logKey } = place.dataset;
    const listed = (text) => text.split(" ").filter(Boolean).map(bytesOf);
    const kept = place.querySelector("input[name=kept]").value.trim();
    if (kept) {
      must(kept.split(/\s+/).includes(olderRoot), `the root that you kept is not the one of ${older} entries`);
      step("the earlier root is the one that you kept");
    } else {
      step("the earlier root is what this page says: paste the one that you kept to compare");
    }
    const checkpoint = await signed(note, logKey, step);
    const [from, to] = [bytesOf(olderRoot), bytesOf(newerRoot)];
    must(await checkConsistency(BigInt(older), BigInt(newer), from, to, listed(hashes), step), "the hashes do not lead to these roots");
    step(`the log of ${newer} holds all of the log of ${older}`);
    must(await checkConsistency(BigInt(newer), BigInt(checkpoint.size), to, checkpoint.root, listed(onward), step), "the later root does not lead to the one that was signed");
    step(`and the signed log of ${checkpoint.size} holds all of that`);
  });

  const checks = { inclusion, consistency };
  for (const button of document.querySelectorAll("[data-check]")) {
    const place = button.closest("[id]");
    if (!subtle) {
      place.querySelector(".outcome").textContent = "This browser checks proofs only on https or localhost; the command below works anywhere.";
      continue;
    }
    button.hidden = false;
    button.addEventListener("click", () => checks[button.dataset.check](place));
  }
})();
