//! What people and machines see: tables and sentences, or JSON; progress on standard error.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, presets};
use credence_protocol::{Timestamp, is_deceptive};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

const RED: Style = AnsiColor::Red.on_default().bold();

/// How to print.
pub struct Output {
    pub json: bool,
}

impl Output {
    /// JSON for machines, or what `human` prints.
    pub fn show(&self, value: &impl Serialize, human: impl FnOnce() -> String) -> anyhow::Result<()> {
        let mut text = if self.json { escaped_json(&serde_json::to_string(value)?) } else { printable(&human()) };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        anstream::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    /// The error at the end, with its causes.
    pub fn error(&self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        // Nothing can be done about a standard error that takes no text.
        let _ = if self.json {
            writeln!(io::stderr(), "{}", serde_json::json!({ "error": text }))
        } else {
            writeln!(anstream::stderr(), "{RED}error:{RED:#} {}", printable(&text))
        };
    }

    /// A remark for people, on standard error.
    pub fn note(&self, text: &str) {
        if !self.json {
            let _ = writeln!(anstream::stderr(), "{}", printable(text));
        }
    }

    /// A progress bar over `total` steps (or a counter, when that is not known), on a terminal only.
    pub fn progress(&self, total: Option<u64>, what: &str) -> ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(8));
        let template = match total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            None => "{spinner} {msg} {human_pos} {per_sec} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// A plain table with a header. Columns named in `right` are aligned to the right.
pub fn table(header: &[&str], right: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().map(|name| name.to_uppercase()));
    for row in rows {
        // A line break in a cell would look like another row.
        table.add_row(row.into_iter().map(|cell| cell.replace('\n', "\\n")));
    }
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if right.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Text that a terminal shows as it is: control characters, and those that hide or turn a text around, are written out.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) && c != '\n' { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// The same for JSON, which stays the same JSON: such characters are only in strings, or are white space between tokens.
pub fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_deceptive(c) || is_joiner(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out
}

/// Not shown, and needed in names of some scripts; a person who looks for tricks wants to see them.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// A time for people: whole seconds, as documents write it.
pub fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// `1 source`, `2 sources`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `never`, `once`, `3 times`.
pub fn times(n: u64) -> String {
    match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// A reader that closed early (`| head`) is no error of ours.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Where something was drawn, as a line of its own.
pub fn drawn(path: Option<&std::path::Path>) -> String {
    path.map_or(String::new(), |path| format!("\ndrawn into {}", path.display()))
}
