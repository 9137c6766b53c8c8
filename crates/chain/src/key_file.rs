//! Where a secret comes from: a file that only its owner may read, or an environment variable. No error repeats what was read.

use std::{env, fs::File, io::Read, path::Path};

use zeroize::Zeroizing;

use crate::ChainError;

/// Reads a file of mode 0600 (or 0400), `limit` bytes of it at most.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Zeroizing<String>, ChainError> {
    let shown = path.display();
    let failed = |e: std::io::Error| ChainError::Key(format!("{shown}: {e}"));
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ChainError::Key(format!("{shown} is not a file")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let why = format!("{shown} has mode {mode:04o}: others can read it. Run chmod 600 {shown}");
            return Err(ChainError::Key(why));
        }
    }
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(limit).unwrap_or_default()));
    file.take(limit).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads an environment variable.
pub(crate) fn from_environment(variable: &str) -> Result<Zeroizing<String>, ChainError> {
    env::var(variable).map(Zeroizing::new).map_err(|_| ChainError::Key(format!("{variable} is not set")))
}
