// Checks proofs of the log in the reader's own browser, step by step (RFC 6962, RFC 9162 §2.1.3.2 and §2.1.4.2; C2SP
// tlog-checkpoint and tlog-proof). Nothing is asked of the server but the proof itself.
"use strict";
(() => {
  const subtle = globalThis.crypto && globalThis.crypto.subtle;
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
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

  // The parts of a proof file: an entry, its number, hashes, and a signed checkpoint.
  const parseProof = (text) => {
    const lines = text.split("\n");
    const blank = lines.indexOf("");
    const head = lines.slice(0, blank);
    const find = (name) => head.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1);
    const index = Number(find("index"));
    const extra = find("extra");
    const hashes = head.filter((line) => /^[A-Za-z0-9+/]{43}=$/.test(line)).map(bytesOf);
    if (!Number.isSafeInteger(index) || extra === undefined) throw new Error("this is no proof that this page can read");
    return { index, entry: bytesOf(extra), hashes, note: lines.slice(blank + 1).join("\n") };
  };

  // The signed text, and what it says: the log's name, its size, its root.
  const parseNote = (note) => {
    const end = note.indexOf("\n\n");
    const text = note.slice(0, end + 1);
    const [origin, size, root] = text.split("\n");
    const signatures = note.slice(end + 2).split("\n").filter((line) => line.startsWith("— "));
    return { text, origin, size: Number(size), root: bytesOf(root), signatures };
  };

  const verifyNote = async (note, logKey) => {
    // name+hash+base64(algorithm byte and key)
    const [name, , encoded] = [logKey.slice(0, logKey.indexOf("+")), null, logKey.slice(logKey.indexOf("+", logKey.indexOf("+") + 1) + 1)];
    const key = bytesOf(encoded);
    if (key[0] !== 1) throw new Error("the log's key is not Ed25519");
    const line = note.signatures.find((line) => line.split(" ")[1] === name);
    if (!line || note.origin !== name) throw new Error("the checkpoint is not signed by this log");
    const signature = bytesOf(line.split(" ")[2]).slice(4); // after four bytes that name the key
    const imported = await subtle.importKey("raw", key.slice(1), { name: "Ed25519" }, false, ["verify"]);
    return subtle.verify({ name: "Ed25519" }, imported, signature, new TextEncoder().encode(note.text));
  };

  // RFC 9162 §2.1.3.2
  const rootFromInclusion = async (index, size, leaf, hashes, step) => {
    let fn = BigInt(index), sn = BigInt(size) - 1n, hash = leaf;
    if (fn > sn) throw new Error("the entry is beyond the checkpoint");
    for (const sibling of hashes) {
      if (sn === 0n) throw new Error("the proof is too long");
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
    if (sn !== 0n) throw new Error("the proof is too short");
    return hash;
  };

  // RFC 9162 §2.1.4.2
  const checkConsistency = async (older, newer, olderRoot, newerRoot, given, step) => {
    if (older === newer) {
      if (given.length) throw new Error("the proof is too long");
      step("both sizes are the same: so must be the roots");
      return same(olderRoot, newerRoot);
    }
    const hashes = [...given];
    if ((older & (older - 1n)) === 0n) hashes.unshift(olderRoot);
    if (!hashes.length) throw new Error("the proof is too short");
    let fn = older - 1n, sn = newer - 1n;
    while (fn & 1n) { fn >>= 1n; sn >>= 1n; }
    let fr = hashes[0], sr = hashes[0];
    step(`begin with ${short(fr)}, which both logs hold`);
    for (const hash of hashes.slice(1)) {
      if (sn === 0n) throw new Error("the proof is too long");
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
    if (sn !== 0n) throw new Error("the proof is too short");
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
    let holds = false;
    try {
      holds = await check(step);
      outcome.textContent = holds ? "The proof holds." : "The proof does NOT hold.";
    } catch (error) {
      outcome.textContent = `The proof does NOT hold: ${error.message}`;
    }
    outcome.classList.add(holds ? "holds" : "fails");
  };

  const inclusion = (place) => run(place, async (step) => {
    const response = await fetch(`/v1/log/proofs/${encodeURIComponent(place.dataset.seq)}`);
    if (!response.ok) throw new Error(`there is no such proof (${response.status})`);
    const proof = parseProof(await response.text());
    if (String(proof.index) !== place.dataset.seq) throw new Error("the proof is of another entry");
    const note = parseNote(proof.note);
    step(`the checkpoint says: ${note.size} entries under root ${base64(note.root)}`);
    if (!(await verifyNote(note, place.dataset.logKey))) throw new Error("the checkpoint's signature is wrong");
    step(`its Ed25519 signature verifies with the log's key ${place.dataset.logKey}`);
    const leaf = await leafHash(proof.entry);
    step(`the entry's ${proof.entry.length} bytes hash to the leaf ${base64(leaf)}`);
    const root = await rootFromInclusion(proof.index, note.size, leaf, proof.hashes, step);
    step(`computed root: ${base64(root)}`);
    return same(root, note.root);
  });

  const consistency = (place) => run(place, (step) => {
    const { older, newer, olderRoot, newerRoot, hashes } = place.dataset;
    const list = hashes.split(" ").filter(Boolean).map(bytesOf);
    return checkConsistency(BigInt(older), BigInt(newer), bytesOf(olderRoot), bytesOf(newerRoot), list, step);
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
