# Verifies what Credence signs, without a line of it: Ed25519 (RFC 8032, section 6), canonical JSON (RFC 8785), Data Integrity
# proofs (eddsa-jcs-2022), and the log's tree (RFC 6962), in plain Python.
#
#   verify.py response   DID_KEY           < response.json
#   verify.py credential DID_KEY           < credential.json
#   verify.py log        VKEY URL
import base64, hashlib, json, sys

p = 2**255 - 19
d = -121665 * pow(121666, p - 2, p) % p
q = 2**252 + 27742317777372353535851937790883648493

def recover(y, sign):
    x2 = (y * y - 1) * pow(d * y * y + 1, p - 2, p) % p
    x = pow(x2, (p + 3) // 8, p)
    if (x * x - x2) % p: x = x * pow(2, (p - 1) // 4, p) % p
    if (x * x - x2) % p: sys.exit("not a point")
    return p - x if x & 1 != sign else x

def point(b):
    y = int.from_bytes(b, "little"); sign = y >> 255; y &= (1 << 255) - 1
    x = recover(y, sign)
    return (x, y, 1, x * y % p)

def add(P, Q):
    A, B = (P[1] - P[0]) * (Q[1] - Q[0]) % p, (P[1] + P[0]) * (Q[1] + Q[0]) % p
    C, D = 2 * P[3] * Q[3] * d % p, 2 * P[2] * Q[2] % p
    E, F, G, H = B - A, D - C, D + C, B + A
    return (E * F % p, G * H % p, F * G % p, E * H % p)

def times(s, P):
    Q = (0, 1, 1, 0)
    while s:
        if s & 1: Q = add(Q, P)
        P = add(P, P); s >>= 1
    return Q

def verify(key, message, signature):
    A, R, s = point(key), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if s >= q: return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % q
    By = 4 * pow(5, p - 2, p) % p
    B = (recover(By, 0), By, 1, recover(By, 0) * By % p)
    L, M = times(s, B), add(R, times(h, A))
    return (L[0] * M[2] - M[0] * L[2]) % p == 0 and (L[1] * M[2] - M[1] * L[2]) % p == 0

def jcs(v):
    if isinstance(v, dict):
        keys = sorted(v, key=lambda k: k.encode("utf-16-be"))
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + jcs(v[k]) for k in keys) + "}"
    if isinstance(v, list): return "[" + ",".join(map(jcs, v)) + "]"
    if isinstance(v, float):
        if v == int(v) and abs(v) < 1e21: return str(int(v))
        r = repr(v)
        if "e" in r:
            m, e = r.split("e"); e = int(e)
            return r if abs(e) >= 7 and e < 0 or e >= 21 else format(v, "f").rstrip("0")
        return r
    return json.dumps(v, ensure_ascii=False)

alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

def base58(text, length):
    number = 0
    for c in text: number = number * 58 + alphabet.index(c)
    return number.to_bytes(length, "big")

def did_key(did): return base58(did.removeprefix("did:key:z"), 34)[2:]

def unpadded(text): return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

def sha256(data): return hashlib.sha256(data).digest()

def response_holds(text, key):
    body = json.loads(text); signature = unpadded(body.pop("signature"))
    return len(signature) == 64 and verify(key, jcs(body).encode(), signature)

def credential_holds(text, key):
    document = json.loads(text); proof = document.pop("proof"); value = proof.pop("proofValue")
    if (proof["type"], proof["cryptosuite"]) != ("DataIntegrityProof", "eddsa-jcs-2022"): return False
    if proof["@context"] != document["@context"] or value[0] != "z": return False
    data = sha256(jcs(proof).encode()) + sha256(jcs(document).encode())
    return verify(key, data, base58(value[1:], 64))

def every_change_is_noticed(text, key, holds):
    def accepts(text):
        try: return holds(text, key)
        except (ValueError, KeyError, SystemExit, AttributeError, TypeError, OverflowError, IndexError): return False
    assert accepts(text), "it is not accepted"
    for n in range(0, len(text), max(1, len(text) // 60)):
        other = "x" if text[n] != "x" else "y"
        assert not accepts(text[:n] + other + text[n + 1:]), f"a change of character {n} is not noticed"
    print("accepted, and no change is")

# The log.

def leaf(data): return sha256(b"\0" + data)
def node(a, b): return sha256(b"\1" + a + b)

def root(hashes):
    if len(hashes) == 1: return hashes[0]
    half = 1
    while half * 2 < len(hashes): half *= 2
    return node(root(hashes[:half]), root(hashes[half:]))

def path_root(index, size, hash, path):
    """RFC 9162, section 2.1.3.2."""
    fn, sn = index, size - 1
    for p in path:
        assert sn, "the path is too long"
        if fn & 1 or fn == sn:
            hash = node(p, hash)
            while not fn & 1 and fn: fn >>= 1; sn >>= 1
        else: hash = node(hash, p)
        fn >>= 1; sn >>= 1
    assert sn == 0, "the path is too short"
    return hash

def consistent(older, newer, older_root, newer_root, path):
    """RFC 9162, section 2.1.4.2."""
    if older == newer: return older_root == newer_root and not path
    path = list(path)
    if older & (older - 1) == 0: path.insert(0, older_root)
    fn, sn = older - 1, newer - 1
    while fn & 1: fn >>= 1; sn >>= 1
    fr = sr = path[0]
    for c in path[1:]:
        assert sn
        if fn & 1 or fn == sn:
            fr, sr = node(c, fr), node(c, sr)
            while not fn & 1 and fn: fn >>= 1; sn >>= 1
        else: sr = node(sr, c)
        fn >>= 1; sn >>= 1
    return sn == 0 and fr == older_root and sr == newer_root

def get(url):
    import urllib.request
    with urllib.request.urlopen(url) as answer: return answer.read()

def open_checkpoint(note, vkey):
    text, signatures = note.split("\n\n")
    origin, size, hash = (text + "\n").split("\n")[:3]
    name, id, key = vkey.split("+", 2)
    key = base64.b64decode(key); assert key[0] == 1 and origin == name
    _, signer, blob = signatures.strip().split(" ")
    blob = base64.b64decode(blob)
    assert signer == name and blob[:4].hex() == id
    assert verify(key[1:], (text + "\n").encode(), blob[4:]), "the checkpoint's signature"
    return int(size), base64.b64decode(hash)

def tile_path(n):
    text = f"{n % 1000:03}"
    while n >= 1000: n //= 1000; text = f"x{n % 1000:03}/{text}"
    return text

def check_log(vkey, url):
    older, older_root = open_checkpoint(get(url + "/log/checkpoint").decode(), vkey)
    size, top = open_checkpoint(get(url + "/log/checkpoint").decode(), vkey)
    entries, level = [], []
    for n in range(0, size, 256):
        width = min(256, size - n)
        partial = "" if width == 256 else f".p/{width}"
        bundle = get(f"{url}/log/tile/entries/{tile_path(n // 256)}{partial}")
        while bundle:
            length = int.from_bytes(bundle[:2], "big")
            entries.append(bundle[2:2 + length]); bundle = bundle[2 + length:]
        tile = get(f"{url}/log/tile/0/{tile_path(n // 256)}{partial}")
        level += [tile[i:i + 32] for i in range(0, len(tile), 32)]
    assert len(entries) == size and level == [leaf(e) for e in entries], "level 0"
    assert root(level) == top, "the root"
    above = [root(level[n:n + 256]) for n in range(0, size // 256 * 256, 256)]
    for n in range(0, len(above), 256):
        width = min(256, len(above) - n)
        partial = "" if width == 256 else f".p/{width}"
        tile = get(f"{url}/log/tile/1/{tile_path(n // 256)}{partial}")
        assert [tile[i:i + 32] for i in range(0, len(tile), 32)] == above[n:n + width], "level 1"
    for seq in sorted({0, size // 3, size // 2, size - 1}):
        head, note = get(f"{url}/v1/log/proofs/{seq}").decode().split("\n\n", 1)
        lines = head.split("\n")
        assert lines[0] == "c2sp.org/tlog-proof@v1" and lines[2] == f"index {seq}"
        entry = base64.b64decode(lines[1].removeprefix("extra "))
        n, want = open_checkpoint(note, vkey)
        assert entry == entries[seq] and path_root(seq, n, leaf(entry), [base64.b64decode(h) for h in lines[3:]]) == want
    for first in sorted({1, size // 2, size - 1, size} - {0}):
        proof = json.loads(get(f"{url}/v1/log/consistency?older={first}"))
        n, want = open_checkpoint(proof["checkpoint"], vkey)
        assert consistent(first, n, root(level[:first]), want, [base64.b64decode(h) for h in proof["hashes"]]), first
    print(f"{size} entries agree")

what = sys.argv[1]
if what == "response": every_change_is_noticed(sys.stdin.read().strip(), did_key(sys.argv[2]), response_holds)
if what == "credential": every_change_is_noticed(sys.stdin.read().strip(), did_key(sys.argv[2]), credential_holds)
if what == "log": check_log(sys.argv[2], sys.argv[3])
