//! `credence guard off` and `on`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use credence_guard::{
    quarantine::reviewer::check_owner,
    switch::{has_taken, switch},
};
use credence_receipts::folder;
use serde_json::json;

use super::{StateArgs, servers};
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
    let meant = servers::meant(&state, &args.server)?;
    // A file of another user in it could not be read by its guards.
    check_owner(&state)?;
    let key = args.keeping.secret(false)?;
    let word = if off { "off" } else { "on" };
    let (mut text, mut shown, mut late) = (String::new(), Vec::new(), 0);
    for server in meant {
        let Some(record) = switch(&state.join(&server), &key, off)? else {
            text += &format!("{server} is {word} already\n");
            shown.push(json!({ "server": server, "changed": false }));
            continue;
        };
        let running: Vec<PathBuf> = places
            .iter()
            .filter(|(name, _, place)| *name == server && folder::running_process(place).is_some())
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
