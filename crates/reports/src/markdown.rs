//! Markdown (CommonMark, with tables of GitHub's flavour). Every character that could begin a construct is escaped with a backslash,
//! `<`, `>` and `&` as entities, so that text shows as what it is in renderers of either kind; addresses in text do not become links.

use std::fmt::Write;

use crate::page::{Block, Inline, Line, Links, shown};

/// Renders a page.
pub fn render(blocks: &[Block], links: &Links) -> String {
    let mut out = String::new();
    for block in blocks {
        // Writing to a string does not fail.
        let _ = write_block(&mut out, block, links);
    }
    out
}

fn write_block(out: &mut String, block: &Block, links: &Links) -> std::fmt::Result {
    match block {
        Block::Heading(level, line) => {
            writeln!(out, "{} {}\n", "#".repeat(usize::from(*level).clamp(1, 6)), inline(line, links))
        }
        Block::Notice(line) => writeln!(out, "> **Note.** {}\n", inline(line, links)),
        Block::Paragraph(line) => writeln!(out, "{}\n", inline(line, links)),
        Block::Quote(paragraphs) => {
            let quoted: Vec<String> = paragraphs.iter().map(|text| format!("> {}", escaped(text))).collect();
            writeln!(out, "{}\n", quoted.join("\n>\n"))
        }
        Block::Facts(facts) => {
            for (name, line) in facts {
                writeln!(out, "- {name}: {}", inline(line, links))?;
            }
            writeln!(out)
        }
        Block::List(lines) => {
            for line in lines {
                writeln!(out, "- {}", inline(line, links))?;
            }
            writeln!(out)
        }
        Block::Table { columns, rows, .. } => {
            let heads: Vec<&str> = columns.iter().map(|column| column.name).chain(["Entry"]).collect();
            writeln!(out, "| {} |", heads.join(" | "))?;
            let rules = columns.iter().map(|column| if column.number { "---:" } else { "---" }).chain(["---"]);
            writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
            for row in rows {
                let cells: Vec<String> = row.lines().iter().map(|line| inline(line, links)).collect();
                writeln!(out, "| {} |", cells.join(" | "))?;
            }
            writeln!(out)
        }
        // Indented: no fence that the text could close.
        Block::Preformatted(text) => {
            for line in text.lines() {
                writeln!(out, "    {}", line.chars().map(shown).collect::<String>())?;
            }
            writeln!(out)
        }
    }
}

fn inline(line: &Line, links: &Links) -> String {
    line.iter()
        .map(|part| match part {
            Inline::Text(text) => escaped(text),
            Inline::Strong(text) => format!("**{}**", escaped(text)),
            Inline::Code(text) => code(text),
            Inline::Entry(seq) => format!("[entry {seq}]({})", links.entry(*seq)),
            Inline::Report(id) => format!("[report {}]({})", escaped(id), links.report(id)),
        })
        .collect()
}

/// As code where nothing in it could end the code or a cell; else as text.
fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~:/+=@# ".contains(c);
    if !text.is_empty() && text.chars().all(plain) { format!("`{text}`") } else { escaped(text) }
}

/// Text that shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = None;
    let mut rest = text.chars().map(shown).peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Words: `www.` and names of hosts become links in some renderers, and a number with a dot begins a list.
            '.' if next.is_some_and(char::is_alphanumeric) && !next.is_some_and(|c| c.is_ascii_digit()) => {
                out.push_str("\\.");
            }
            '.' | ')' if is_list_number(&out) && next.is_none_or(char::is_whitespace) => {
                out.push('\\');
                out.push(c);
            }
            '-' | '+' if before.is_none() => {
                out.push('\\');
                out.push(c);
            }
            ',' | ';' | '(' | ')' | '%' | '\'' | '.' | '-' | '+' | '?' | '/' => out.push(c),
            ':' if next != Some('/') => out.push(c),
            c if c.is_ascii_punctuation() => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// Whether what was written so far is a number alone.
fn is_list_number(before: &str) -> bool {
    !before.is_empty() && before.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_shows_as_what_it_is() {
        for (text, markdown) in [
            ("71.5 (60.2)", "71.5 (60.2)"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("[x](javascript:alert(1))", "\\[x\\](javascript:alert(1))"),
            ("![](https://a.example/t.png)", "\\!\\[\\](https\\://a\\.example/t\\.png)"),
            ("www.example.com me@example.com", "www\\.example\\.com me\\@example\\.com"),
            ("# a | b *c* _d_ `e` ~f~ \\", "\\# a \\| b \\*c\\* \\_d\\_ \\`e\\` \\~f\\~ \\\\"),
            ("1. one", "1\\. one"),
            ("- item", "\\- item"),
            ("a\nb\u{202e}c", "a\u{fffd}b\u{fffd}c"),
        ] {
            assert_eq!(escaped(text), markdown, "{text}");
        }
        assert_eq!(code("rel_uptime"), "`rel_uptime`");
        assert_eq!(code("a`b|c"), "a\\`b\\|c");
    }
}
