//! A message in other encodings: of content, and of characters.

/// In stored blocks, as every reader of the format takes it.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let count = bytes.chunks(65_535).len().max(1);
    for n in 0..count {
        let part = bytes.chunks(65_535).nth(n).unwrap_or_default();
        let length = u16::try_from(part.len()).unwrap();
        out.push(u8::from(n + 1 == count));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(stored(bytes));
    out.extend_from_slice(&(!crc).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out
}

pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let mut out = vec![0x78, 0x01];
    out.extend(stored(bytes));
    out.extend_from_slice(&((b << 16) | a).to_be_bytes());
    out
}

/// One block that is not compressed: 16 bits of window, 4 nibbles of length.
pub fn brotli(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().clamp(1, 65_536).min(bytes.len())];
    let head = ((bytes.len().max(1) as u32 - 1) << 4) | (1 << 20);
    let mut out = head.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(bytes);
    out.push(3);
    out
}

pub fn utf16(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

pub fn utf32(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).chars().flat_map(|c| u32::from(c).to_le_bytes()).collect()
}

/// A notification with a text which, read as UTF-7, ends early and is followed by the message.
pub fn hidden_in_utf7(bytes: &[u8]) -> Vec<u8> {
    let message = String::from_utf8_lossy(bytes);
    let hidden = format!("\"}}}}{message}{{\"a\":{{\"b\":\"");
    // Everything as UTF-16 in base64: for a reader of UTF-8 letters of a text.
    let units: Vec<u8> = hidden.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let shifted = data_encoding::BASE64_NOPAD.encode(&units);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":"+{shifted}-"}}}}"#).into_bytes()
}

/// For an address or a form.
pub fn percent(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}
