//! Bytes that must not change unnoticed, kept in `testdata/`.

use crate::project_root;

/// Compares `bytes` with the vector `testdata/NAME`. A format that changes on purpose needs a new format number and a line in
/// CHANGELOG.md; then `BLESS=1 cargo nextest run` writes the vectors anew.
pub fn assert_vector(name: &str, bytes: &[u8]) {
    let path = project_root().join("testdata").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; BLESS=1 writes it", path.display()));
    let (kept, made) = (String::from_utf8_lossy(&kept), String::from_utf8_lossy(bytes));
    assert_eq!(kept, made, "{}: the format changed", path.display());
}
