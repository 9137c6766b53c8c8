//! Which servers a person means: by the label that a client has for them, or by the name of a folder.

use std::path::Path;

use anyhow::bail;
use credence_guard::identity::ServerIdentity;
use credence_receipts::folder;

/// The folders of the servers that `wanted` means: all those of this label, or the one folder of this name where its label is another.
pub fn meant(state: &Path, wanted: &str) -> anyhow::Result<Vec<String>> {
    let mut servers: Vec<String> = folder::all_places(state)?.into_iter().map(|(server, _, _)| server).collect();
    servers.dedup();
    let label = |server: &str| ServerIdentity::read(&state.join(server)).map(|known| known.label);
    let is_another = |one: &String| one == wanted && label(one).as_deref() != Some(wanted);
    if let Some(folder) = servers.iter().find(|one| is_another(one)) {
        return Ok(vec![folder.clone()]);
    }
    let meant: Vec<String> =
        servers.iter().filter(|one| *one == wanted || label(one).as_deref() == Some(wanted)).cloned().collect();
    if meant.is_empty() {
        let known = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
        bail!("no guard of '{wanted}' has run yet; known in {}: {known}", state.display());
    }
    Ok(meant)
}

/// The same for a flag that may be absent: `None` is every server.
pub fn meant_by(state: &Path, wanted: Option<&str>) -> anyhow::Result<Option<Vec<String>>> {
    wanted.map(|wanted| meant(state, wanted)).transpose()
}
