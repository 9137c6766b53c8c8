//! Data that belongs to others and lies beside the checkout, in `../shared`: recorded streams, public vectors.

use std::{env, fs};

use crate::project_root;

/// The text of a file in `../shared`. Where it is not there the test is skipped, visibly; with `SHARED_TESTS=required` it fails.
pub fn shared(file: &str) -> Option<String> {
    let path = project_root().join("../shared").join(file);
    match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            let required = env::var_os("SHARED_TESTS").is_some_and(|value| value == "required");
            assert!(!required, "SHARED_TESTS=required, and {} cannot be read: {error}", path.display());
            eprintln!("SKIPPED: {} cannot be read: {error}", path.display());
            None
        }
    }
}
