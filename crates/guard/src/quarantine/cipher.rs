//! Encryption of kept results: XChaCha20-Poly1305 under a key of 32 random bytes, with a random nonce of 24 bytes for each file.
//!
//! ```text
//! file = "credence-quarantine/1\n" ‖ nonce ‖ ciphertext and tag
//! associated data = "credence-quarantine/1\n" ‖ context
//! ```
//!
//! The context names server, place, call and kind of file, so that no file passes for another. The key is the file `quarantine.key`
//! in the state folder, readable by its owner alone.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use chacha20poly1305::{
    Key, XChaCha20Poly1305, XNonce,
    aead::{AeadInOut, KeyInit},
};
use credence_receipts::folder;
use data_encoding::BASE64URL_NOPAD;

use super::QuarantineError as Error;

/// What a file begins with.
const HEADER: &[u8] = b"credence-quarantine/1\n";
/// The key's file.
const KEY_FILE: &str = "quarantine.key";
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;

/// The key of a state folder.
pub struct QuarantineKey {
    /// Its file.
    pub path: PathBuf,
    cipher: XChaCha20Poly1305,
}

/// The key's file in a state folder.
pub fn key_file(state: &Path) -> PathBuf {
    state.join(KEY_FILE)
}

impl QuarantineKey {
    /// The key of a state folder, made when there is none. Two guards that start at once get the same.
    pub fn read_or_create(state: &Path) -> Result<Self, Error> {
        let path = key_file(state);
        let io = |e| Error::Io(path.clone(), e);
        if !path.exists() {
            folder::create_private(state)?;
            let mut key = [0; KEY_BYTES];
            getrandom::fill(&mut key).map_err(|_| Error::NoRandomness)?;
            let next = path.with_extension(format!("{}.next", std::process::id()));
            let _ = fs::remove_file(&next);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next).map_err(io)?;
            let text = BASE64URL_NOPAD.encode(&key) + "\n";
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            // A link to what exists already fails: the other's key stays.
            let linked = written.and_then(|()| fs::hard_link(&next, &path));
            let _ = fs::remove_file(&next);
            match linked {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io(e)),
                _ => {}
            }
        }
        Self::read(&path)
    }

    /// The key of a state folder; `None` where there is none.
    pub fn open(state: &Path) -> Result<Option<Self>, Error> {
        let path = key_file(state);
        match path.try_exists() {
            Ok(false) => Ok(None),
            Ok(true) => Self::read(&path).map(Some),
            Err(e) => Err(Error::Io(path, e)),
        }
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let io = |e| Error::Io(path.to_owned(), e);
        let refuse = |why: String| Error::Key(path.to_owned(), why);
        let mode = fs::metadata(path).map_err(io)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(refuse(format!("others can read it (mode {:o}): chmod 600", mode & 0o777)));
        }
        let text = fs::read_to_string(path).map_err(io)?;
        let decoded = BASE64URL_NOPAD.decode(text.trim().as_bytes()).ok();
        let bytes: Option<[u8; KEY_BYTES]> = decoded.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| refuse("it is not 32 bytes in base64url".to_owned()))?;
        Ok(Self { path: path.to_owned(), cipher: XChaCha20Poly1305::new(&Key::from(bytes)) })
    }

    /// Encrypts.
    pub fn seal(&self, context: &str, mut plain: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| Error::NoRandomness)?;
        let sealed = self.cipher.encrypt_in_place(&XNonce::from(nonce), &associated(context), &mut plain);
        // Only a message of 256 GiB is refused.
        sealed.map_err(|_| Error::Key(self.path.clone(), "nothing can be encrypted with it".to_owned()))?;
        Ok([HEADER, &nonce, &plain].concat())
    }

    /// Decrypts; `None` where it was changed, cut off, is of another context, or was encrypted under another key.
    pub fn open_sealed(&self, context: &str, file: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = file.strip_prefix(HEADER)?.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let mut buffer = sealed.to_vec();
        let opened = self.cipher.decrypt_in_place(&XNonce::from(nonce), &associated(context), &mut buffer);
        opened.ok().map(|()| buffer)
    }
}

fn associated(context: &str) -> Vec<u8> {
    [HEADER, context.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_here_for_this_opens() {
        let state = tempfile::tempdir().unwrap();
        let key = QuarantineKey::read_or_create(state.path()).unwrap();
        let secret = b"the password is hunter2".to_vec();
        let sealed = key.seal("fs/1/item/7", secret.clone()).unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        assert_ne!(sealed, key.seal("fs/1/item/7", secret.clone()).unwrap(), "a nonce is used once");
        let again = QuarantineKey::open(state.path()).unwrap().unwrap();
        assert_eq!(again.open_sealed("fs/1/item/7", &sealed), Some(secret));
        assert_eq!(again.open_sealed("fs/1/item/8", &sealed), None, "a file does not pass for another");
        for at in [0, HEADER.len(), HEADER.len() + NONCE_BYTES, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(again.open_sealed("fs/1/item/7", &changed), None, "byte {at}");
        }
        for cut in [0, 10, HEADER.len() + 5, sealed.len() - 1] {
            assert_eq!(again.open_sealed("fs/1/item/7", &sealed[..cut]), None, "{cut} bytes");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let other = QuarantineKey::read_or_create(elsewhere.path()).unwrap();
        assert_eq!(other.open_sealed("fs/1/item/7", &sealed), None, "another key");
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let state = tempfile::tempdir().unwrap();
        assert!(QuarantineKey::open(state.path()).unwrap().is_none());
        QuarantineKey::read_or_create(state.path()).unwrap();
        let path = key_file(state.path());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(QuarantineKey::open(state.path()).err().unwrap().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "not a key").unwrap();
        assert!(QuarantineKey::open(state.path()).err().unwrap().to_string().contains("32 bytes"));
    }
}
