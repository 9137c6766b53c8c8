use std::io::Write;

use clap::Subcommand;
use credence_protocol::{Statement, limits::MAX_STATEMENT_INPUT_BYTES};
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{
    home::Home,
    lines::Lines,
    output::{self, Output},
    statement,
};

#[derive(Subcommand)]
pub enum Command {
    /// Submit statements that were signed elsewhere (`--sign-only`): a file with one, or one a line
    Submit {
        /// A file; - for standard input
        #[arg(default_value = "-")]
        file: String,
    },
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    let Command::Submit { file } = command;
    let authority = home.authority()?;
    let (mut lines, mut refused) = (Vec::new(), 0);
    for line in Lines::open(&file, MAX_STATEMENT_INPUT_BYTES + 1, MAX_STATEMENT_INPUT_BYTES)? {
        let (number, bytes) = line?;
        let kind = Statement::parse(&bytes).map_or("statement", |statement| statement.kind().key());
        let shown: Value = match authority.publish(&bytes)? {
            Ok(published) => {
                json!({ "line": number, "kind": kind, "seq": published.seq, "known": published.known, "remark": published.remark })
            }
            Err(rejection) => {
                refused += 1;
                json!({ "line": number, "kind": kind, "error": rejection.to_string(), "code": rejection.code() })
            }
        };
        if out.json {
            writeln!(std::io::stdout(), "{shown}")?;
        }
        lines.push(shown);
    }
    statement::score_and_flush(&authority, out)?;
    if !out.json {
        out.show(&lines, || {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let rows = lines.iter().map(|line| {
                let what = match (&line["error"], &line["remark"]) {
                    (Value::Null, Value::Null) => format!("entry {}", line["seq"]),
                    (Value::Null, remark) => format!("entry {}; {}", line["seq"], text(remark)),
                    (error, _) => format!("refused: {}", text(error)),
                };
                vec![line["line"].to_string(), text(&line["kind"]), what]
            });
            output::table(&["line", "kind", "what became of it"], &["line"], rows)
        })?;
    }
    Ok(answer(refused > 0))
}
