//! `credence guard off` and `on`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::bail;
use credence_guard::{
    identity::ServerIdentity,
    switch::{has_taken, operator, switch},
};
use credence_receipts::folder;
use serde_json::json;

use super::StateArgs;
use crate::{
    commands::{Done, answer},
    output::Output,
};

/// How long running guards may take to notice.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Args {
    /// The server: its label, or the name of its folder as `credence guard status` shows it
    server: String,
    #[command(flatten)]
    keeping: StateArgs,
}

/// Switches every server of that label, and waits until the running guards have noticed.
pub fn run(out: &Output, args: &Args, off: bool) -> Done {
    let state = args.keeping.folder()?;
    let places = folder::all_places(&state)?;
    let mut servers: Vec<&str> = places.iter().map(|(server, _, _)| server.as_str()).collect();
    servers.dedup();
    let label = |server: &str| ServerIdentity::read(&state.join(server)).map(|known| known.label);
    let meant: Vec<&str> = match servers.iter().any(|one| *one == args.server && label(one).as_deref() != Some(*one)) {
        true => vec![args.server.as_str()],
        false => {
            let of_label = |one: &&str| label(one).as_deref() == Some(args.server.as_str()) || *one == args.server;
            servers.iter().copied().filter(of_label).collect()
        }
    };
    if meant.is_empty() {
        let known = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
        bail!("no guard of '{}' has run yet; known in {}: {known}", args.server, state.display());
    }
    let key = args.keeping.secret(false)?;
    let word = if off { "off" } else { "on" };
    let (mut text, mut shown, mut late) = (String::new(), Vec::new(), 0);
    for server in meant {
        let Some(record) = switch(&state.join(server), &key, off, operator())? else {
            text += &format!("{server} is {word} already\n");
            shown.push(json!({ "server": server, "changed": false }));
            continue;
        };
        let running: Vec<PathBuf> = places
            .iter()
            .filter(|(name, _, place)| name == server && folder::running_process(place).is_some())
            .map(|(_, _, place)| place.clone())
            .collect();
        let until = Instant::now() + PATIENCE;
        let waits = |place: &&PathBuf| !has_taken(place, &record) && folder::running_process(place).is_some();
        while running.iter().any(|place| waits(&place)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let waiting = running.iter().filter(waits).count();
        late += waiting;
        text += &match running.len() {
            0 => format!("{server} is {word}: no guard of it runs; the next one begins so and records it\n"),
            n if waiting > 0 => {
                format!("{server} is {word}, and {waiting} of {n} running guards have not noticed yet\n")
            }
            n => format!("{server} is {word}: {n} running guard{} recorded it\n", if n == 1 { "" } else { "s" }),
        };
        shown.push(
            json!({ "server": server, "changed": true, "running": running.len(), "waiting": waiting, "id": record.id }),
        );
    }
    if off {
        text += "Results pass unjudged and unchanged. Receipts go on, and say that there is no verdict.\n";
    }
    out.show(&json!({ "off": off, "servers": shown }), || text)?;
    Ok(answer(late > 0))
}
