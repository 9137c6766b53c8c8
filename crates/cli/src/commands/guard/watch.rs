//! `credence guard status --watch`: the status again and again. On a terminal it is drawn anew; with `--json` one object a line, whenever
//! something is different.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use crate::{
    commands::Done,
    output::{Output, printable},
};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// Clears the screen and goes to its corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Shows what `look` gives (as JSON, and as text) until the reader goes away.
pub fn watch(out: &Output, look: &dyn Fn() -> anyhow::Result<(serde_json::Value, String)>) -> Done {
    let mut before = None;
    let terminal = std::io::stdout().is_terminal();
    loop {
        let (value, text) = look()?;
        let line = serde_json::to_string(&value)?;
        if before.as_ref() != Some(&line) {
            let shown = match out.json {
                true => format!("{line}\n"),
                false if terminal => format!("{CLEAR}{}", printable(&text)),
                false => format!("{}\n", printable(&text)),
            };
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(shown.as_bytes())?;
            stdout.flush()?;
            before = Some(line);
        }
        std::thread::sleep(EVERY);
    }
}
